/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/front_out.h
 * Replies that a client has not taken yet: bytes in blocks, so that what was sent is free at once
 * and what is appended moves nothing.
 */
#ifndef EX_SERVER_FRONT_OUT_H
#define EX_SERVER_FRONT_OUT_H

#include "snicstore.h"

#define FRONT_OUT_IOV 16

struct front_out_block;

/** All zero: empty. */
struct front_out {
    struct front_out_block *first;
    struct front_out_block *last;
    size_t bytes;  /**< not sent                                                          */
    size_t memory; /**< of the blocks                                                     */
    uint32_t blocks;
};

/** Append a copy. @return 0; SNIC_ENOMEM a part may have been appended */
int front_out_append(struct front_out *o, const void *data, size_t size);
/** Append @p data of malloc() itself: it is freed when it was sent. @return 0; SNIC_ENOMEM it is
 * still the caller's */
int front_out_take(struct front_out *o, void *data, size_t size);
/** An empty block of exactly so many bytes, for what is appended next. @return 0; SNIC_ENOMEM */
int front_out_room(struct front_out *o, size_t size);
/** Move the blocks from @p first on, of another one, behind these. */
void front_out_splice(struct front_out *o, struct front_out_block *first);
/** What one send takes: some of the first blocks, unchanged until front_out_sent(). @return pieces
 */
uint32_t front_out_gather(const struct front_out *o, struct snic_iov iov[FRONT_OUT_IOV],
                          size_t *bytes);
/** The first @p bytes have been sent. */
void front_out_sent(struct front_out *o, size_t bytes);
void front_out_free(struct front_out *o);
void front_out_free_blocks(struct front_out_block *first);
/** What a block has, and the next one. */
const void *front_out_data(const struct front_out_block *b);
const struct front_out_block *front_out_next(const struct front_out_block *b);
/** Have malloc() keep what replies free, up to what front_out_trim() returns. */
void front_out_init(void);
/** Return free memory to the system when all clients hold @p held bytes, much less than @p most. */
void front_out_trim(uint64_t held, uint64_t *most);

#endif
