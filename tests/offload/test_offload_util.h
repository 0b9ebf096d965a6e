/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** A node for the tests of offload: files on a disk that takes its time, and an engine. */
#ifndef SNIC_TESTS_TEST_OFFLOAD_UTIL_H
#define SNIC_TESTS_TEST_OFFLOAD_UTIL_H

#include "filefix.h"
#include "snicstore/offload.h"
#include "support.h"

struct node {
    struct filefix fx;
    struct snic_offload *o;
    void *mem;
    uint64_t file;
    uint32_t delivered;
    uint32_t to_host;
    uint64_t order[4096]; /* cookies, as delivered */
    int64_t result;       /* of the last read */
    int verdict;
    int answer;    /* func() answers without a read */
    int no;        /* func() returns host */
    uint32_t more; /* parts that func() asks for */
    uint32_t tenant;
    int hold; /* do not release */
    struct snic_offload_job *held[4096];
    uint32_t held_count;
};

/* A message has what to read: offset and size; the bytes are node_byte_at()'s. */
struct query {
    uint64_t file;
    uint64_t offset;
    uint32_t size;
    uint32_t gap; /* between parts */
};

/** The byte of the node's file at that offset. */
unsigned char node_byte_at(uint64_t i);

/* The engine's user functions, and what a job is submitted with; ctx is the node. */
int node_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
              struct snic_offload_read *out, struct snic_offload_reply *reply);
enum snic_offload_verdict node_reply(void *ctx, const struct snic_offload_msg *msg,
                                     const struct snic_offload_read *op, const unsigned char *data,
                                     int64_t result, uint64_t now_ns,
                                     struct snic_offload_reply *out);
void node_done(void *ctx, struct snic_offload_job *job);

/** Options for a test: small tables. */
struct snic_offload_opts node_opts(void);
/** A world, a disk of that alignment with a file of 100000 bytes, an engine. */
void node_open(struct node *n, const struct snic_offload_opts *o, uint32_t align);
/** Everything is released, and nothing is left over. */
void node_close(struct node *n);
/** Ask for a range of the file; 0 or why not (SNIC_E*). `s` NULL: in no stream. */
int node_request(struct node *n, struct snic_offload_stream *s, uint64_t offset, uint32_t size,
                 uint64_t cookie);
/** Until nothing is left to happen. */
void node_run(struct node *n);

#endif /* SNIC_TESTS_TEST_OFFLOAD_UTIL_H */
