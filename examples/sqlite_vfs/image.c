/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SV_LOCK_TRIES 120 /* of 50 ms */

void *sv_memory(size_t size)
{
    return size == 0
               ? NULL
               : aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(size, SNIC_FILES_ALIGN));
}

int sv_failed(char *why, const char *what, const char *path, int rc, int os_error)
{
    (void)snprintf(why, SV_WHY, "%s: %.120s: %s", what, path,
                   os_error != 0 ? strerror(abs(os_error)) : snic_strerror(rc));
    return rc;
}

/* ---- The lock folder ---- */

/* The folder may hold files of others: ours have a number in hex. */
static int sv_is_ours(const char *name)
{
    int host = strncmp(name, "host-", 5) == 0;
    const char *number = host ? name + 5 : name;
    size_t n = strspn(number, "0123456789abcdef");
    if (host)
        return n == 16 && number[n] == 0;
    return n > 0 && n <= 16 &&
           (strcmp(number + n, ".lock") == 0 || strcmp(number + n, ".shm") == 0);
}

/*
 * Locks and shared memory belong to the mount before and must not outlive it: a wal-index may
 * describe writes that were lost with the power. The folder itself is locked: two mounts in it, of
 * different images, would remove each other's.
 */
static int sv_locks_prepare(struct sv_image *m, const char *path, char *why)
{
    struct dirent *e;
    DIR *d;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sv_failed(why, "cannot make the lock folder", path, SNIC_EIO, errno);
    m->locks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    d = m->locks < 0 ? NULL : opendir(path);
    if (d == NULL)
        return sv_failed(why, "cannot read the lock folder", path, SNIC_EIO, errno);
    if (flock(m->locks, LOCK_EX | LOCK_NB) != 0) {
        (void)closedir(d);
        return sv_failed(why, "the lock folder is in use by another mount", path, SNIC_EBUSY, 0);
    }
    while ((e = readdir(d)) != NULL)
        if (sv_is_ours(e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    return 0;
}

/* A file without any data becomes an image; what holds something stays as it is. */
static int sv_is_hole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int hole = fd >= 0 && lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
    if (fd >= 0)
        (void)close(fd);
    return hole;
}

static int sv_image_mount(struct sv_image *m, struct snic_loop *loop, const char *path, char *why)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path};
    struct snic_files_format_opts format = {.opts_size = sizeof(format)};
    struct snic_files_info info;
    int os_error = 0, hole = sv_is_hole(path), rc;
    size_t size;
    o.flags = SNIC_IO_OPEN_TRY_DIRECT | SNIC_IO_OPEN_LOCK;
    rc = snic_io_uring_open(&m->io, loop, &o, &os_error);
    if (rc == SNIC_EBUSY)
        return sv_failed(why, "the image is in use by another process", path, rc, 0);
    if (rc != 0)
        return sv_failed(why, "cannot open the image", path, rc, os_error);
    rc = snic_files_probe(m->io, &info);
    if (rc == SNIC_ENOENT && !hole)
        return sv_failed(why, "neither an image of the file service nor an empty file", path, rc,
                         0);
    if (rc == SNIC_ENOENT) {
        rc = snic_files_format(m->io, &format);
        if (rc == 0)
            rc = snic_files_probe(m->io, &info);
    }
    if (rc != 0)
        return sv_failed(why, "cannot format or read the image", path, rc, 0);
    size = snic_files_memsize(&info, NULL);
    m->mem = sv_memory(size);
    if (m->mem == NULL)
        return sv_failed(why, "out of memory for the image's tables", path, SNIC_ENOMEM, 0);
    rc = snic_files_mount(&m->files, m->mem, size, m->io, NULL);
    return rc == 0 ? 0 : sv_failed(why, "cannot mount the image", path, rc, 0);
}

static int sv_image_try(struct sv_image *m, struct snic_loop *loop, const char *path,
                        const char *locks, char *why)
{
    int rc;
    memset(m, 0, sizeof(*m));
    m->locks = -1;
    rc = sv_image_mount(m, loop, path, why);
    if (rc == 0)
        rc = sv_locks_prepare(m, locks, why);
    if (rc != 0)
        sv_image_close(m);
    return rc;
}

int sv_image_open(struct sv_image *m, struct snic_loop *loop, const char *path, const char *locks,
                  char *why)
{
    const struct timespec pause = {0, 50000000};
    int rc = sv_image_try(m, loop, path, locks, why);
    /* The kernel keeps an ended process's locks until what it had at the disk is done. */
    for (int n = 0; rc == SNIC_EBUSY && n < SV_LOCK_TRIES; n++) {
        (void)nanosleep(&pause, NULL);
        rc = sv_image_try(m, loop, path, locks, why);
    }
    return rc;
}

void sv_image_close(struct sv_image *m)
{
    if (m->files != NULL)
        (void)snic_files_unmount(m->files);
    if (m->io != NULL)
        snic_io_close(m->io);
    if (m->locks >= 0)
        (void)close(m->locks);
    free(m->mem);
    memset(m, 0, sizeof(*m));
    m->locks = -1;
}
