/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

enum { JUDGE_WORDS = 24, JUDGE_LINE = 1 << 16 };

/* Strings as numbers: keys, values, clients. 0 is "nil". */
struct judge_names {
    char **text;
    uint32_t count;
    uint32_t *slots;
    uint32_t slot_count;
};

void *judge_grow(void *p, size_t count, size_t size)
{
    /* Doubled when the count reaches a power of two. */
    if (count != 0 && (count & (count - 1)) != 0)
        return p;
    p = realloc(p, (count == 0 ? 1 : count * 2) * size);
    if (p == NULL)
        abort();
    return p;
}

static uint64_t judge_hash(const char *s)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    while (*s != 0)
        h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static void judge_names_rehash(struct judge_names *n)
{
    n->slot_count = n->slot_count == 0 ? 1024 : n->slot_count * 2;
    free(n->slots);
    n->slots = calloc(n->slot_count, sizeof(*n->slots));
    for (uint32_t i = 0; i < n->count; i++) {
        uint64_t at = judge_hash(n->text[i]);
        while (n->slots[at & (n->slot_count - 1)] != 0)
            at++;
        n->slots[at & (n->slot_count - 1)] = i + 1;
    }
}

static uint32_t judge_names_of(struct judge_names *n, const char *text)
{
    if ((n->count + 1) * 2 > n->slot_count)
        judge_names_rehash(n);
    uint64_t at = judge_hash(text);
    for (;; at++) {
        uint32_t i = n->slots[at & (n->slot_count - 1)];
        if (i == 0)
            break;
        if (strcmp(n->text[i - 1], text) == 0)
            return i - 1;
    }
    n->text = judge_grow(n->text, n->count, sizeof(*n->text));
    n->text[n->count++] = strdup(text);
    n->slots[at & (n->slot_count - 1)] = n->count;
    return n->count - 1;
}

const char *judge_key(const struct judge_history *h, uint32_t key)
{
    return h->names->text[key];
}

const char *judge_value(const struct judge_history *h, uint64_t value)
{
    return value < h->names->count ? h->names->text[value] : "?";
}

static int judge_word(const char *word, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(word, names[i]) == 0)
            return (int)i;
    }
    return -1;
}

int judge_time(const char *word, uint64_t *out)
{
    char *end;
    *out = strtoull(word, &end, 10);
    return end == word || *end != 0 ? -1 : 0;
}

/* ---- Operations ---- */

static const char *const judge_kinds[] = {"get",  "set",    "del",   "cas", "incr",
                                          "sync", "expire", "watch", "see"};
static const char *const judge_classes[] = {"default", "memory", "here", "all", "scope"};

static const char *judge_read_result(struct judge_history *h, struct judge_op *op, char *word)
{
    static const char *const names[] = {"ok", "no", "fail", "unknown"};
    char *colon = strchr(word, ':');
    if (colon != NULL)
        *colon++ = 0;
    int r = judge_word(word, names, 4);
    if (r < 0)
        return "the result: ok, no, fail or unknown";
    op->result = (uint8_t)r;
    h->results[r]++;
    if (op->result == JUDGE_UNKNOWN)
        op->end = JUDGE_OPEN;
    if (op->kind == JUDGE_INCR || op->result > JUDGE_NO) {
        if (op->result == JUDGE_OK && (colon == NULL || judge_time(colon, &op->value) != 0))
            return "the result of incr: ok:NUMBER";
        return NULL;
    }
    if (op->kind == JUDGE_GET && colon == NULL)
        return "the result of get: ok:VALUE";
    if (op->kind == JUDGE_GET)
        op->value = judge_names_of(h->names, colon);
    if (op->kind == JUDGE_CAS && op->result == JUDGE_NO && colon != NULL) {
        op->kind = JUDGE_GET; /* refused: a read of what it found, perhaps at another node */
        op->result = JUDGE_OK;
        op->copies = 0;
        op->node = JUDGE_NODES;
        if (op->class == JUDGE_HERE || op->class == JUDGE_SCOPE)
            op->class = JUDGE_MEMORY;
        op->value = judge_names_of(h->names, colon);
    }
    return NULL;
}

/* A number below @p max. */
static int judge_small(const char *word, uint32_t max, uint8_t *out)
{
    uint64_t n;
    if (judge_time(word, &n) != 0 || n >= max)
        return -1;
    *out = (uint8_t)n;
    return 0;
}

static const char *judge_read_options(struct judge_history *h, struct judge_op *op, char **word,
                                      uint32_t words)
{
    for (uint32_t i = 7; i < words; i++) {
        char *value = strchr(word[i], '=');
        if (value == NULL)
            return "an option: NAME=VALUE";
        *value++ = 0;
        int class = judge_word(value, judge_classes, 5);
        if (strcmp(word[i], "dur") == 0 && class < 0)
            return "dur: default, memory, here, all or scope";
        if (strcmp(word[i], "dur") == 0)
            op->class = (uint8_t) class;
        if (strcmp(word[i], "scope") == 0)
            op->scope = judge_names_of(h->names, value);
        if (strcmp(word[i], "expires") == 0 && judge_time(value, &op->expires) != 0)
            return "expires: a time";
        if (strcmp(word[i], "node") == 0 && judge_small(value, JUDGE_NODES, &op->node) != 0)
            return "node: a number below 16";
        if (strcmp(word[i], "copies") == 0 && judge_small(value, JUDGE_NODES + 1, &op->copies) != 0)
            return "copies: a number up to 16";
    }
    if (op->kind == JUDGE_GET && op->class > JUDGE_MEMORY && op->class != JUDGE_ALL)
        return "dur of get: default, memory or all";
    return NULL;
}

/* "watch" and "see". */
static const char *judge_read_seen(struct judge_history *h, char **word, uint32_t words,
                                   struct judge_op *op)
{
    struct judge_seen x = {
        .call = op->call, .end = op->end, .line = op->line, .kind = op->kind, .node = op->node};
    size_t size = strlen(word[4]);
    uint64_t shard = 0;
    for (uint32_t i = 7; i < words; i++) { /* the values follow the names, behind a NUL */
        const char *value = word[i] + strlen(word[i]) + 1;
        if (strcmp(word[i], "segment") == 0)
            x.segment = judge_names_of(h->names, value);
        if ((strcmp(word[i], "version") == 0 && judge_time(value, &x.version) != 0) ||
            (strcmp(word[i], "shard") == 0 && (judge_time(value, &shard) != 0 || shard > 255)))
            return "version, shard: numbers";
    }
    if (x.segment == 0 || x.end == JUDGE_OPEN)
        return "of watch and see: an end, and segment=NAME";
    x.prefix = x.kind == JUDGE_WATCH && size > 0 && word[4][size - 1] == '*';
    if (x.prefix)
        word[4][size - 1] = 0;
    x.key = judge_names_of(h->names, word[4]);
    x.shard = (uint8_t)shard;
    if (x.kind == JUDGE_SEE && strncmp(word[6], "ok", 3) != 0)
        return "the result of see: ok:VALUE";
    if (x.kind == JUDGE_SEE)
        x.value = judge_names_of(h->names, word[6] + 3);
    h->seen = judge_grow(h->seen, h->seen_count, sizeof(*h->seen));
    h->seen[h->seen_count++] = x;
    return NULL;
}

static const char *judge_read_op(struct judge_history *h, char **word, uint32_t words,
                                 uint32_t line)
{
    struct judge_op op = {.line = line,
                          .end = JUDGE_OPEN,
                          .expires = JUDGE_OPEN,
                          .kept = JUDGE_OPEN,
                          .node = JUDGE_NODES};
    if (words < 7)
        return "fewer than 7 words";
    int kind = judge_word(word[3], judge_kinds, JUDGE_EXPIRY);
    if (judge_time(word[1], &op.call) != 0 ||
        (strcmp(word[2], "-") != 0 && judge_time(word[2], &op.end) != 0) || op.end < op.call)
        return "start and end";
    if (kind < 0)
        return "the kind: get, set, del, cas, incr, sync, expire, watch or see";
    op.kind = (uint8_t)kind;
    op.client = judge_names_of(h->names, word[0]);
    op.key = judge_names_of(h->names, word[4]);
    if (op.kind == JUDGE_SET || op.kind == JUDGE_EXPIRE)
        op.value = judge_names_of(h->names, word[5]);
    if (op.kind == JUDGE_CAS) {
        char *comma = strchr(word[5], ',');
        if (comma == NULL)
            return "the value of cas: EXPECTED,NEW";
        *comma++ = 0;
        op.expect = judge_names_of(h->names, word[5]);
        op.value = judge_names_of(h->names, comma);
    }
    if (op.kind == JUDGE_SYNC)
        op.scope = judge_names_of(h->names, word[5]);
    const char *why = judge_read_options(h, &op, word, words);
    why = why != NULL ? why : judge_read_result(h, &op, word[6]);
    if (why == NULL && (kind == JUDGE_WATCH || kind == JUDGE_SEE))
        return judge_read_seen(h, word, words, &op);
    /* What did not happen, and reads without an answer, show nothing. */
    int refused = (op.kind == JUDGE_CAS || op.kind == JUDGE_EXPIRE) && op.result == JUDGE_NO;
    if (why == NULL && op.result != JUDGE_FAIL && !refused &&
        !(op.result == JUDGE_UNKNOWN && (op.kind == JUDGE_GET || op.kind == JUDGE_SYNC))) {
        h->ops = judge_grow(h->ops, h->count, sizeof(*h->ops));
        h->ops[h->count++] = op;
    }
    return why;
}

/* ---- From when on an operation must survive ---- */

static void judge_set_kept(struct judge_history *h, uint32_t keeps)
{
    for (size_t i = 0; i < h->count; i++) {
        struct judge_op *op = &h->ops[i];
        uint32_t flag = op->kind == JUDGE_GET ? JUDGE_KEEPS_READ : JUDGE_KEEPS_WRITTEN;
        if (op->class == JUDGE_ALL || (op->class == JUDGE_HERE && op->node < JUDGE_NODES) ||
            (op->class == JUDGE_DEFAULT && (keeps & flag) != 0))
            op->kept = op->end;
        for (size_t j = 0; op->class == JUDGE_SCOPE && op->scope != 0 && j < h->count; j++) {
            const struct judge_op *s = &h->ops[j];
            if (s->kind == JUDGE_SYNC && s->result == JUDGE_OK && s->scope == op->scope &&
                s->client == op->client && op->end < s->call && s->end < op->kept)
                op->kept = s->end;
        }
    }
}

/* ---- Times to live ---- */

/* Has a later operation changed the TTL of that value, and is that never lost? */
static int judge_superseded(const struct judge_history *h, size_t count, const struct judge_op *op)
{
    for (size_t i = 0; i < count; i++) {
        const struct judge_op *x = &h->ops[i];
        int later = x->kind == JUDGE_EXPIRE && x->result == JUDGE_OK && x->key == op->key &&
                    x->value == op->value && x->call > op->end;
        for (size_t l = 0; later && l < h->loss_count; l++)
            later = h->losses[l].down <= x->kept || judge_survives(h, x, l);
        if (later && x->kept != JUDGE_OPEN)
            return 1;
    }
    return 0;
}

static void judge_expiries(struct judge_history *h)
{
    size_t count = h->count;
    for (size_t i = 0; i < count; i++) {
        struct judge_op op = h->ops[i];
        if (op.expires == JUDGE_OPEN || judge_superseded(h, count, &op))
            continue;
        op = (struct judge_op){.call = op.expires,
                               .end = JUDGE_OPEN,
                               .value = op.value,
                               .expect = op.end,
                               .expires = JUDGE_OPEN,
                               .kept = JUDGE_OPEN,
                               .key = op.key,
                               .line = op.line,
                               .kind = JUDGE_EXPIRY,
                               .node = JUDGE_NODES};
        h->ops = judge_grow(h->ops, h->count, sizeof(*h->ops));
        h->ops[h->count++] = op;
    }
    for (size_t i = 0; i < count; i++) {
        struct judge_op *op = &h->ops[i];
        if (op->kind != JUDGE_EXPIRE)
            continue;
        op->kind = op->end == JUDGE_OPEN ? JUDGE_EXPIRY : JUDGE_GET;
        op->call = op->kind == JUDGE_GET ? op->call : JUDGE_OPEN; /* shows nothing */
        op->node = JUDGE_NODES;
    }
}

static int judge_op_order(const void *a, const void *b)
{
    const struct judge_op *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

int judge_read(struct judge_history *h, FILE *f, uint32_t keeps)
{
    struct judge_faults faults = {NULL, 0};
    char *text = malloc(JUDGE_LINE);
    uint32_t line = 0;
    int r = 0;
    memset(h, 0, sizeof(*h));
    h->names = calloc(1, sizeof(*h->names));
    (void)judge_names_of(h->names, "nil");
    while (r == 0 && fgets(text, JUDGE_LINE, f) != NULL) {
        char *word[JUDGE_WORDS], *rest = text;
        uint32_t words = 0;
        line++;
        while (words < JUDGE_WORDS && (word[words] = strtok_r(rest, " \t\n", &rest)) != NULL)
            words++;
        if (words == 0 || word[0][0] == '#')
            continue;
        const char *why = strcmp(word[0], "!") == 0 ? judge_fault_read(&faults, word, words)
                                                    : judge_read_op(h, word, words, line);
        if (why != NULL) {
            (void)fprintf(stderr, "line %u is malformed: %s\n", line, why);
            r = -1;
        }
    }
    free(text);
    judge_faults_apply(h, &faults);
    judge_set_kept(h, keeps);
    judge_expiries(h);
    h->keys = h->names->count;
    if (h->count > 0)
        qsort(h->ops, h->count, sizeof(*h->ops), judge_op_order);
    return r;
}

void judge_free(struct judge_history *h)
{
    for (uint32_t i = 0; i < h->names->count; i++)
        free(h->names->text[i]);
    free(h->names->text);
    free(h->names->slots);
    free(h->names);
    free(h->ops);
    free(h->seen);
    free(h->losses);
    free(h->present);
}
