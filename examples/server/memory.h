/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file server/memory.h
 * Memory for the large tables of a server. */
#ifndef EX_SERVER_MEMORY_H
#define EX_SERVER_MEMORY_H

#include <stddef.h>

/** All zero: none. */
struct ex_memory {
    void *at;
    size_t size;
};

/** Memory for a large table, on huge pages where it pays; exits when there is none.
    @return m->at */
void *ex_memory(struct ex_memory *m, size_t size, const char *what);
/** Give it back; harmless when there is none. */
void ex_memory_free(struct ex_memory *m);
/** Return pages of it to the system; they are zeros when they are used again. */
void ex_memory_release(void *ctx, void *mem, size_t size);

#endif
