/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * judge_history [--keeps written|read|both|none] [FILE]: judges a history (README.md has the
 * format). --keeps: what operations of the default class keep over a loss; default: both, as the
 * model Synch does. Exit code 0: right; 1: wrong, the lines of the history that show it are
 * printed; 2: malformed.
 */
#include "judge.h"

#include <string.h>

struct judge_verdict {
    uint32_t bad;
    uint32_t registers;
    uint32_t counters;
    uint32_t unfinished;
};

static void judge_answers(const struct judge_history *h, struct judge_span s,
                          struct judge_verdict *v)
{
    for (size_t i = 0; i < s.count; i++) {
        if (judge_copies(h, &s.op[i]))
            continue;
        v->bad++;
        (void)printf("WRONG key %s: an answer stands for more copies than there were nodes (line "
                     "%u)\n",
                     judge_key(h, s.op->key), s.op[i].line);
        return;
    }
}

static void judge_one(const struct judge_history *h, struct judge_span s, struct judge_verdict *v)
{
    uint32_t line[2] = {0, 0};
    int increments = 0, others = 0;
    const char *why;
    for (size_t i = 0; i < s.count; i++) {
        increments |= s.op[i].kind == JUDGE_INCR;
        others |= s.op[i].kind != JUDGE_INCR && s.op[i].kind != JUDGE_GET;
    }
    if (increments && others) {
        why = "a key with increments and other writes cannot be judged";
    } else if (increments) {
        why = judge_counter(h, s, line);
        v->counters++;
    } else {
        why = judge_register(h, s, line);
        v->registers++;
        int searched = why != NULL ? 0 : judge_search(h, s);
        if (searched == 1) {
            why = "no order of its operations explains the results (search)";
            line[0] = s.op[0].line;
        }
        v->unfinished += searched == 2;
    }
    if (why == NULL)
        return;
    v->bad++;
    (void)printf("WRONG key %s: %s (line %u", judge_key(h, s.op[0].key), why, line[0]);
    if (line[1] != 0)
        (void)printf(", see line %u", line[1]);
    (void)printf(")\n");
}

int main(int argc, char **argv)
{
    static const char *const keeps[] = {"none", "written", "read", "both"};
    uint32_t flags = JUDGE_KEEPS_WRITTEN | JUDGE_KEEPS_READ;
    struct judge_history h;
    struct judge_verdict v = {0, 0, 0, 0};
    FILE *f = stdin;
    int i = 1;
    if (argc > 2 && strcmp(argv[1], "--keeps") == 0) {
        for (flags = 0; flags < 4 && strcmp(argv[2], keeps[flags]) != 0;)
            flags++;
        i = 3;
    }
    if (flags > 3 || argc > i + 1) {
        (void)fprintf(stderr, "usage: judge_history [--keeps written|read|both|none] [FILE]\n");
        return 2;
    }
    if (i < argc && (f = fopen(argv[i], "r")) == NULL) {
        perror(argv[i]);
        return 2;
    }
    if (judge_read(&h, f, flags) != 0) {
        judge_free(&h);
        return 2;
    }
    for (size_t at = 0; at < h.count;) {
        struct judge_span s = {&h.ops[at], 0};
        while (at < h.count && h.ops[at].key == s.op->key)
            at++, s.count++;
        judge_answers(&h, s, &v);
        if (s.op->kind != JUDGE_SYNC)
            judge_one(&h, s, &v);
    }
    v.bad += judge_watches(&h);
    (void)printf("%s: %llu ok, %llu refused, %llu failed, %llu unknown; %u keys, %u counters, "
                 "%zu losses, %zu changes watched; %u keys not searched whole\n",
                 v.bad == 0 ? "right" : "wrong", (unsigned long long)h.results[JUDGE_OK],
                 (unsigned long long)h.results[JUDGE_NO], (unsigned long long)h.results[JUDGE_FAIL],
                 (unsigned long long)h.results[JUDGE_UNKNOWN], v.registers, v.counters,
                 h.loss_count, h.seen_count, v.unfinished);
    judge_free(&h);
    if (f != stdin)
        (void)fclose(f);
    return v.bad == 0 ? 0 : 1;
}
