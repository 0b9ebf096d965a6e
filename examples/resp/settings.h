/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/settings.h
 * What CONFIG SET changes while the server runs, under Redis' names and with Redis' meaning,
 * and how its texts are read and written.
 *
 * One deviation: the output buffers of normal clients are bounded by default, and so is what all
 * clients hold together, since a server without bounds is ended by its slowest reader.
 */
#ifndef EX_RESP_SETTINGS_H
#define EX_RESP_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#define RESP_PASSWORD_MAX 512
#define RESP_OUT_CLASSES 3 /**< normal, replica, pubsub; only the first has clients here      */

/**
 * A client is not read from at hard, and closed when it takes nothing for 10 s then, or for soft_s
 * seconds above soft: Redis closes it at once above hard, and after soft_s above soft whether it
 * reads or not. 0: no limit, but 1 GiB where there is a DPU role.
 */
struct resp_out_limit {
    uint64_t hard;
    uint64_t soft;
    uint64_t soft_s;
};

struct resp_settings {
    struct resp_out_limit out[RESP_OUT_CLASSES]; /**< client-output-buffer-limit                */
    /** maxmemory-clients: of all clients together, the largest is closed first; 0: no limit;
        negative: percent of the machine's memory. */
    int64_t clients;
    uint64_t query;                   /**< client-query-buffer-limit                            */
    char password[RESP_PASSWORD_MAX]; /**< requirepass; "": none                                */
    int protected_mode;               /**< protected-mode                                       */
    int64_t slow_us;  /**< slowlog-log-slower-than; -1: nothing is noted, 0: everything           */
    int64_t slow_max; /**< slowlog-max-len                                                        */
};

void resp_settings_default(struct resp_settings *s);
/** Bytes of settings.clients. */
uint64_t resp_settings_clients(const struct resp_settings *s);
/** "100", "64mb", "1g", ... @return 0; -1 */
int resp_settings_bytes(const char *text, size_t size, uint64_t *out);
/**
 * Set @p name to @p value, or only look whether that is possible. NULL: done; else Redis' text
 * for what is wrong with the value. *known 0: there is no such name.
 */
const char *resp_settings_set(struct resp_settings *s, const char *name, const char *value,
                              int *known);
/** The setting number @p i. @return its name, and the value as text; NULL past the end */
const char *resp_settings_get(const struct resp_settings *s, size_t i, char *value, size_t max);

#endif
