/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/snic_image.h
 * What the programs that look into an image share: opening it alone, and its memory.
 */
#ifndef EX_SNIC_IMAGE_H
#define EX_SNIC_IMAGE_H

#include "snicstore/files.h"

struct ex_image {
    const char *program;
    const char *path;
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files_info info;
    int probed; /* what probe says of it                */
    void *mem;  /* for mounting with default options    */
    size_t size;
};

/** Open, lock and probe; what fails is said on stderr. 0, or the program's exit code 2. */
int ex_image_open(struct ex_image *m, const char *program, const char *path, uint32_t flags);
/** Say on stderr why probe refused it: 1 not an image or damaged, 2 it could not be read. */
int ex_image_refused(const struct ex_image *m);
void ex_image_close(struct ex_image *m);

#endif /* EX_SNIC_IMAGE_H */
