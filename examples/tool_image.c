/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "tool_image.h"

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int tool_image_open(struct tool_image *m, const char *program, const char *path, uint32_t flags)
{
    struct snic_io_uring_opts o;
    struct stat st;
    int os_error = 0;
    int rc;
    memset(m, 0, sizeof(*m));
    m->program = program;
    m->path = path;
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo), .os_error = &os_error};
    rc = snic_loop_uring_open(&m->loop, &lo);
    if (rc != 0) {
        char why[256];
        ex_io_uring_why(rc, os_error, why, sizeof(why));
        (void)fprintf(stderr, "%s: cannot set up io_uring: %s\n", program, why);
        return -1;
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)fprintf(stderr, "%s: %s: is a directory, not an image\n", program, path);
        snic_loop_close(m->loop);
        return -1;
    }
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.flags = SNIC_IO_OPEN_LOCK | flags;
    o.path = path;
    rc = ex_io_open(&m->io, m->loop, &o, &os_error);
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", program, path,
                      rc == SNIC_EBUSY ? "in use by another process: stop it first"
                      : os_error != 0  ? strerror(abs(os_error))
                                       : snic_strerror(rc));
        snic_loop_close(m->loop);
        return -1;
    }
    m->probed = snic_files_probe(m->io, &m->info);
    m->size = m->probed == 0 ? snic_files_memsize(&m->info, NULL) : SNIC_FILES_ALIGN;
    m->mem = aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(m->size, SNIC_FILES_ALIGN));
    if (m->mem == NULL) {
        (void)fprintf(stderr, "%s: %s: out of memory for the image's tables\n", program,
                      snic_strerror(SNIC_ENOMEM));
        tool_image_close(m);
        return -1;
    }
    return 0;
}

void tool_image_refused(const struct tool_image *m)
{
    (void)fprintf(stderr, "%s: %s: %s\n", m->program, m->path,
                  m->probed == SNIC_ENOENT   ? "not an image of the file service"
                  : m->probed == SNIC_ERANGE ? "truncated: the file is shorter than the image in it"
                                             : snic_strerror(m->probed));
}

void tool_image_close(struct tool_image *m)
{
    free(m->mem);
    snic_io_close(m->io);
    snic_loop_close(m->loop);
}
