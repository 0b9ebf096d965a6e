/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/tool_image.h
 * What the tools that look into an image share (snic_fsck, snic_dump): opening it as it is, damaged
 * or not, and memory for the checker. Servers open theirs by image.h.
 */
#ifndef TOOL_IMAGE_H
#define TOOL_IMAGE_H

#include "snicstore/files.h"

struct tool_image {
    const char *program;
    const char *path;
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files_info info;
    int probed; /* the result of probing it             */
    void *mem;  /* for mounting with default options    */
    size_t size;
};

/** Open, lock and probe. @return 0; -1: it could not be read, reported on stderr */
int tool_image_open(struct tool_image *m, const char *program, const char *path, uint32_t flags);
/** Report on stderr why probe refused it. */
void tool_image_refused(const struct tool_image *m);
void tool_image_close(struct tool_image *m);

#endif /* TOOL_IMAGE_H */
