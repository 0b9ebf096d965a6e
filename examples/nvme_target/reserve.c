/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reservations that persist (PTPL): a file beside the configuration for each namespace that has had
 * one, replaced as a whole before the command is answered that changed it.
 *   P1 busy: the file is being written or removed. What is wanted meanwhile is written afterwards,
 *      and answers all before it.
 *   P2 Files are written in the order of the calls (save.c): a namespace that is added begins with
 *      the removal of a file that an earlier one of its id has left.
 */
#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tg_subsystem *owner(const struct tg_namespace *ns)
{
    return &tg.subs[ns->subsystem];
}

static int path_of(struct tg_namespace *ns, char *out, size_t size)
{
    static const unsigned char key[16] = "reservations of";
    const char *nqn = owner(ns)->nqn;
    int n = snprintf(out, size, "%s.%016" PRIx64 ".%" PRIu32 ".ptpl", tg.config,
                     snic_siphash(key, nqn, strlen(nqn)), ns->nsid);
    return n > 0 && (size_t)n < size ? 0 : -1;
}

/* ---- Written ---- */

static void record_write(struct tg_namespace *ns);
static void record_unlink(struct tg_namespace *ns);

static void record_next(struct tg_namespace *ns)
{
    struct tg_record *r = &ns->record;
    void (*after)(struct tg_namespace *) = r->after;
    if (r->remove) {
        record_unlink(ns);
    } else if (after != NULL) {
        r->after = NULL;
        after(ns);
    } else if (r->wanted != 0) {
        record_write(ns);
    }
}

static void record_done(struct tg_file *f)
{
    struct tg_record *r = SNIC_CONTAINER(f, struct tg_record, file);
    struct tg_namespace *ns = SNIC_CONTAINER(r, struct tg_namespace, record);
    uint64_t written = r->written;
    free(f->data);
    f->data = NULL;
    r->busy = 0;
    r->written = 0;
    if (f->os_error != 0)
        ex_log(EX_ERROR, "namespace %" PRIu32 " of %s: cannot store its reservations in %s: %s",
               ns->nsid, owner(ns)->nqn, r->path, strerror(f->os_error));
    if (tg_target() == NULL)
        return; /* it ends, and no command waits */
    if (written != 0)
        snic_nvmet_persisted(tg_target(), (uint32_t)owner(ns)->number, ns->nsid, written,
                             f->os_error != 0 ? SNIC_EIO : 0);
    if (!r->busy)
        record_next(ns);
}

static void record_refuse(struct tg_namespace *ns, int error)
{
    uint64_t sequence = ns->record.wanted;
    ns->record.wanted = 0;
    snic_nvmet_persisted(tg_target(), (uint32_t)owner(ns)->number, ns->nsid, sequence, error);
}

static void record_write(struct tg_namespace *ns)
{
    struct tg_record *r = &ns->record;
    const struct snic_nvmesub *engine = snic_nvmet_engine(tg_target(), (uint32_t)owner(ns)->number);
    size_t room = engine != NULL ? snic_nvmesub_record_max(engine) : 0;
    char *data = room > 0 ? malloc(room) : NULL;
    int n = data != NULL ? snic_nvmesub_record(engine, ns->nsid, data, room) : SNIC_ENOMEM;
    if (n < 0 || path_of(ns, r->path, sizeof(r->path)) != 0) {
        free(data);
        record_refuse(ns, n < 0 ? n : SNIC_EIO);
        return;
    }
    r->busy = 1;
    r->written = r->wanted;
    r->wanted = 0;
    r->file = (struct tg_file){.path = r->path, .data = data, .size = (size_t)n};
    r->file.done = record_done;
    tg_file_write(&r->file);
}

void tg_persist(void *ctx, uint32_t subsystem, uint32_t nsid, uint64_t sequence)
{
    struct tg_namespace *ns = NULL;
    (void)ctx;
    for (uint32_t i = 0; i < TG_SUBSYSTEMS && ns == NULL; i++)
        if (tg.subs[i].nqn[0] != 0 && tg.subs[i].number == (int)subsystem)
            ns = tg_namespace_find(&tg.subs[i], nsid);
    if (ns == NULL) {
        snic_nvmet_persisted(tg_target(), subsystem, nsid, sequence, SNIC_EIO);
        return;
    }
    ns->record.wanted = sequence;
    if (!ns->record.busy)
        record_write(ns);
}

/* ---- Removed ---- */

static void record_unlink(struct tg_namespace *ns)
{
    struct tg_record *r = &ns->record;
    r->remove = 0;
    r->busy = 1;
    r->file = (struct tg_file){.path = r->path, .done = record_done};
    tg_file_write(&r->file);
}

void tg_record_remove(struct tg_namespace *ns, void (*after)(struct tg_namespace *ns))
{
    struct tg_record *r = &ns->record;
    if (tg.config == NULL || path_of(ns, r->path, sizeof(r->path)) != 0) {
        if (after != NULL)
            after(ns);
        return;
    }
    r->after = after;
    r->remove = 1;
    if (!r->busy)
        record_unlink(ns);
}

void tg_record_leave(struct tg_namespace *ns, void (*after)(struct tg_namespace *ns))
{
    if (ns->record.busy)
        ns->record.after = after;
    else
        after(ns);
}

/* ---- Read ---- */

/* @return bytes; -1 with an error; 0: there is no such file */
static long record_load(const char *path, char *data, size_t room, struct tg_error *e)
{
    FILE *f = fopen(path, "re");
    if (f == NULL && errno == ENOENT)
        return 0;
    if (f == NULL)
        return tg_fail(e, "cannot read %s: %s", path, strerror(errno));
    size_t n = fread(data, 1, room, f);
    int error = ferror(f) ? errno : 0;
    (void)fclose(f);
    if (error != 0)
        return tg_fail(e, "cannot read %s: %s", path, strerror(error));
    return n > 0 ? (long)n
                 : tg_fail(e, "%s is empty: remove it to start without the reservations", path);
}

int tg_record_restore(struct tg_namespace *ns, struct tg_error *e)
{
    struct snic_nvmesub *engine = snic_nvmet_engine(tg_target(), (uint32_t)owner(ns)->number);
    struct tg_record *r = &ns->record;
    if (tg.config == NULL)
        return 0;
    if (path_of(ns, r->path, sizeof(r->path)) != 0)
        return tg_fail(e, "%s: the path is too long", tg.config);
    size_t room = snic_nvmesub_record_max(engine) + 1;
    char *data = malloc(room);
    if (data == NULL)
        return tg_fail(e, "out of memory for %s", r->path);
    long n = record_load(r->path, data, room, e);
    int done = n > 0 ? snic_nvmesub_restore(engine, ns->nsid, data, (size_t)n) : 0;
    free(data);
    if (done == SNIC_ESTALE) {
        ex_log(EX_WARNING, "namespace %" PRIu32 " of %s: %s is of another one (UUID): not used",
               ns->nsid, owner(ns)->nqn, r->path);
        done = 0;
    }
    if (done != 0)
        return tg_fail(e,
                       "%s: reservations of namespace %" PRIu32 ": %s: remove it to start without "
                       "them",
                       r->path, ns->nsid, snic_strerror(done));
    return n < 0 ? -1 : 0;
}
