/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A file system of one file for a child process, which this system's kernel mounts. */
#ifndef TEST_FUSEDEV_SERVED_H
#define TEST_FUSEDEV_SERVED_H

#include "snicstore/fusedev.h"

enum { SIZE = (1 << 20) + 3, NODE = 2, HELD = 64 };

struct served {
    struct snic_loop *loop;
    struct snic_fusedev *dev;
    void *mem;
    char dir[512];
    int fd;
    int closed, result;
    unsigned char *bytes;
    uint64_t size;
    struct snic_fusedev_call *waits[HELD]; /* locks */
    uint32_t waits_count, waits_most;
    struct snic_fusedev_call *held[HELD];
    uint32_t held_count;
    int hold;
    uint32_t flags;
    uint32_t requests;
    uint32_t most;
    uint32_t interrupts;
    uint64_t looked_up, forgotten;
    int to_parent[2], to_child[2];
};

/* What a child does. @return 0, or the number of the check that failed */
typedef int (*body_fn)(struct served *s);

#define CHECK(n, c)                                                                                \
    do                                                                                             \
        if (!(c))                                                                                  \
            return (n);                                                                            \
    while (0)

/* Byte @p i of the file. */
unsigned char served_byte(uint64_t i);
/* Mount and serve; @p flags: SNIC_FUSEDEV_POLLED, or 0. The program is skipped if it may not. */
void served_begin(struct served *s, uint32_t calls_max, uint32_t flags);
/* Let the loop run once. A polled device is not read by that. */
void served_turn(struct served *s);
/* The child runs @p body, this process serves it, and answers a byte of it by changing the file. */
void served_run(struct served *s, body_fn body);
/* Unmount. */
void served_end(struct served *s);
/* The device has ended. */
void served_release(struct served *s);
void served_path(const struct served *s, char *out, size_t size, const char *name);

#endif /* TEST_FUSEDEV_SERVED_H */
