/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What namespaces are on: files, block devices, memory; and the switch in front. */
#include "../devices.h"
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tg_device_name(const struct tg_namespace *ns)
{
    return ns->path != NULL    ? ns->path
           : ns->solar[0] != 0 ? ns->solar
           : ns->ssd != 0      ? tg_ssd_name(ns->ssd)
                               : "memory";
}

static int open_memory(struct snic_loop *loop, struct tg_namespace *ns, struct tg_error *e)
{
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = ns->size};
    int r = snic_disk_open(&ns->disk, &d);
    if (r == 0)
        r = ns->ssd != 0 ? tg_ssd_open(&ns->device, loop, ns->disk, ns->ssd)
                         : snic_io_mem_open(&ns->device, loop, ns->disk);
    ns->room = ns->size;
    return r == 0 ? 0 : tg_fail(e, "memory: %" PRIu64 " bytes: %s", ns->size, snic_strerror(r));
}

int tg_grow(struct tg_namespace *ns, uint64_t bytes, struct tg_error *e)
{
    struct stat s;
    uint64_t has = ns->room;
    if (bytes <= ns->room)
        return 0;
    if (ns->solar[0] != 0)
        return tg_fail(e, "disk %" PRIu64 " of %s has %" PRIu64 " bytes (size=)", ns->solar_disk,
                       ns->solar, has);
    if (ns->path == NULL)
        return tg_fail(e, "memory cannot grow beyond the %" PRIu64 " bytes that it began with",
                       has);
    int fd = open(ns->path, (ns->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    int r = fd >= 0 ? fstat(fd, &s) : -1;
    if (r == 0 && S_ISBLK(s.st_mode))
        r = ioctl(fd, BLKGETSIZE64, &has);
    else if (r == 0)
        has = (uint64_t)s.st_size;
    if (r == 0 && has < bytes && S_ISREG(s.st_mode) && !ns->read_only) {
        r = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
        if (r == 0 || errno == EOPNOTSUPP)
            r = ftruncate(fd, (off_t)bytes);
        has = bytes;
    }
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    if (r != 0)
        return tg_fail(e, "%s cannot have %" PRIu64 " bytes: %s", ns->path, bytes, strerror(error));
    if (has < bytes)
        return tg_fail(e, "%s has %" PRIu64 " bytes, fewer than %" PRIu64, ns->path, has, bytes);
    ns->room = has;
    return 0;
}

static int file_is_empty(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0;
}

/* A target that serves does not wait for a process that has the file locked. */
static int file_open(struct snic_loop *loop, struct tg_namespace *ns, int live,
                     const struct snic_io_uring_opts *o, int *os_error)
{
    return live ? snic_io_uring_open(&ns->device, loop, o, os_error)
                : ex_io_open(&ns->device, loop, o, os_error);
}

static int open_file(struct snic_loop *loop, struct tg_namespace *ns, int live, struct tg_error *e)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = ns->path};
    int os_error = 0, r = SNIC_ENOENT;
    o.flags = ns->read_only ? SNIC_IO_OPEN_READONLY : SNIC_IO_OPEN_LOCK;
    o.flags |= tg.cached ? 0 : SNIC_IO_OPEN_TRY_DIRECT;
    if (!file_is_empty(ns->path) && (ns->size == 0 || ns->read_only))
        r = file_open(loop, ns, live, &o, &os_error);
    if (r == SNIC_ENOENT && !ns->read_only) {
        o.flags |= SNIC_IO_OPEN_CREATE;
        o.size = ns->size != 0 ? ns->size : tg.size;
        r = file_open(loop, ns, live, &o, &os_error);
        if (r == SNIC_ENOSPC)
            return tg_fail(e, "%s cannot have %" PRIu64 " MiB%s: %s", ns->path, o.size >> 20,
                           ns->size == 0 ? " (--size)" : "", strerror(ENOSPC));
    }
    if (r != 0)
        return tg_fail(e, "cannot open %s: %s", ns->path,
                       r == SNIC_EBUSY ? "in use by another process, or named twice"
                       : os_error != 0 ? strerror(abs(os_error))
                                       : snic_strerror(r));
    if (ns->size > ns->device->geometry.size)
        return tg_fail(e, "%s has %" PRIu64 " bytes, fewer than its size=%" PRIu64, ns->path,
                       ns->device->geometry.size, ns->size);
    ns->room = ns->device->geometry.size;
    if (ns->size != 0)
        ns->device->geometry.size = ns->size; /* the rest is not used */
    return 0;
}

static int tenant_add(struct tg_namespace *ns, const struct tg_tenant *t, struct tg_error *e)
{
    struct snic_gimbal_tenant_opts o = tg_tenant_opts(t);
    int r = snic_qos_tenant_add(ns->io, snic_nvmet_tenant(t->nqn), &o);
    return r == 0 ? 0 : tg_fail(e, "weight, cap or floor of %s: %s", t->nqn, snic_strerror(r));
}

static int put_switch(struct tg_namespace *ns, struct tg_error *e)
{
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO};
    struct snic_gimbal_opts g = {.opts_size = sizeof(g),
                                 .flags = SNIC_GIMBAL_LEARN,
                                 .groups_max = TG_SHARES,
                                 .thresh_min_ns = tg.thresh_min_us * 1000,
                                 .thresh_max_ns = tg.thresh_max_us * 1000};
    o.tenants_max = 256;
    o.gimbal = &g;
    size_t size = snic_qos_memsize(ns->device, &o);
    if (size == 0)
        return tg_fail(e, "--fair: %s", snic_qos_opts_wrong(ns->device, &o));
    ns->qos = aligned_alloc(SNIC_QOS_ALIGN, size);
    if (ns->qos == NULL)
        return tg_fail(e, "--fair: out of memory");
    int r = snic_qos_open(&ns->io, ns->qos, size, ns->device, &o);
    if (r != 0)
        return tg_fail(e, "--fair: %s", snic_strerror(r));
    r = tg_share_open(ns->io);
    if (r != 0)
        return tg_fail(e, "--fair: a group of hosts: %s", snic_strerror(r));
    for (uint32_t i = 0; r == 0 && i < tg.tenant_count; i++)
        r = tenant_add(ns, &tg.tenants[i], e);
    if (r == 0)
        ex_devices_begin(tg.devices, ns->path, ns->io);
    return r;
}

int tg_open(struct snic_loop *loop, struct tg_namespace *ns, int live, struct tg_error *e)
{
    int r = ns->solar[0] != 0  ? tg_solar_open(loop, ns, live, e)
            : ns->path == NULL ? open_memory(loop, ns, e)
                               : open_file(loop, ns, live, e);
    if (r == 0 && ns->device->geometry.size < 4096)
        r = tg_fail(e, "%s has %" PRIu64 " bytes, less than a block of 4096", tg_device_name(ns),
                    ns->device->geometry.size);
    if (r == 0 && tg.fair)
        r = put_switch(ns, e);
    else if (r == 0)
        ns->io = ns->device;
    if (r != 0)
        tg_close(ns);
    return r;
}

void tg_close(struct tg_namespace *ns)
{
    if (ns->io != NULL && ns->qos != NULL)
        ex_devices_keep(tg.devices, ns->path, ns->io);
    if (ns->io != NULL)
        snic_io_close(ns->io);
    else if (ns->device != NULL)
        snic_io_close(ns->device);
    free(ns->qos);
    if (ns->disk != NULL)
        snic_disk_close(ns->disk);
    tg_solar_close(ns);
    ns->io = ns->device = NULL;
    ns->qos = NULL;
    ns->disk = NULL;
}

int tg_uuid(struct tg_namespace *ns, struct tg_error *e)
{
    static const unsigned char key[16] = {'n', 'v', 'm', 'e', '_', 't', 'a', 'r',
                                          'g', 'e', 't', ' ', 'u', 'u', 'i', 'd'};
    static const uint8_t none[16];
    char text[PATH_MAX + SNIC_NVME_NQN_BYTES + 32], path[PATH_MAX] = "memory";
    uint64_t hash[2];
    if (memcmp(ns->uuid, none, sizeof(none)) != 0)
        return 0;
    if (ns->solar[0] != 0)
        (void)snprintf(path, sizeof(path), "solar %s %" PRIu64, ns->solar, ns->solar_disk);
    if (ns->path != NULL && realpath(ns->path, path) == NULL)
        return tg_fail(e, "cannot resolve %s: %s", ns->path, strerror(errno));
    int n = snprintf(text, sizeof(text), "%s %" PRIu32 " %s", tg.subs[ns->subsystem].nqn, ns->nsid,
                     path);
    snic_siphash128(key, text, (size_t)n, hash);
    snic_put_le64(ns->uuid, hash[0]);
    snic_put_le64(ns->uuid + 8, hash[1]);
    ns->uuid[6] = (uint8_t)((ns->uuid[6] & 0x0f) | 0x80);
    ns->uuid[8] = (uint8_t)((ns->uuid[8] & 0x3f) | 0x80);
    return 0;
}
