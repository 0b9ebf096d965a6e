/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/image.h
 * An image of the file service for a program: opened, formatted when the file is new or blank,
 * mounted. What holds anything else is never touched.
 */
#ifndef EX_SERVER_IMAGE_H
#define EX_SERVER_IMAGE_H

#include "snicstore.h"

#include "memory.h"
#include "remote.h"

struct ex_image_opts {
    const char *path;      /**< a file, a block device or a remote device's name (remote.h)      */
    const char *auth_keys; /**< for a remote device that requires authentication; or NULL   */
    uint64_t size;         /**< of a new image; a block device has its own                  */
    uint64_t least;        /**< below it no image is made                                        */
    const char *why;       /**< what the least is for, for the error                             */
    int size_set;          /**< log when an image of another size exists already                 */
    int buffered;          /**< through the page cache                                           */
    uint32_t depth;        /**< requests on the device at once; 0: the default                   */
    struct snic_files_mount_opts mount;
    /** Put something in front of the device before it is mounted; NULL: nothing. */
    struct snic_io *(*wrap)(void *ctx, struct snic_io *io);
    void *ctx;
};

struct ex_image {
    struct snic_io *io;
    struct snic_files *files;
    struct ex_memory memory; /**< the file service's                                        */
    struct ex_remote remote;
};

/** Open, format if blank, mount; exits with a clear line on failure. */
void ex_image_open(struct ex_image *i, struct snic_loop *loop, const struct ex_image_opts *o);
/** Unmount and close. @return 0 or SNIC_E* of the unmount */
int ex_image_close(struct ex_image *i);

#endif
