/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "filemodel.h"

#include "filefix.h"
#include "support.h"

#include <stdio.h>

static unsigned char model_byte(uint32_t tag, uint32_t at)
{
    return (unsigned char)((tag * 2654435761u >> 24) + at * 3 + (at >> 8) * 5) | 1;
}

void model_init(struct model *m, uint32_t bytes_max)
{
    memset(m, 0, sizeof(*m));
    m->dir_used[0] = 1;
    m->bytes_max = bytes_max;
}

static uint32_t model_rnd(struct snic_rng *rng, uint32_t n)
{
    return (uint32_t)snic_rng_below(rng, n);
}

/* Sizes that meet block and segment edges more often than chance would. */
static uint32_t model_edge(struct snic_rng *rng, uint32_t max)
{
    static const uint32_t edge[] = {1, 512, 4096, 16384};
    uint32_t v;
    if (model_rnd(rng, 2) == 0)
        return model_rnd(rng, max + 1);
    v = model_rnd(rng, max / 512 + 1) * edge[model_rnd(rng, 4)] + model_rnd(rng, 3);
    return (v > 0 ? v - 1 : 0) % (max + 1);
}

void model_pick(const struct model *m, struct snic_rng *rng, struct model_op *op, int sync)
{
    static const int weight[MODEL_KINDS] = {12, 5, 6, 3, 2, 20, 20, 8, 8, 5};
    uint32_t i;
    memset(op, 0, sizeof(*op));
    do {
        int w = (int)model_rnd(rng, 89);
        for (op->kind = 0; w >= weight[op->kind]; op->kind++)
            w -= weight[op->kind];
    } while (sync && op->kind == MODEL_WRITE);
    for (i = 0; i < 6; i++) { /* prefer what exists */
        op->dir = model_rnd(rng, MODEL_DIRS + 1);
        op->name = model_rnd(rng, MODEL_NAMES);
        if (m->dir_used[op->dir] && (op->kind == MODEL_CREATE) != m->file[op->dir][op->name].used)
            break;
    }
    op->dir2 = model_rnd(rng, MODEL_DIRS + 1);
    op->name2 = model_rnd(rng, MODEL_NAMES);
    op->replace = model_rnd(rng, 2);
    op->tag = (uint32_t)snic_rng_next(rng);
    op->at = model_edge(rng, m->bytes_max - 1);
    if (model_rnd(rng, 3) == 0)
        op->at = m->file[op->dir][op->name].size % m->bytes_max; /* append */
    op->n = model_edge(rng, snic_min_u64(m->bytes_max - op->at, 40000) & UINT32_MAX);
    if (op->kind == MODEL_PREALLOC && op->n == 0)
        op->n = 1;
}

static int64_t model_rename(struct model *m, const struct model_op *op)
{
    struct model_file *from = &m->file[op->dir][op->name];
    struct model_file *to = &m->file[op->dir2][op->name2];
    if (!m->dir_used[op->dir] || !from->used)
        return SNIC_ENOENT;
    if (!m->dir_used[op->dir2])
        return SNIC_ENOENT;
    if (from == to)
        return 0;
    if (to->used && !op->replace)
        return SNIC_EEXIST;
    *to = *from;
    memset(from, 0, sizeof(*from));
    return 0;
}

static int64_t model_dir(struct model *m, const struct model_op *op)
{
    uint32_t i;
    if (op->dir == 0)
        return 0; /* not carried out */
    if (op->kind == MODEL_MKDIR) {
        if (m->dir_used[op->dir])
            return SNIC_EEXIST;
        m->dir_used[op->dir] = 1;
        return 0;
    }
    if (!m->dir_used[op->dir])
        return SNIC_ENOENT;
    for (i = 0; i < MODEL_NAMES; i++)
        if (m->file[op->dir][i].used)
            return SNIC_ENOTEMPTY;
    m->dir_used[op->dir] = 0;
    return 0;
}

int64_t model_apply(struct model *m, const struct model_op *op)
{
    struct model_file *f = &m->file[op->dir][op->name];
    uint32_t i;
    if (op->kind == MODEL_MKDIR || op->kind == MODEL_RMDIR)
        return model_dir(m, op);
    if (op->kind == MODEL_RENAME)
        return model_rename(m, op);
    if (op->kind == MODEL_CREATE) {
        if (!m->dir_used[op->dir])
            return SNIC_ENOENT;
        if (f->used)
            return SNIC_EEXIST;
        memset(f, 0, sizeof(*f));
        f->used = 1;
        return 0;
    }
    if (!m->dir_used[op->dir] || !f->used)
        return SNIC_ENOENT;
    if (op->kind == MODEL_DELETE) {
        memset(f, 0, sizeof(*f));
        return 0;
    }
    if (op->kind == MODEL_TRUNCATE) {
        if (op->at < f->size)
            memset(f->bytes + op->at, 0, f->size - op->at);
        f->size = op->at;
        return 0;
    }
    if (op->n != 0 && op->at + op->n > f->size)
        f->size = op->at + op->n;
    if (op->kind == MODEL_PREALLOC)
        return 0;
    for (i = 0; i < op->n; i++)
        f->bytes[op->at + i] = model_byte(op->tag, op->at + i);
    return op->n;
}

/* The bytes in up to six pieces of memory, of any size and alignment: a gathered write. */
static int64_t model_write_gathered(struct snic_files *f, uint64_t id, const struct model_op *op,
                                    unsigned char *p, unsigned flags)
{
    static unsigned char part[6][MODEL_BYTES + 64];
    struct snic_iov v[6];
    struct snic_files_req r;
    struct snic_rng rng;
    uint32_t at = 0;
    uint32_t n = 0;
    snic_rng_init(&rng, op->tag);
    while (at < op->n) {
        uint32_t k = n == 5 ? op->n - at : 1 + model_edge(&rng, op->n - at - 1);
        v[n].base = part[n] + model_rnd(&rng, 2) * model_rnd(&rng, 64);
        v[n].size = k;
        memcpy(v[n].base, p + at, k);
        at += k;
        n++;
    }
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_WRITE;
    r.flags = (uint16_t)flags;
    r.file = id;
    r.offset = op->at;
    r.length = op->n;
    r.iov = v;
    r.iov_count = n;
    return filefix_op(f, &r);
}

static int64_t model_run_write(const struct model *m, struct snic_files *f,
                               const struct model_op *op)
{
    static unsigned char buf[MODEL_BYTES + 8192];
    uint64_t id = m->file[op->dir][op->name].id;
    /* Sometimes aligned memory, sometimes not. */
    unsigned char *p = buf + (4096 - (uintptr_t)buf % 4096) + (op->tag % 3 == 0 ? op->tag % 64 : 0);
    unsigned flags = op->kind == MODEL_WRITE_SYNC ? SNIC_FILES_SYNC : 0;
    int64_t n;
    uint32_t i;
    for (i = 0; i < op->n; i++)
        p[i] = model_byte(op->tag, op->at + i);
    if (op->tag % 4 == 1 && op->n != 0)
        n = model_write_gathered(f, id, op, p, flags);
    else
        n = filefix_write(f, id, op->at, p, op->n, flags);
    if (n >= 0 && op->kind == MODEL_WRITE_FSYNC) {
        int rc = filefix_fsync(f, id);
        if (rc != 0)
            return rc;
    }
    return n;
}

int64_t model_run(struct model *m, struct snic_files *f, const struct model_op *op)
{
    char name[8];
    char name2[8];
    struct model_file *file = &m->file[op->dir][op->name];
    uint64_t dir = m->dir_used[op->dir] ? m->dir_id[op->dir] : 1u << 20;
    uint64_t dir2 = m->dir_used[op->dir2] ? m->dir_id[op->dir2] : 1u << 20;
    (void)snprintf(name, sizeof(name), "n%u", op->name);
    (void)snprintf(name2, sizeof(name2), "n%u", op->name2);
    switch (op->kind) {
    case MODEL_CREATE:
        return filefix_create(f, dir, name, &file->id);
    case MODEL_DELETE:
        return filefix_delete(f, dir, name);
    case MODEL_RENAME:
        return filefix_rename(f, dir, name, dir2, name2, op->replace ? SNIC_FILES_REPLACE : 0);
    case MODEL_MKDIR:
    case MODEL_RMDIR:
        (void)snprintf(name, sizeof(name), "d%u", op->dir);
        if (op->dir == 0)
            return 0;
        return op->kind == MODEL_MKDIR ? filefix_mkdir(f, name, &m->dir_id[op->dir])
                                       : filefix_rmdir(f, name);
    default:
        break;
    }
    if (!m->dir_used[op->dir] || !file->used)
        return SNIC_ENOENT;
    if (op->kind == MODEL_TRUNCATE)
        return filefix_truncate(f, file->id, op->at);
    if (op->kind == MODEL_PREALLOC)
        return filefix_prealloc(f, file->id, op->at, op->n);
    return model_run_write(m, f, op);
}

/* ---- Comparing ---- */

static const char *model_differs_bytes(const struct model_file *m, const struct model_op *op,
                                       struct snic_files *f, uint64_t id, uint64_t size)
{
    static unsigned char buf[MODEL_BYTES + 1];
    uint32_t end = op != NULL ? op->at + op->n : 0;
    uint32_t i;
    if (size != m->size && !(op != NULL && size == end && end > m->size))
        return "size";
    memset(buf, 0xaa, sizeof(buf));
    if (filefix_read(f, id, 0, buf, sizeof(buf)) != (int64_t)size)
        return "length read";
    for (i = 0; i < size; i++) {
        unsigned char fresh;
        int inside = op != NULL && i >= op->at && i < end;
        if (i < m->size && buf[i] == m->bytes[i])
            continue;
        fresh = !inside || op->kind == MODEL_PREALLOC ? 0 : model_byte(op->tag, i);
        if (i >= m->size ? buf[i] != fresh : !inside || buf[i] != fresh)
            return "bytes";
    }
    return NULL;
}

static const char *model_differs_dir(const struct model *m, const struct model_op *op, uint32_t dir,
                                     uint64_t dir_id, struct snic_files *f)
{
    unsigned char list[4096];
    struct snic_files_entry e;
    struct snic_files_req r;
    size_t pos = 0;
    uint32_t entries = 0;
    uint32_t expected = 0;
    uint32_t i;
    int64_t n;
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_LIST;
    r.dir = dir_id;
    r.buf.base = list;
    r.buf.size = sizeof(list);
    r.length = sizeof(list);
    n = filefix_op(f, &r);
    if (n < 0)
        return "list fails";
    while (snic_files_entry_next(list, (size_t)n, &pos, &e) == 1) {
        const char *why;
        uint32_t name = (uint32_t)(e.name[1] - '0');
        entries++;
        if (e.kind == SNIC_FILES_DIR) {
            if (dir != 0 || e.name_size != 2 || e.name[0] != 'd' || !m->dir_used[name])
                return "a directory too many";
            why = model_differs_dir(m, op, name, e.id, f);
        } else {
            const struct model_op *own = op != NULL && op->dir == dir && op->name == name &&
                                                 op->kind >= MODEL_WRITE &&
                                                 op->kind != MODEL_TRUNCATE
                                             ? op
                                             : NULL;
            if (e.name_size != 2 || e.name[0] != 'n' || !m->file[dir][name].used)
                return "a file too many";
            why = model_differs_bytes(&m->file[dir][name], own, f, e.id, e.size);
        }
        if (why != NULL)
            return why;
    }
    for (i = 0; i < MODEL_NAMES; i++)
        expected += (uint32_t)m->file[dir][i].used;
    for (i = 1; dir == 0 && i <= MODEL_DIRS; i++)
        expected += (uint32_t)m->dir_used[i];
    return entries == expected ? NULL : "number of entries";
}

const char *model_differs(const struct model *m, const struct model_op *op, struct snic_files *f)
{
    return model_differs_dir(m, op, 0, SNIC_FILES_ROOT, f);
}

const char *model_text(const struct model_op *op)
{
    static char text[128];
    static const char *const kind[MODEL_KINDS] = {
        "create", "delete",     "rename",      "mkdir",    "rmdir",
        "write",  "write-sync", "write-fsync", "truncate", "prealloc"};
    (void)snprintf(text, sizeof(text), "%s d%u/n%u -> d%u/n%u at %u n %u", kind[op->kind], op->dir,
                   op->name, op->dir2, op->name2, op->at, op->n);
    return text;
}
