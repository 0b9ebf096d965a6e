/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/framing.h
 * Framing for a director or a front (struct snic_director_user): cuts the messages of clients,
 * skips those that are too long, ends a connection whose unfinished message is longer than
 * client-query-buffer-limit.
 */
#ifndef EX_RESP_FRAMING_H
#define EX_RESP_FRAMING_H

#include "resp.h"

struct resp_framing {
    struct resp_limits limits;
    const char *bulk_option; /**< that is limits.bulk_max; NULL: none                        */
    uint64_t query_max;      /**< client-query-buffer-limit                                  */
    uint64_t query_limit;    /**< clients ended for it                                       */
    uint64_t query_logged;   /**< of them, as of the last line in the log                    */
    int query_over;          /**< the connection being framed is ended for it                */
};

/* frame(), protocol_error() and full() of struct snic_director_user; ctx is a struct resp_framing,
 * or a struct that begins with one. */
int64_t resp_framing_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state);
uint32_t resp_framing_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                            uint32_t max);
uint32_t resp_framing_full(void *ctx, char *out, uint32_t max);
/** A line in the log about clients ended for client-query-buffer-limit since the last one. */
void resp_framing_report(struct resp_framing *f);

#endif
