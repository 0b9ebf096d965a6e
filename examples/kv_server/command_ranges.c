/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on parts of values: APPEND, SETRANGE, GETRANGE, LCS. */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

/* Would a value of a + b bytes be too long? The error is written then. */
static int range_too_long(struct kv_command *c, uint64_t a, uint64_t b)
{
    if (b <= c->engine->opts.value_max && a + b <= c->engine->opts.value_max)
        return 0;
    kv_put_error(c->engine, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    return 1;
}

/*
 * The value that argv[1] names as it is with @p part written over it at @p offset, zeros between.
 * The reply is its length.
 */
static enum kv_outcome range_write(struct kv_command *c, struct kv_entry *e, uint64_t offset,
                                   const struct resp_arg *part)
{
    struct kv_string_put p = {
        .database = c->database, .key = &c->argv[1], .encoding = KV_ENTRY_RAW};
    const unsigned char *old = NULL;
    uint32_t old_size = 0;
    unsigned char *value;
    enum kv_outcome o;
    int stored;

    if (e != NULL) {
        o = kv_value_to_modify(c, e, &old, &old_size);
        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        p.expire_ms = e->expire_ms;
    }
    p.size = (uint32_t)snic_max_u64(offset + part->size, old_size);
    value = malloc(p.size > 0 ? p.size : 1);
    if (value == NULL)
        return kv_write_failed(c, SNIC_ENOMEM);
    if (old_size > 0)
        memcpy(value, old, old_size);
    if (offset > old_size)
        memset(value + old_size, 0, offset - old_size);
    memcpy(value + offset, part->data, part->size);
    p.value = value;
    o = kv_string_store(c, &p, &stored);
    free(value);
    if (o == KV_DONE && stored)
        kv_put_integer(c->engine, p.size);
    return o;
}

enum kv_outcome kv_cmd_append(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);
    const struct resp_arg *part = &c->argv[2];
    struct kv_string_put p = {.database = c->database, .key = &c->argv[1]};
    enum kv_outcome o;
    int stored;

    if (e != NULL)
        return range_too_long(c, e->value_size, part->size)
                   ? KV_DONE
                   : range_write(c, e, e->value_size, part);
    if (part->size > c->engine->opts.value_max) {
        (void)range_too_long(c, 0, part->size);
        return KV_DONE;
    }
    p.value = part->data;
    p.size = part->size;
    o = kv_string_store(c, &p, &stored); /* a new value, encoded as by SET */
    if (o == KV_DONE && stored)
        kv_put_integer(c->engine, part->size);
    return o;
}

enum kv_outcome kv_cmd_setrange(struct kv_command *c)
{
    const struct resp_arg *part = &c->argv[3];
    struct kv_entry *e;
    int64_t offset;

    if (kv_number(c, &c->argv[2], &offset) != 0)
        return KV_DONE;
    if (offset < 0) {
        kv_put_error(c->engine, "ERR offset is out of range");
        return KV_DONE;
    }
    e = kv_command_entry(c, 1);
    if (part->size == 0) {
        kv_put_integer(c->engine, e != NULL ? e->value_size : 0);
        return KV_DONE;
    }
    if (range_too_long(c, (uint64_t)offset, part->size))
        return KV_DONE;
    return range_write(c, e, (uint64_t)offset, part);
}

enum kv_outcome kv_cmd_getrange(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);
    const unsigned char *value;
    enum kv_outcome o;
    uint32_t size;
    uint64_t from;
    uint64_t count;

    if (resp_range(&c->engine->reply, c->argv, e != NULL ? e->value_size : 0, &from, &count) != 0)
        return KV_DONE;
    if (count == 0) {
        kv_put_bulk(c->engine, "", 0);
        return KV_DONE;
    }
    o = kv_value_to_modify(c, e, &value, &size);
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    kv_put_bulk(c->engine, value + from, count);
    return KV_DONE;
}

/* ---- LCS ---- */

struct lcs {
    struct kv_command *command;
    const unsigned char *a;
    const unsigned char *b;
    uint32_t a_size;
    uint32_t b_size;
    int length;  /* LEN */
    int indexes; /* IDX */
    int lengths; /* WITHMATCHLEN */
    int64_t match_min;
    uint32_t *table; /* [i * (b_size + 1) + j]: of the first i and the first j bytes */
};

static uint32_t lcs_at(const struct lcs *l, uint32_t i, uint32_t j)
{
    return l->table[(size_t)i * (l->b_size + 1) + j];
}

/* Options. 0, or the error is written. */
static int lcs_options(struct kv_command *c, struct lcs *l)
{
    for (uint32_t i = 3; i < c->argc; i++) {
        const struct resp_arg *a = &c->argv[i];

        if (resp_arg_is(a, "idx")) {
            l->indexes = 1;
        } else if (resp_arg_is(a, "len")) {
            l->length = 1;
        } else if (resp_arg_is(a, "withmatchlen")) {
            l->lengths = 1;
        } else if (resp_arg_is(a, "minmatchlen") && i + 1 < c->argc) {
            i++;
            if (kv_number(c, &c->argv[i], &l->match_min) != 0)
                return -1;
        } else {
            kv_put_error(c->engine, "ERR syntax error");
            return -1;
        }
    }
    if (l->indexes && l->length) {
        kv_put_error(c->engine,
                     "ERR If you want both the length and indexes, please just use IDX.");
        return -1;
    }
    return 0;
}

static void lcs_fill(struct lcs *l)
{
    size_t width = (size_t)l->b_size + 1;

    memset(l->table, 0, width * sizeof(*l->table));
    for (uint32_t i = 1; i <= l->a_size; i++) {
        uint32_t *row = l->table + i * width;
        const uint32_t *above = row - width;

        row[0] = 0;
        for (uint32_t j = 1; j <= l->b_size; j++)
            if (l->a[i - 1] == l->b[j - 1])
                row[j] = above[j - 1] + 1;
            else
                row[j] = above[j] > row[j - 1] ? above[j] : row[j - 1];
    }
}

static void lcs_put_range(struct kv_engine *e, uint32_t from, uint32_t size)
{
    kv_put_count(e, '*', 2);
    kv_put_integer(e, from);
    kv_put_integer(e, (int64_t)from + size - 1);
}

/*
 * Go back from both ends along the table; where two ways are as long, the second string is
 * shortened. A run of equal bytes [i, i + run), [j, j + run) is reported when it ends.
 * @return how many were; @p text (may be NULL) gets the subsequence
 */
static int64_t lcs_walk(struct lcs *l, unsigned char *text)
{
    struct kv_engine *e = l->command->engine;
    uint32_t left = lcs_at(l, l->a_size, l->b_size);
    uint32_t i = l->a_size;
    uint32_t j = l->b_size;
    uint32_t run = 0;
    int64_t matches = 0;

    while (i > 0 && j > 0) {
        int equal = l->a[i - 1] == l->b[j - 1];

        if (equal) {
            i--;
            j--;
            run++;
            if (text != NULL)
                text[--left] = l->a[i];
        }
        if (run > 0 && (!equal || i == 0 || j == 0)) {
            if (l->indexes && (int64_t)run >= l->match_min) {
                kv_put_count(e, '*', l->lengths ? 3 : 2);
                lcs_put_range(e, i, run);
                lcs_put_range(e, j, run);
                if (l->lengths)
                    kv_put_integer(e, run);
                matches++;
            }
            run = 0;
        }
        if (!equal) {
            if (lcs_at(l, i - 1, j) > lcs_at(l, i, j - 1))
                i--;
            else
                j--;
        }
    }
    return matches;
}

static void lcs_reply(struct lcs *l)
{
    struct kv_engine *e = l->command->engine;
    uint32_t length = lcs_at(l, l->a_size, l->b_size);
    char head[64];
    size_t at;

    if (l->indexes) {
        size_t n;

        kv_put_map(l->command, 2);
        kv_put_bulk_text(e, "matches");
        at = e->reply.size;
        n = resp_put_number(head, '*', lcs_walk(l, NULL));
        kv_put_before(e, at, head, n);
        kv_put_bulk_text(e, "len");
        kv_put_integer(e, length);
    } else if (l->length) {
        kv_put_integer(e, length);
    } else {
        unsigned char *text = malloc(length > 0 ? length : 1);

        if (text == NULL) {
            kv_put_store_error(e, SNIC_ENOMEM);
            return;
        }
        (void)lcs_walk(l, text);
        kv_put_bulk(e, text, length);
        free(text);
    }
}

enum kv_outcome kv_cmd_lcs(struct kv_command *c)
{
    struct lcs l = {.command = c, .a = (const unsigned char *)"", .b = (const unsigned char *)""};
    struct kv_entry *a = kv_command_entry(c, 1);
    struct kv_entry *b = kv_command_entry(c, 2);
    enum kv_outcome o = KV_DONE;
    uint64_t bytes;

    if (lcs_options(c, &l) != 0)
        return KV_DONE;
    if (a != NULL)
        o = kv_value_to_modify(c, a, &l.a, &l.a_size);
    if (o == KV_DONE && b != NULL)
        o = kv_value_to_modify(c, b, &l.b, &l.b_size);
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    bytes = ((uint64_t)l.a_size + 1) * ((uint64_t)l.b_size + 1) * sizeof(*l.table);
    if (bytes > c->engine->opts.value_max) {
        kv_put_error(c->engine, "ERR Insufficient memory, transient memory for LCS exceeds "
                                "proto-max-bulk-len");
        return KV_DONE;
    }
    l.table = malloc(bytes);
    if (l.table == NULL) {
        kv_put_error(c->engine,
                     "ERR Insufficient memory, failed allocating transient memory for LCS");
        return KV_DONE;
    }
    lcs_fill(&l);
    lcs_reply(&l);
    free(l.table);
    return KV_DONE;
}
