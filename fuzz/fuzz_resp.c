/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv_server's RESP framing on hostile bytes. The first byte chooses the pieces in which the
 * rest arrives; pieces must not change the messages, and nothing is read beyond the end.
 */
#include <stdlib.h>
#include <string.h>

#include "resp.h"
#include "snicstore/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    uint64_t whole;
    uint64_t refused;
    uint64_t bytes;
    int error;
};

static void need(int ok)
{
    if (!ok)
        abort();
}

static void take(const unsigned char *msg, size_t size)
{
    unsigned char *scratch = malloc(size);
    struct resp_arg args[4];
    int64_t n = resp_args(msg, size, args, 4, scratch);

    need(n >= 0 || n == SNIC_EPROTO);
    for (int64_t i = 0; i < n && i < 4; i++)
        need(args[i].size <= size);
    free(scratch);
}

/* What of data[at, size) is there in a block of its own, so that a step beyond is seen. */
static int64_t step(const unsigned char *data, size_t size, uint64_t *state, struct outcome *o)
{
    static const struct resp_limits limits = {300, 1000, 20};
    unsigned char *copy = malloc(size);
    char text[RESP_ERROR_MAX];
    int64_t n;

    memcpy(copy, data, size);
    n = resp_skipping(*state) ? SNIC_EMSGSIZE : resp_frame(copy, size, &limits, state);
    if (n == SNIC_EMSGSIZE) {
        n = resp_discard(copy, size, state);
        o->refused += n >= 0 && *state == 0;
    } else if (n > 0) {
        need(*state == 0);
        take(copy, (size_t)n);
        o->whole++;
    }
    need(n <= (int64_t)size);
    if (n < 0)
        need(n == SNIC_EPROTO && resp_error(copy, size, &limits, text) <= sizeof(text));
    free(copy);
    return n;
}

static void feed(const unsigned char *data, size_t size, size_t piece, struct outcome *o)
{
    uint64_t state = 0;
    size_t at = 0;
    size_t have = 0;

    memset(o, 0, sizeof(*o));
    while (have < size && o->error == 0) {
        have = have + piece < size ? have + piece : size;
        while (at < have) {
            int64_t n = step(data + at, have - at, &state, o);

            if (n < 0)
                o->error = (int)n;
            if (n <= 0)
                break;
            at += (size_t)n;
            o->bytes += (uint64_t)n;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome once;
    struct outcome pieces;

    if (size < 2 || size > 20000)
        return 0;
    feed(data + 1, size - 1, size, &once);
    feed(data + 1, size - 1, (size_t)data[0] + 1, &pieces);
    need(once.whole == pieces.whole && once.refused == pieces.refused);
    need(once.error == pieces.error);
    return 0;
}
