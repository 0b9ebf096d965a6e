/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** What the files of kvfs_stress share: a process with its names, its choices, and the bytes. */
#ifndef SNIC_TESTS_KVFS_STRESS_H
#define SNIC_TESTS_KVFS_STRESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DIRS = 8, NAMES = 16, KEYS = DIRS * NAMES, OBJECTS = KEYS, BLOCK = 512, BLOCKS = 400 };

struct st_object {
    mode_t type;
    mode_t mode;
    uint64_t ino;
    size_t blocks; /* size */
    unsigned links;
    int attribute; /* value, 0: none */
};

struct st {
    uint64_t seed, random;
    long steps, step;
    int id;
    int processes;
    const char *doing;
    struct st_object objects[OBJECTS];
    int key[KEYS]; /* object or -1 */
    char buffer[BLOCKS * BLOCK];
};

struct st_name {
    char text[64];
};

/** Prints where, what and why, and ends the process. */
void st_fail(const struct st *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
uint64_t st_mix(uint64_t z);
/** The next choice of the process: below n. */
unsigned st_below(struct st *s, unsigned n);

/* ---- Bytes: by inode number and offset, or zero ---- */

void st_fill(struct st *s, uint64_t ino, size_t at, size_t n);
/** Read and compare the whole file; quiet: it has no writer, so no block is half zero. */
void st_read(struct st *s, int fd, uint64_t ino, int quiet, const char *path);
/** Write n blocks from block `at`, through the descriptor, or punch them out. */
void st_change(struct st *s, int fd, uint64_t ino, size_t at, size_t n, const char *path);

/* ---- Names of one's own, against the model (kvfs_stress_own.c) ---- */

void st_create(struct st *s);
void st_remove(struct st *s);
void st_rename(struct st *s);
void st_link(struct st *s);
void st_attributes(struct st *s);
void st_data(struct st *s);
void st_list(struct st *s);
void st_look(struct st *s);
/** Is this name as in the model? */
void st_verify(struct st *s, int key);

/* ---- At the end (kvfs_stress_walk.c) ---- */

/** Everything below this folder is consistent; then it is removed. */
void st_after(struct st *s);

#endif /* SNIC_TESTS_KVFS_STRESS_H */
