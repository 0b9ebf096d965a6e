/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "image.h"

#include "../common.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How much of an existing file must be zeros so that it counts as blank: the part with all of an
 * image's tables, and a megabyte at the end. */
#define EX_BLANK_BYTES ((off_t)64 << 20)
#define EX_BLANK_END ((off_t)1 << 20)

/* Is everything in [at, end) zero? Holes are not read. What cannot be read is not blank. */
static int image_zeros(int fd, off_t at, off_t end)
{
    static unsigned char buffer[65536];

    while (at < end) {
        off_t data = lseek(fd, at, SEEK_DATA); /* devices have none of it */
        ssize_t n;

        if (data < 0 && errno == ENXIO)
            return 1; /* a hole up to the end */
        at = data > at ? data : at;
        n = pread(fd, buffer, sizeof(buffer), at);
        if (n <= 0)
            return n == 0;
        for (ssize_t i = 0; i < n && at + i < end; i++)
            if (buffer[i] != 0)
                return 0;
        at += n;
    }
    return 1;
}

/* A file that holds something else than zeros may be user data: no image is made in it. */
static int image_blank(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    int blank = end >= 0 && image_zeros(fd, 0, end < EX_BLANK_BYTES ? end : EX_BLANK_BYTES) &&
                image_zeros(fd, end < EX_BLANK_END ? 0 : end - EX_BLANK_END, end);

    if (fd >= 0)
        close(fd);
    return blank;
}

/* Of a remote device, whose size is its own. */
static int image_remote_blank(struct snic_io *io)
{
    uint64_t size = io->geometry.size, begin = (uint64_t)EX_BLANK_BYTES,
             end = (uint64_t)EX_BLANK_END;

    return ex_remote_zeros(io, 0, size < begin ? size : begin) &&
           ex_remote_zeros(io, size < end ? 0 : size - end, size);
}

/*
 * Only a file without content gets its size from us: a longer file would hide that an image
 * was cut off, and no image grows with its file.
 */
static int image_fresh(const char *path)
{
    return access(path, F_OK) != 0 || image_blank(path);
}

static int image_device(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static void image_enough(const struct ex_image_opts *o, uint64_t size)
{
    if (size < o->least)
        ex_die("image '%s' is too small: it needs %" PRIu64 " MiB at least (--size) for %s",
               o->path, o->least >> 20, o->why);
}

static void image_open_io(struct ex_image *i, struct snic_loop *loop, const struct ex_image_opts *o)
{
    struct snic_io_uring_opts io = {.opts_size = sizeof(io)};
    int os_error = 0;
    int r;

    memset(&i->remote, 0, sizeof(i->remote));
    if (ex_remote_is(o->path)) {
        ex_remote_open(&i->remote, loop, o->path, o->auth_keys, o->depth);
        i->io = i->remote.io;
        return;
    }
    io.path = o->path;
    io.depth = o->depth;
    io.flags = SNIC_IO_OPEN_LOCK | (o->buffered ? 0 : SNIC_IO_OPEN_TRY_DIRECT);
    if (image_fresh(o->path)) {
        if (!image_device(o->path))
            image_enough(o, o->size);
        io.size = o->size;
        io.flags |= SNIC_IO_OPEN_CREATE;
    }
    r = ex_io_open(&i->io, loop, &io, &os_error);
    if (r == SNIC_EBUSY)
        ex_die("image '%s' is in use by another process: stop that one, or name another image",
               o->path);
    if ((io.flags & SNIC_IO_OPEN_CREATE) != 0)
        ex_no_room(o->path, o->size, o->size > o->least ? "--size" : o->why, os_error);
    if (r != 0)
        ex_die("cannot open image '%s': %s", o->path,
               os_error != 0 ? strerror(abs(os_error)) : snic_strerror(r));
}

/* Format what is blank. @return as snic_files_probe() */
static int image_format(struct ex_image *i, const struct ex_image_opts *o,
                        struct snic_files_info *info)
{
    struct snic_files_format_opts f = {.opts_size = sizeof(f)};
    int r;

    if (ex_remote_is(o->path) ? !image_remote_blank(i->io) : !image_blank(o->path))
        ex_die("'%s' is not a snicstore image and not empty: it is left as it is; name another "
               "file, or empty this one",
               o->path);
    image_enough(o, i->io->geometry.size);
    r = snic_files_format(i->io, &f);
    if (r != 0)
        ex_die("cannot format image '%s': %s", o->path, snic_strerror(r));
    ex_log(EX_INFO, "created image '%s'", o->path);
    return snic_files_probe(i->io, info);
}

void ex_image_open(struct ex_image *i, struct snic_loop *loop, const struct ex_image_opts *o)
{
    struct snic_files_info info;
    size_t size;
    int r;

    image_open_io(i, loop, o);
    r = snic_files_probe(i->io, &info);
    if (r == SNIC_ENOENT)
        r = image_format(i, o, &info);
    else if (r == 0 && o->size_set && o->size >> 20 != info.size >> 20)
        ex_log(EX_INFO,
               "image '%s' has %" PRIu64 " MiB: --size is ignored, it is for new images only",
               o->path, info.size >> 20);
    if (r == SNIC_EVERSION)
        ex_die("image '%s' has a format version that this program does not support: use the "
               "release that wrote it",
               o->path);
    if (r == SNIC_ERANGE)
        ex_die("image '%s' is truncated: the file is shorter than the image in it; restore it from "
               "a copy",
               o->path);
    if (r != 0)
        ex_die("image '%s' cannot be used: %s (snic_fsck shows what is wrong)", o->path,
               snic_strerror(r));
    if (o->wrap != NULL)
        i->io = o->wrap(o->ctx, i->io);
    size = snic_files_memsize(&info, &o->mount);
    (void)ex_memory(&i->memory, size, "file service");
    r = snic_files_mount(&i->files, i->memory.at, size, i->io, &o->mount);
    if (r != 0)
        ex_die("cannot mount image '%s': %s (snic_fsck shows what is wrong)", o->path,
               snic_strerror(r));
}

int ex_image_close(struct ex_image *i)
{
    int r = snic_files_unmount(i->files);

    snic_io_close(i->io);
    ex_remote_close(&i->remote);
    ex_memory_free(&i->memory);
    return r;
}
