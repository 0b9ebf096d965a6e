/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The learner's inside: a state machine of its own that a switch feeds and asks (learn.c); it
 * knows nothing of switches.
 */
#ifndef SNIC_GIMBAL_LEARN_PRIV_H
#define SNIC_GIMBAL_LEARN_PRIV_H

#include "snicstore/gimbal.h"

/* Samples of one kind that make a batch. */
#define SNIC_GIMBAL__BATCH 8
/* A batch per epoch, if the traffic has I/Os alone; two that agree replace a latency by a higher
 * one. */
#define SNIC_GIMBAL__EPOCH_NS UINT64_C(500000000)
/* Without a reason a quiet time is due every so many epochs. */
#define SNIC_GIMBAL__REST 8
/* Over which rates are measured. */
#define SNIC_GIMBAL__SPAN_NS UINT64_C(20000000)
/* Latencies count as at most a second. */
#define SNIC_GIMBAL__LATENCY_MAX UINT64_C(1000000000)

/* Of samples: latencies of I/Os alone on the device. */
enum gimbal_learn_kind {
    GIMBAL_LEARN_SMALL = 0, /* reads */
    GIMBAL_LEARN_LARGE,
    GIMBAL_LEARN_WRITE,
    GIMBAL_LEARN_KINDS
};

/* What follows from a profile for a switch. */
struct gimbal_tuning {
    uint64_t thresh_min_ns;
    uint64_t thresh_max_ns;
    uint64_t rate_max;
    uint32_t write_cost_worst;
    uint32_t slot_threshold;
};

struct gimbal_learn {
    struct snic_gimbal_profile known;
    uint64_t now_ns;
    /* The epoch's batch. */
    uint64_t epoch_ns;
    uint64_t sample[GIMBAL_LEARN_KINDS][SNIC_GIMBAL__BATCH];
    uint32_t samples[GIMBAL_LEARN_KINDS];
    uint32_t closed; /* it is complete, or its quiet time is over */
    uint32_t judged; /* it has had enough samples */
    uint32_t quiet;  /* one I/O at a time */
    uint64_t quiet_since_ns;
    uint64_t quiet_ns; /* its end */
    uint32_t alone;    /* one I/O has the device for itself, */
    uint32_t firm;     /* what is known was measured, not stored */
    uint64_t sent_ns;  /* since then */
    uint64_t wrote_ns; /* a write was back */
    uint32_t wrote;    /* ever */
    uint32_t fresh;    /* something changed since the last poll */
    /* By op: how many batches in a row were higher, and the lowest of them. */
    uint32_t higher[2];
    uint64_t higher_ns[2];
    /* The span. */
    uint64_t span_ns;
    uint32_t span_idle; /* the device had nothing to do, or the time was quiet */
    uint32_t span_held; /* the switch had an I/O that lacked tokens: the rate may be its own */
    uint64_t bytes[2];  /* by op */
    uint64_t ios;
    uint64_t took_ns; /* their latencies, */
    uint64_t like_ns; /* and the first device's of I/Os alone like these */
    uint64_t top[2];  /* reads' highest rates of the epoch: small, large */
    /* Of the epoch, and of that of the last batch: bytes, I/Os, latency over that alone. */
    uint64_t epoch_bytes;
    uint64_t epoch_took_ns;
    uint64_t epoch_like_ns;
    uint64_t rate;
    uint64_t load;
    uint32_t epoch_wrote;
    uint32_t rest; /* epochs in which no quiet time is due */
    uint64_t batches;
    uint64_t quiets;
};

void gimbal_learn_init(struct gimbal_learn *l, uint64_t now);
/* 0; SNIC_EINVAL */
int gimbal_learn_load(struct gimbal_learn *l, const struct snic_gimbal_profile *p);
/* An I/O goes to the device, which has @inflight others. */
void gimbal_learn_sent(struct gimbal_learn *l, uint32_t inflight, uint64_t now);
/* One is back, which was sent at @sent_ns; @timed: its latency counts. @inflight: others there. */
void gimbal_learn_done(struct gimbal_learn *l, const struct snic_gimbal_io *io, int timed,
                       uint32_t inflight, uint64_t now);
/* 1: nothing may be sent while something is on the device. */
int gimbal_learn_quiet(struct gimbal_learn *l, uint64_t now);
/* 1: an I/O that is back now was sent in the quiet time: it is no measure of others. */
int gimbal_learn_apart(const struct gimbal_learn *l, const struct snic_gimbal_io *io);
/* When that ends, if nothing happens before; SNIC_NEVER. */
uint64_t gimbal_learn_deadline_ns(const struct gimbal_learn *l);
/* 1: what is known has changed since the last call. */
int gimbal_learn_poll(struct gimbal_learn *l);
/* What follows from @p, which is valid, for slots of @slot_bytes. */
void gimbal_learn_tune(const struct snic_gimbal_profile *p, uint32_t slot_bytes,
                       struct gimbal_tuning *out);
int gimbal_learn_check(const struct gimbal_learn *l);

#endif
