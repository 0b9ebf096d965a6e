/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A host and a target face to face: two streams in memory, the target's commands executed on a
 * small memory, both checked after every step. Tests set the knobs between duo_opts() and
 * duo_open().
 */
#ifndef SNIC_TESTS_NVMETCP_UTIL_H
#define SNIC_TESTS_NVMETCP_UTIL_H

#include "snicstore/nvmetcp.h"
#include "support/support.h"

enum { DUO_BYTES = 1 << 20, DUO_DISK = 1 << 18, DUO_OPEN = 64, DUO_GRANTS = 4 };

struct pipe {
    size_t head, tail;
    uint64_t gone; /* bytes before those in memory */
    unsigned char bytes[DUO_BYTES];
};

/* A command that the target has. */
struct duo_open {
    uint32_t command;
    uint32_t used;
    unsigned char sqe[64];
    uint32_t wanted, granted, arrived, to_host, grants;
    int32_t error;
    const unsigned char *data;
    uint32_t data_size;
    struct snic_iov iov[DUO_GRANTS][3]; /* of the grants that are open */
};

struct duo {
    struct snic_nvmetcp_target_opts to;
    struct snic_nvmetcp_host_opts ho;
    struct snic_nvmetcp_queue queue;
    uint32_t host_inline;
    uint32_t grant_bytes; /* of a grant; 0: all */
    uint32_t cut;         /* bytes moved at a time; 0: all */
    int hold;             /* commands are not executed */
    int zero_copy;        /* bytes go to want where they can */
    uint32_t output_iovs; /* most pieces of an output */
    size_t split[2];      /* a piece ends at this byte of the stream to the target, to the host */
    struct snic_rng *rng; /* chance: sizes of pieces, zero copy, when sends are reported */
    size_t unsent[2];     /* output that was not reported as sent: host, target */
    uint64_t now;
    struct snic_nvmetcp_target *t;
    struct snic_nvmetcp_host *h;
    void *tmem, *hmem;
    int ready, done, sent, t_term, t_ended, h_term, h_ended;
    struct snic_nvmetcp_event t_last, h_last; /* TERM or ENDED */
    uint32_t opens;
    struct duo_open open[DUO_OPEN];
    struct snic_iov out[DUO_OPEN]; /* of completions, until SENT; the cookie is the number */
    struct pipe up, down;          /* to the target, to the host */
    unsigned char disk[DUO_DISK];
};

void duo_opts(struct duo *d);
void duo_open(struct duo *d);
void duo_close(struct duo *d);
void duo_check(const struct duo *d);
/** Both sides output into the streams. */
void duo_output(struct duo *d);
/** 1: everything is at rest: streams empty, all output reported as sent. */
int duo_idle(const struct duo *d);
/** One round: output, input, events. @return 1 something moved */
int duo_round(struct duo *d);
/** Rounds until nothing moves. */
void duo_run(struct duo *d);
/** Target events. */
void duo_events(struct duo *d);
/** Execute an open command, or grant. @return 1 something was done */
int duo_execute(struct duo *d, struct duo_open *o);
/** Connect has been completed. */
void duo_connect(struct duo *d);
/** Prepare a command of @p op at @p at of the disk. */
void duo_command(struct snic_nvmetcp_command *c, uint8_t op, uint32_t at, struct snic_iov *iov,
                 uint32_t iovs);
void duo_submit(struct duo *d, struct snic_nvmetcp_command *c);
void pipe_put(struct pipe *p, const void *data, size_t size);

/** A target alone, fed by hand. */
struct solo {
    struct snic_nvmetcp_target_opts o;
    struct snic_nvmetcp_target *t;
    void *mem;
    uint64_t now;
    size_t out_size;
    unsigned char out[1 << 16];
};
void solo_open(struct solo *s);
void solo_close(struct solo *s);
/** Feed, then collect output. @return bytes consumed */
size_t solo_feed(struct solo *s, const void *data, size_t size);
void solo_output(struct solo *s);
/** Feed ICReq with these, take ICResp out of the output. */
void solo_greet(struct solo *s, uint8_t digests, uint8_t hpda, uint32_t maxr2t);
/** Bytes of a CapsuleCmd at @p out. @return their number */
size_t solo_capsule(unsigned char *out, const struct snic_nvmetcp_params *p,
                    const unsigned char sqe[64], const void *data, uint32_t size);
/** Connect accepted with @p entries. */
void solo_connect(struct solo *s, const struct snic_nvmetcp_params *p, uint32_t entries,
                  uint32_t flags);
/** The output is a C2HTermReq with these. */
void solo_expect_term(struct solo *s, uint16_t fes, uint32_t fei);
/** One event of @p type. */
struct snic_nvmetcp_event solo_event(struct solo *s, uint32_t type);
void solo_none(struct solo *s);

/** No digests, no alignment. */
extern const struct snic_nvmetcp_params plain;
/** Opened, greeted, connected with 4 entries. */
void solo_up(struct solo *s, uint32_t flags);
/** A command without data was delivered. @return its handle */
uint32_t solo_command(struct solo *s, uint16_t cid);
/** A write of @p size was delivered, and nothing was sent for it. @return its handle */
uint32_t solo_write(struct solo *s, uint32_t size);
/** Bytes that depend on the seed. */
void fill(unsigned char *p, size_t size, unsigned seed);

#endif /* SNIC_TESTS_NVMETCP_UTIL_H */
