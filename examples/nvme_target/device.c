/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What namespaces are on: files, block devices, memory; and the switch in front. */
#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void open_memory(struct snic_loop *loop, struct tg_namespace *ns)
{
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = ns->bytes};
    int r = snic_disk_open(&ns->disk, &d);
    if (r == 0)
        r = snic_io_mem_open(&ns->io, loop, ns->disk);
    if (r != 0)
        ex_die("--memory: %" PRIu64 " bytes: %s", ns->bytes, snic_strerror(r));
}

static int file_is_empty(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0;
}

static void open_file(struct snic_loop *loop, struct tg_namespace *ns)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = ns->path};
    int os_error = 0, r = SNIC_ENOENT;
    o.flags = ns->read_only ? SNIC_IO_OPEN_READONLY : SNIC_IO_OPEN_LOCK;
    o.flags |= tg.cached ? 0 : SNIC_IO_OPEN_TRY_DIRECT;
    if (!file_is_empty(ns->path))
        r = ex_io_open(&ns->io, loop, &o, &os_error);
    if (r == SNIC_ENOENT && !ns->read_only) {
        o.flags |= SNIC_IO_OPEN_CREATE;
        o.size = tg.size;
        r = ex_io_open(&ns->io, loop, &o, &os_error);
        ex_no_room(ns->path, tg.size, "--size", os_error);
    }
    if (r != 0)
        ex_die("cannot open %s (--%s): %s", ns->path, ns->read_only ? "read-only" : "namespace",
               r == SNIC_EBUSY ? "in use by another process, or named twice"
               : os_error != 0 ? strerror(os_error)
                               : snic_strerror(r));
}

static void put_switch(struct tg_namespace *ns)
{
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO};
    o.tenants_max = 256;
    size_t size = snic_qos_memsize(ns->io, &o);
    if (size == 0)
        ex_die("--fair: %s: %s", ns->path != NULL ? ns->path : "memory",
               snic_qos_opts_wrong(ns->io, &o));
    ns->qos = aligned_alloc(SNIC_QOS_ALIGN, size);
    if (ns->qos == NULL)
        ex_die("--fair: out of memory");
    int r = snic_qos_open(&ns->io, ns->qos, size, ns->io, &o);
    if (r != 0)
        ex_die("--fair: %s", snic_strerror(r));
    for (uint32_t i = 0; i < tg.weight_count; i++) {
        struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .weight = tg.weights[i].weight};
        r = snic_qos_tenant_add(ns->io, snic_nvmet_tenant(tg.weights[i].nqn), &t);
        if (r != 0)
            ex_die("--weight %s: %s", tg.weights[i].nqn,
                   r == SNIC_EEXIST ? "named twice" : snic_strerror(r));
    }
}

void tg_open(struct snic_loop *loop, struct tg_namespace *ns)
{
    if (ns->path == NULL)
        open_memory(loop, ns);
    else
        open_file(loop, ns);
    if (ns->io->geometry.size < 4096)
        ex_die("%s (--namespace): it has %" PRIu64 " bytes, less than a block of 4096", ns->path,
               ns->io->geometry.size);
    if (tg.fair)
        put_switch(ns);
}

void tg_close(struct tg_namespace *ns)
{
    snic_io_close(ns->io);
    free(ns->qos);
    if (ns->disk != NULL)
        snic_disk_close(ns->disk);
}

void tg_uuid(const struct tg_namespace *ns, uint8_t uuid[16])
{
    static const unsigned char key[16] = {'n', 'v', 'm', 'e', '_', 't', 'a', 'r',
                                          'g', 'e', 't', ' ', 'u', 'u', 'i', 'd'};
    char text[PATH_MAX + SNIC_NVME_NQN_BYTES + 32], path[PATH_MAX] = "memory";
    uint64_t hash[2];
    if (ns->path != NULL && realpath(ns->path, path) == NULL)
        ex_die("cannot resolve %s (--namespace): %s", ns->path, strerror(errno));
    int n = snprintf(text, sizeof(text), "%s %" PRIu32 " %s", tg.subs[ns->subsystem].nqn,
                     ns->number, path);
    snic_siphash128(key, text, (size_t)n, hash);
    snic_put_le64(uuid, hash[0]);
    snic_put_le64(uuid + 8, hash[1]);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}
