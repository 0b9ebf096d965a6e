/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The search of tests/sim, by windows of each key: exact, also for exchanges and deletions. */
#include "judge.h"
#include "lin.h"

#include <stdlib.h>
#include <string.h>

enum { JUDGE_WINDOW = LIN_WINDOW * 3 / 4 };

static size_t judge_search_convert(struct judge_span s, struct lin_op *to)
{
    size_t n = 0;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *op = &s.op[i];
        if (op->kind == JUDGE_EXPIRY && op->call == JUDGE_OPEN)
            continue;
        struct lin_op l = {.call = op->call + 1, /* 0 has a meaning of its own */
                           .end = op->end == JUDGE_OPEN ? LIN_OPEN : op->end + 1,
                           .key = op->key,
                           .value = op->value,
                           .expect = op->expect,
                           .synced = LIN_OPEN};
        if (op->kind == JUDGE_GET)
            l.kind = LIN_READ;
        else
            l.kind = op->kind == JUDGE_CAS ? LIN_CAS : LIN_WRITE;
        if (op->kind == JUDGE_EXPIRY)
            l.value = 0;
        to[n++] = l;
    }
    return n;
}

/* The next loss after that time, or the end. */
static uint64_t judge_search_until(const struct judge_history *h, uint64_t time)
{
    for (size_t i = 0; i < h->loss_count; i++) {
        if (h->losses[i].down > time)
            return h->losses[i].down;
    }
    return LIN_OPEN;
}

int judge_search(const struct judge_history *h, struct judge_span s)
{
    struct lin_op *ops = calloc(s.count + 1, sizeof(*ops));
    size_t n = judge_search_convert(s, ops);
    int worst = 0;
    uint64_t from = 0;
    for (size_t i = 0; i < n && worst != 1;) {
        uint64_t loss = judge_search_until(h, ops[i].call);
        size_t next = i + 1;
        while (next < n && next - i < JUDGE_WINDOW && ops[next].call < loss)
            next++;
        uint64_t to = next < n ? ops[next].call : LIN_OPEN;
        uint64_t key;
        enum lin_verdict v = lin_check_search(ops, n, from, to < loss ? to : loss, &key);
        if (v == LIN_BAD)
            worst = 1;
        else if (v == LIN_GAVE_UP)
            worst = 2;
        i = next;
        from = to; /* from 0 the key is absent at first */
    }
    free(ops);
    return worst;
}
