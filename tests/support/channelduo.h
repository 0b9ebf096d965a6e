/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A host and a DPU in one world, and what each end of a channel saw.
 */
#ifndef SNIC_TESTS_CHANNELDUO_H
#define SNIC_TESTS_CHANNELDUO_H

#include "channel/channel_priv.h"
#include "support.h"

#define DUO_LOG 512

/** What one channel's end saw. */
struct seen {
    struct snic_channel *c;
    uint32_t opened;
    uint32_t writable;
    uint32_t closed;
    int reason;
    uint32_t messages;
    uint32_t types[DUO_LOG];
    struct snic_channel_token tokens[DUO_LOG];
    uint32_t payload[DUO_LOG];
    void *payloads[DUO_LOG];
    int verdict; /* what message answers */
    int close_in_closed;
};

/** A host and a DPU in one world. */
struct duo {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_channel_hub *hub[2];
    void *mem[2];
    struct snic_channel_accept_opts accept;
    int refuse; /* what accept answers instead */
    int fini_in_death;
    uint32_t offers;
    struct snic_channel_offer offer;
    struct seen dpu[64]; /* by offer id */
    uint32_t user_messages;
    uint32_t user_bells[SNIC_DMA_DOORBELLS];
    uint32_t deaths;
};

struct snic_channel_events seen_events(struct seen *s);
void duo_open(struct duo *x, int sim, uint32_t caps, uint32_t channels_max);
void duo_run(struct duo *x);
void duo_close(struct duo *x);
struct snic_channel_opts duo_opts(uint64_t id);
/** Open channel @p id from the host and let it be accepted. */
void duo_channel(struct duo *x, struct seen *h, const struct snic_channel_opts *o);
/** Close both ends and see the places free again. */
void duo_part(struct duo *x, struct seen *h, struct seen *u);
int duo_send(struct seen *h, struct snic_channel_sender *s, uint32_t type, uint32_t bytes);

#endif
