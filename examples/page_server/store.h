/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/store.h
 * The files of the server, on whatever holds them: the file library (roles apart), or plain
 * files of the operating system (the baseline).
 */
#ifndef PS_STORE_H
#define PS_STORE_H

#include "snicstore.h"

enum store_file { STORE_PAGES, STORE_LOG, STORE_SHAPE, STORE_FILES };

struct store_req;
typedef void (*store_done_fn)(struct store_req *r);

/** One read or write; the caller's, borrowed until done. */
struct store_req {
    uint8_t write;
    uint8_t sync; /**< a write that survives power loss before it is done                      */
    uint8_t file; /**< enum store_file                                                         */
    uint64_t offset;
    uint32_t size;
    unsigned char *data; /**< aligned to STORE_ALIGN                                           */
    uint64_t tag[2];     /**< for the DPU's hook: page and LSN of a page's new version         */
    store_done_fn done;  /**< from the loop                                                    */
    int64_t result;
    union {
        struct snic_filelib_req lib;
        struct snic_io_req io;
    } u;
};

#define STORE_ALIGN 4096u

struct store {
    void (*submit)(struct store *s, struct store_req *r);
    struct snic_loop *loop;
    uint64_t ids[STORE_FILES]; /**< of the files, in the file library                          */
    struct snic_filelib *lib;
    struct snic_io *ios[STORE_FILES];
};

/** Sizes of the files to open or to make. */
struct store_opts {
    const char *directory; /**< plain files only                                               */
    int buffered;          /**< plain files only                                               */
    uint64_t sizes[STORE_FILES];
    /** May be NULL. Called while STORE_SHAPE alone is open, before the others are made or grow.
        @return 0 or SNIC_E*: the store is not opened */
    int (*check)(struct store *s, void *ctx);
    void *ctx;
};

/** Open the files on the file library, or make them. Runs the loop. Exits with a clear line where
    the image holds files of another program only. @return 0 or SNIC_E* */
int store_open_lib(struct store *s, struct snic_filelib *lib, struct snic_loop *loop,
                   const struct store_opts *o);
/** The same on plain files. Exits with a clear line on failure. */
void store_open_plain(struct store *s, struct snic_loop *loop, const struct store_opts *o);
void store_close_plain(struct store *s);

/** Submit one request and run the loop until it is done. @return its result */
int64_t store_run(struct store *s, struct store_req *r);

#endif
