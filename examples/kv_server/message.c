/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Messages that wait, and the arguments of one. */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

int kv_message_keep(struct kv_message **first, struct kv_message **last, uint64_t seq,
                    const unsigned char *msg, size_t size)
{
    struct kv_message *m = malloc(sizeof(*m) + size);

    if (m == NULL)
        return SNIC_ENOMEM;
    m->next = NULL;
    m->seq = seq;
    m->size = size;
    memcpy(m->data, msg, size);
    if (*first == NULL)
        *first = m;
    else
        (*last)->next = m;
    *last = m;
    return 0;
}

int64_t kv_engine_args(struct kv_engine *e, const unsigned char *msg, size_t size)
{
    int64_t n;

    if (msg[0] != '*' && e->scratch_room < size) {
        unsigned char *p = realloc(e->scratch, size);

        if (p == NULL)
            return SNIC_ENOMEM;
        e->scratch = p;
        e->scratch_room = size;
    }
    n = resp_args(msg, size, e->args, e->args_room, e->scratch);
    if (n > e->args_room) {
        struct resp_arg *p = realloc(e->args, (size_t)n * sizeof(*p));

        if (p == NULL)
            return SNIC_ENOMEM;
        e->args = p;
        e->args_room = (uint32_t)n;
        n = resp_args(msg, size, e->args, e->args_room, e->scratch);
    }
    return n;
}
