/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** Requests as bytes, from a table of the test's own, and a plain parser to compare with. */
#ifndef SNIC_TESTS_FUSE_UTIL_H
#define SNIC_TESTS_FUSE_UTIL_H

#include "snicstore/fuse.h"
#include "support.h"

enum { UTIL_MAX = 8192, UTIL_OPCODES = 60 };

/* An operation: bytes of its struct (-1: unknown), kinds of its names ("e" entry, "l" looked up,
   "t" target, "x" attribute, "a" any), where the size of its data is in its struct (-1: none), and
   the unit of that. */
struct util_op {
    int in;
    const char *names;
    int size_at;
    uint32_t unit;
    int extends;
};

struct util_op util_op(uint32_t opcode, const struct snic_fuse_conn *conn);
/* A connection after INIT, with these flags. */
void util_conn(struct snic_fuse_conn *conn, uint64_t flags);
/* A good request of @p opcode into @p to: arguments of 0, names and data of the given sizes.
   @return its bytes */
size_t util_build(unsigned char *to, uint32_t opcode, const struct snic_fuse_conn *conn,
                  uint32_t name_size, uint32_t data_size);
/* Set len of the request. */
void util_len(unsigned char *request, size_t size);
/* What snic_fuse_parse() must return for one piece; *@p body has what it must find. */
int util_model(const unsigned char *request, size_t size, const struct snic_fuse_conn *conn,
               struct snic_fuse_request *body);
/* Parse a copy, whose last byte is the last one that can be read. @return as snic_fuse_parse() */
int util_parse(struct snic_fuse_request *r, const struct snic_fuse_conn *conn,
               const unsigned char *request, size_t size, unsigned char **held);

#endif
