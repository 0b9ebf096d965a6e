/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "framing.h"

#include "../common.h"

#include <inttypes.h>
#include <string.h>

int64_t resp_framing_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    struct resp_framing *f = ctx;
    int64_t n = SNIC_EMSGSIZE;

    if (!resp_skipping(*state)) {
        n = resp_frame(data, size, &f->limits, state);
        if (size > f->query_max && (n == 0 || n == SNIC_EMSGSIZE)) {
            f->query_over = 1;
            f->query_limit++;
            return SNIC_EMSGSIZE; /* the connection ends */
        }
    }
    if (n != SNIC_EMSGSIZE)
        return n;
    n = resp_discard(data, size, state);
    if (n <= 0 && *state != 0)
        return n; /* broken, or nothing to drop yet */
    return *state == 0 ? SNIC_DIRECTOR_REFUSE(n) : SNIC_DIRECTOR_DROP(n);
}

uint32_t resp_framing_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                            uint32_t max)
{
    struct resp_framing *f = ctx;
    char text[RESP_ERROR_MAX];
    size_t n;

    if (f->query_over) { /* client-query-buffer-limit: no reply, as in Redis */
        f->query_over = 0;
        return 0;
    }
    n = error == SNIC_EMSGSIZE ? resp_too_long(&f->limits, f->bulk_option, text)
                               : resp_error(data, size, &f->limits, text);

    n = n < max ? n : max;
    memcpy(out, text, n);
    return (uint32_t)n;
}

uint32_t resp_framing_full(void *ctx, char *out, uint32_t max)
{
    static const char text[] = "-ERR max number of clients reached\r\n";

    (void)ctx;
    memcpy(out, text, snic_min_u64(sizeof(text) - 1, max));
    return (uint32_t)snic_min_u64(sizeof(text) - 1, max);
}

void resp_framing_report(struct resp_framing *f)
{
    if (f->query_limit > f->query_logged)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were closed: their unfinished command is longer than "
               "client-query-buffer-limit",
               f->query_limit - f->query_logged);
    f->query_logged = f->query_limit;
}
