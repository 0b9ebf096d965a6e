/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The DPU's image, and the lock folder that belongs to its present mount. */
#ifndef SV_IMAGE_H
#define SV_IMAGE_H

#include "snicstore/files.h"

#define SV_WHY 256 /* bytes of a text with what failed, and why */

struct sv_image {
    struct snic_io *io;
    struct snic_files *files;
    void *mem;
    int locks; /* the lock folder, locked; -1: none */
};

/** Memory for what a memsize function returned; NULL: size 0, or none. */
void *sv_memory(size_t size);
/** Write "what: path: the error" to @p why. @return rc */
int sv_failed(char *why, const char *what, const char *path, int rc, int os_error);

/**
 * Open and mount, and format a file that is nothing but a hole; make @p locks, or empty it, and
 * keep other mounts out of it.
 * An image that another process has is waited for, six seconds.
 * @return 0; SNIC_EBUSY another process has it, or the folder; SNIC_E*; with the reason in @p why
 */
int sv_image_open(struct sv_image *m, struct snic_loop *loop, const char *path, const char *locks,
                  char *why);
/** Makes everything durable. */
void sv_image_close(struct sv_image *m);

#endif
