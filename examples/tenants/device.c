/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The device: a file or block device over io_uring, or the model of an SSD in a simulated world.
 * An existing file or device is not written to without --overwrite.
 */
#include "tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEVICE_MODEL_BYTES (UINT64_C(256) << 20)
#define DEVICE_MODEL_MAX (UINT64_C(1) << 47) /* what a simulated disk may have */
#define DEVICE_FILL_BYTES ((size_t)1 << 20)
#define DEVICE_DEPTH 32768u /* the model's */

volatile sig_atomic_t device_interrupted;
static struct snic_loop *device_wake;

static void device_signal(int number)
{
    int saved = errno;

    if (device_interrupted) { /* the first signal ends the run, the second the process */
        signal(number, SIG_DFL);
        raise(number);
    }
    device_interrupted = 1;
    if (device_wake != NULL)
        snic_loop_wake(device_wake);
    errno = saved;
}

static void device_signals(struct snic_loop *loop)
{
    struct sigaction sa;

    device_wake = loop;
    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = device_signal;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

/* ---- The model ---- */

/* "dct983" or "p3600", perhaps with ",clean" or ",fragmented". */
static void device_model(struct device *d)
{
    const char *comma = strchr(d->model, ',');
    size_t n = comma != NULL ? (size_t)(comma - d->model) : strlen(d->model);

    if (n == 6 && memcmp(d->model, "dct983", n) == 0)
        snic_ssd_opts_dct983(&d->ssd);
    else if (n == 5 && memcmp(d->model, "p3600", n) == 0)
        snic_ssd_opts_p3600(&d->ssd);
    else
        ex_usage("--ssd: '%s' is not dct983 or p3600", d->model);
    if (comma == NULL || strcmp(comma, ",clean") == 0)
        d->ssd.condition = SNIC_SSD_CLEAN;
    else if (strcmp(comma, ",fragmented") == 0)
        d->ssd.condition = SNIC_SSD_FRAGMENTED;
    else
        ex_usage("--ssd: '%s' is not clean or fragmented", comma + 1);
    d->ssd.seed = d->seed;
    if (d->size == 0)
        d->size = DEVICE_MODEL_BYTES;
    if (d->size % 4096 != 0)
        ex_usage("--size: the size of a model must be a multiple of 4096 bytes");
    d->align = 1;
    d->transfer_max = d->ssd.length_max;
}

void device_begin(struct device *d, uint32_t tenants)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = d->seed};
    struct snic_disk_opts o = {.opts_size = sizeof(o), .size = d->size};
    int r;

    if (d->path != NULL)
        return;
    if (d->size > DEVICE_MODEL_MAX)
        ex_usage("--size: %" PRIu64 " bytes is not between 4K and %" PRIu64 "T, of a model",
                 d->size, DEVICE_MODEL_MAX >> 40);
    o.depth = DEVICE_DEPTH;
    o.transfer_max = d->transfer_max;
    d->ssd.queues = tenants;
    d->ssd.depth = DEVICE_DEPTH;
    if ((r = snic_world_open(&d->world, &w)) != 0 ||
        (r = snic_world_loop(d->world, 0, &d->loop)) != 0 ||
        (r = snic_disk_open(&d->disk, &o)) != 0 ||
        (r = snic_io_ssd_open(&d->io, d->loop, d->disk, &d->ssd)) != 0)
        ex_die("cannot make the model of an SSD of %" PRIu64 " MiB (--size): %s", d->size >> 20,
               snic_strerror(r));
}

void device_end(struct device *d)
{
    if (d->path != NULL)
        return;
    snic_io_close(d->io);
    snic_disk_close(d->disk);
    snic_loop_close(d->loop);
    snic_world_close(d->world);
    d->io = NULL;
    d->disk = NULL;
    d->loop = NULL;
    d->world = NULL;
}

/* ---- Files and block devices ---- */

/* A new file's blocks must be there, or reads would not reach the device. */
static void device_fill(const struct device *d, int fd)
{
    struct snic_rng rng;
    unsigned char *block = malloc(DEVICE_FILL_BYTES);
    struct statvfs room;
    uint64_t at = 0;

    if (block == NULL)
        ex_die("out of memory for the buffer that fills %s", d->path);
    if (fstatvfs(fd, &room) == 0 && d->size / room.f_frsize > room.f_bavail) {
        free(block);
        ex_no_room(d->path, d->size, "--size", ENOSPC);
    }
    ex_log(EX_INFO, "filling %s with %" PRIu64 " bytes", d->path, d->size);
    snic_rng_init(&rng, d->seed);
    while (at < d->size && !device_interrupted) {
        size_t n = (size_t)snic_min_u64(DEVICE_FILL_BYTES, d->size - at);
        ssize_t done;

        snic_rng_fill(&rng, block, n);
        done = pwrite(fd, block, n, (off_t)at);
        if (done <= 0) {
            int error = done < 0 ? errno : ENOSPC;

            free(block);
            /* Half a file would count as one that is in use. */
            if (ftruncate(fd, 0) != 0)
                ex_log(EX_WARNING, "%s keeps its size: %s", d->path, strerror(errno));
            ex_die("cannot fill %s: %s", d->path, strerror(error));
        }
        at += (uint64_t)done;
    }
    free(block);
    if (device_interrupted && ftruncate(fd, 0) == 0)
        ex_die("interrupted while filling %s", d->path);
    if (fsync(fd) != 0)
        ex_die("cannot sync %s: %s", d->path, strerror(errno));
}

static void device_create(struct device *d)
{
    int fd;

    if (d->size == 0)
        ex_die("%s is empty: --size N makes it N bytes large", d->path);
    if (d->size % 4096 != 0)
        ex_usage("--size: the size of a new file must be a multiple of 4096 bytes");
    fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        ex_die("cannot make %s: %s", d->path, strerror(errno));
    device_fill(d, fd);
    close(fd);
}

/* May it be written to, and is it what it should be? Makes an empty or missing file. */
static void device_check(struct device *d)
{
    struct stat st;
    int fd;

    if (stat(d->path, &st) != 0) {
        if (errno != ENOENT)
            ex_die("cannot open %s: %s", d->path, strerror(errno));
        device_create(d);
        return;
    }
    if (S_ISREG(st.st_mode) && st.st_size == 0) {
        device_create(d);
        return;
    }
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        ex_die("%s is neither a file nor a block device", d->path);
    if (!d->writes)
        return;
    if (!d->overwrite)
        ex_die("the tenants write, and %s is %s: --overwrite allows it", d->path,
               S_ISBLK(st.st_mode) ? "a block device" : "not empty");
    if (!S_ISBLK(st.st_mode))
        return;
    fd = open(d->path, O_RDWR | O_EXCL | O_CLOEXEC); /* mounted, part of a RAID, ... */
    if (fd < 0)
        ex_die("%s: %s", d->path,
               errno == EBUSY ? "in use by another process or mounted: it is not written to"
                              : strerror(errno));
    close(fd);
}

static void device_open_file(struct device *d, uint32_t depth)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = d->path, .depth = depth};
    int os_error = 0;
    int r;

    d->loop = ex_loop_open(0); /* before a file is filled, which takes its time */
    device_signals(d->loop);
    device_check(d);
    o.flags = d->direct ? SNIC_IO_OPEN_DIRECT : 0;
    o.flags |= d->writes ? 0 : SNIC_IO_OPEN_READONLY;
    r = ex_io_open(&d->io, d->loop, &o, &os_error);
    if (r == SNIC_ENOTSUP && d->direct)
        ex_die("%s does not support O_DIRECT: omit --direct", d->path);
    if (r != 0)
        ex_die("cannot open %s: %s", d->path,
               os_error != 0 ? strerror(abs(os_error)) : snic_strerror(r));
    if (d->size > d->io->geometry.size)
        ex_usage("--size: %s has %" PRIu64 " bytes only", d->path, d->io->geometry.size);
    if (d->size == 0)
        d->size = d->io->geometry.size;
    d->align = d->io->geometry.offset_align > d->io->geometry.length_align
                   ? d->io->geometry.offset_align
                   : d->io->geometry.length_align;
    d->transfer_max = d->io->geometry.transfer_max;
}

/* ---- Both ---- */

void device_open(struct device *d, uint32_t depth, size_t pool_bytes)
{
    struct snic_rng rng;

    d->region = SNIC_NO_REGION;
    d->pool_bytes = pool_bytes;
    if (d->path != NULL) {
        device_open_file(d, depth);
    } else {
        device_model(d);
        device_signals(NULL);
    }
    d->pool = mmap(NULL, pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (d->pool == MAP_FAILED)
        ex_die("out of memory: %zu bytes for I/Os (lower iodepth, bs or numjobs)", pool_bytes);
    if (d->path != NULL) {
        /* What is written is random, as a device may make zeros disappear. */
        snic_rng_init(&rng, d->seed + 1);
        snic_rng_fill(&rng, d->pool, pool_bytes);
        d->region = snic_loop_region_add(d->loop, d->pool, pool_bytes);
        if (d->region < 0)
            d->region = SNIC_NO_REGION;
    }
}

void device_close(struct device *d)
{
    device_wake = NULL;
    if (d->path != NULL) {
        snic_io_close(d->io);
        snic_loop_region_remove(d->loop, d->region);
        snic_loop_close(d->loop);
    }
    munmap(d->pool, d->pool_bytes);
}
