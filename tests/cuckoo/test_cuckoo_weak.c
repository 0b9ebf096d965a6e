/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The reader protocol under weak memory ordering, exhaustively.
 *
 * The module's own sources are compiled here with their shared words replaced by a model of C11
 * release/acquire memory. The writer runs first and alone: every store becomes a message with the
 * view (how new each word is) that it carries; a release store carries all the writer knows, a
 * relaxed one what the writer knew at its last release fence. Then the reader runs once for every
 * way to choose, at each load, any message that its view does not exclude: an old one, as after a
 * reordered load or while a store sits in a buffer, or the newest. An acquire load adopts the view
 * of its message, an acquire fence those of all messages read. As only the writer stores, this
 * covers every interleaving and every weak execution of one reader; a writer that stops for ever
 * anywhere is the choice of nothing newer.
 *
 * Then each ordering is taken out in turn, and the model must find the reader that is hurt.
 */
#include "test_cuckoo_rename.h"

#include "test_cuckoo_util.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t cuckoo_load(_Atomic uint64_t *word);
static uint64_t cuckoo_load_acquire(_Atomic uint64_t *word);
static void cuckoo_store(_Atomic uint64_t *word, uint64_t value);
static void cuckoo_store_release(_Atomic uint64_t *word, uint64_t value);
static void cuckoo_fence_acquire(void);
static void cuckoo_fence_release(void);
#define SNIC_CUCKOO__HOOKS
#include "cuckoo/cuckoo.c"
#include "cuckoo/cuckoo_read.c"
#include "cuckoo/cuckoo_write.c"

/* ---- The memory ---- */

enum { WORDS_MAX = 96, MESSAGES_MAX = 12, CHOICES_MAX = 400 };

/* How new a message of each word is known to be. */
struct view {
    uint8_t at[WORDS_MAX];
};

struct message {
    uint64_t value;
    struct view view;
};

struct word {
    _Atomic uint64_t *address;
    uint32_t count; /* messages; number 0 is the value before the writer ran */
    struct message messages[MESSAGES_MAX];
};

/* What to leave out: one ordering by kind and by its number in the writer's run or reader's call.
 */
enum drop { DROP_NOTHING, DROP_RELEASE, DROP_FENCE_RELEASE, DROP_ACQUIRE, DROP_FENCE_ACQUIRE };

static struct {
    enum { MODE_PLAIN, MODE_WRITER, MODE_READER } mode;
    struct word words[WORDS_MAX];
    uint32_t word_count;
    struct view current; /* of the running thread */
    struct view fenced;  /* the writer's at its last release fence */
    struct view pending; /* the reader's until its next acquire fence */
    enum drop drop;
    uint32_t drop_at;
    uint32_t seen; /* orderings of the dropped kind so far */
    /* The reader's choices: which message each load takes, as an odometer. */
    uint32_t choice[CHOICES_MAX];
    uint32_t options[CHOICES_MAX];
    uint32_t depth;
    uint32_t depth_max;
    uint64_t executions;
} model;

static void view_join(struct view *into, const struct view *from)
{
    for (uint32_t i = 0; i < model.word_count; i++) {
        if (into->at[i] < from->at[i])
            into->at[i] = from->at[i];
    }
}

static uint32_t model_word(_Atomic uint64_t *address)
{
    uint32_t i;

    for (i = 0; i < model.word_count; i++) {
        if (model.words[i].address == address)
            return i;
    }
    SNIC_ASSERT(i < WORDS_MAX);
    model.words[i].address = address;
    model.words[i].count = 1;
    memset(&model.words[i].messages[0], 0, sizeof(model.words[i].messages[0]));
    model.words[i].messages[0].value = atomic_load_explicit(address, memory_order_relaxed);
    model.word_count++;
    return i;
}

/* Is this the ordering that the run leaves out? */
static int model_dropped(enum drop kind)
{
    return model.drop == kind && model.seen++ == model.drop_at;
}

/* Which of `options` messages, the newest first so that runs end soon. */
static uint32_t model_choose(uint32_t options)
{
    uint32_t d = model.depth++;

    if (options == 1) {
        model.depth--;
        return 0;
    }
    SNIC_ASSERT(d < CHOICES_MAX); /* a reader that gets here waits for the writer */
    if (d >= model.depth_max) {
        model.choice[d] = 0;
        model.options[d] = options;
        model.depth_max = d + 1;
    }
    SNIC_ASSERT(model.options[d] == options);
    return model.choice[d];
}

static uint64_t model_load(_Atomic uint64_t *address, int acquire)
{
    const struct message *m;
    struct word *w;
    uint32_t i;

    if (model.mode != MODE_READER)
        return atomic_load_explicit(address, memory_order_relaxed);
    i = model_word(address);
    w = &model.words[i];
    m = &w->messages[w->count - 1 - model_choose(w->count - model.current.at[i])];
    model.current.at[i] = (uint8_t)(m - w->messages);
    view_join(&model.pending, &m->view);
    if (acquire)
        view_join(&model.current, &m->view);
    return m->value;
}

static void model_store(_Atomic uint64_t *address, uint64_t value, int release)
{
    if (model.mode == MODE_WRITER) {
        uint32_t i = model_word(address);
        struct word *w = &model.words[i];
        struct message *m = &w->messages[w->count];

        SNIC_ASSERT(w->count < MESSAGES_MAX);
        model.current.at[i] = (uint8_t)w->count++;
        m->value = value;
        m->view = release ? model.current : model.fenced;
        m->view.at[i] = model.current.at[i];
    }
    SNIC_ASSERT(model.mode != MODE_READER);
    atomic_store_explicit(address, value, memory_order_relaxed);
}

static uint64_t cuckoo_load(_Atomic uint64_t *word)
{
    return model_load(word, 0);
}

static uint64_t cuckoo_load_acquire(_Atomic uint64_t *word)
{
    return model_load(word, model.mode == MODE_READER && !model_dropped(DROP_ACQUIRE));
}

static void cuckoo_store(_Atomic uint64_t *word, uint64_t value)
{
    model_store(word, value, 0);
}

static void cuckoo_store_release(_Atomic uint64_t *word, uint64_t value)
{
    model_store(word, value, !(model.mode == MODE_WRITER && model_dropped(DROP_RELEASE)));
}

static void cuckoo_fence_acquire(void)
{
    if (model.mode == MODE_READER && !model_dropped(DROP_FENCE_ACQUIRE))
        view_join(&model.current, &model.pending);
}

static void cuckoo_fence_release(void)
{
    if (model.mode == MODE_WRITER && !model_dropped(DROP_FENCE_RELEASE))
        model.fenced = model.current;
}

/* ---- Scenarios: a table of four buckets, what the writer does, what the reader may see ---- */

struct scene {
    struct snic_cuckoo *t;
    uint64_t key;   /* the one looked up */
    uint64_t other; /* lives in the same bucket */
    uint64_t third; /* absent at first; can live there too */
    struct cuckoo_spot spot;
    const char *ops; /* write_sequence(): see there */
};

struct scenario {
    const char *name;
    void (*prepare)(struct scene *s);
    void (*write)(struct scene *s);
    int resident; /* a miss is an error */
    const char *ops;
};

static void scene_put(struct scene *s, uint64_t key, uint64_t version)
{
    uint64_t item[2] = {version, ~(version * 8 + key)};

    SNIC_ASSERT(snic_cuckoo_put(s->t, &key, item) >= 0);
}

static void scene_del(struct scene *s, uint64_t key)
{
    SNIC_ASSERT(snic_cuckoo_del(s->t, &key) == 0);
}

/* 1 with the key's place. */
static int scene_locate(struct scene *s, uint64_t key, struct cuckoo_place *p)
{
    struct cuckoo_words w = cuckoo_words_of(s->t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS] = {key};
    struct cuckoo_spot spot = cuckoo_spot_of(s->t, words, w);

    return cuckoo_locate(s->t, &spot, words, p, w);
}

static int scene_has(struct scene *s, uint64_t key)
{
    struct cuckoo_place p;

    return scene_locate(s, key, &p);
}

static struct cuckoo_place scene_find(struct scene *s, uint64_t key)
{
    struct cuckoo_place p = {0, 0};

    SNIC_ASSERT(scene_locate(s, key, &p));
    return p;
}

/* Displace the key to its other bucket. */
static void scene_move(struct scene *s)
{
    struct cuckoo_place from = scene_find(s, s->key);
    struct cuckoo_place to = {s->spot.bucket[from.bucket == s->spot.bucket[0]], 0};
    uint32_t empty = cuckoo_empty(cuckoo_load(cuckoo_header(s->t, to.bucket)));

    SNIC_ASSERT(empty != 0);
    to.slot = simd_lowest(empty);
    cuckoo_move(s->t, from, to);
}

static void prepare_absent(struct scene *s)
{
    scene_put(s, s->other, 1);
}
static void prepare_first(struct scene *s)
{
    scene_put(s, s->key, 1);
    if (scene_find(s, s->key).bucket != s->spot.bucket[0])
        scene_move(s);
    scene_put(s, s->other, 1);
}
static void prepare_second(struct scene *s)
{
    prepare_first(s);
    scene_move(s);
}

static void write_replace_twice(struct scene *s)
{
    scene_put(s, s->key, 2);
    scene_put(s, s->key, 3);
}
static void write_replace_both(struct scene *s)
{
    scene_put(s, s->key, 2);
    scene_put(s, s->other, 2);
}
static void write_replace_other(struct scene *s)
{
    scene_put(s, s->other, 2);
    scene_put(s, s->key, 2);
    scene_put(s, s->other, 3);
}
static void write_move(struct scene *s)
{
    scene_move(s);
}
static void write_move_back(struct scene *s)
{
    scene_move(s);
    scene_move(s);
}
static void write_move_replace(struct scene *s)
{
    scene_move(s);
    scene_put(s, s->key, 2);
}
static void write_replace_move(struct scene *s)
{
    scene_put(s, s->key, 2);
    scene_move(s);
}
static void write_insert(struct scene *s)
{
    scene_put(s, s->key, 2);
}
static void write_delete_reuse(struct scene *s)
{
    scene_del(s, s->key);
    scene_put(s, s->third, 7);
}
static void write_delete_insert(struct scene *s)
{
    scene_del(s, s->key);
    scene_put(s, s->key, 2);
}
static void write_move_reuse(struct scene *s)
{
    scene_move(s);
    scene_put(s, s->third, 7);
}

/* One writer operation per letter; one that the table's state does not allow is left out. */
static void write_sequence(struct scene *s)
{
    uint64_t version = 1;

    for (const char *op = s->ops; *op != '\0'; op++) {
        version++;
        switch (*op) {
        case 'r': /* replace or insert the key */
            scene_put(s, s->key, version);
            break;
        case 'm': /* displace it */
            if (scene_has(s, s->key))
                scene_move(s);
            break;
        case 'x': /* delete it */
            if (scene_has(s, s->key))
                scene_del(s, s->key);
            break;
        case 'o': /* replace the neighbour */
            scene_put(s, s->other, version);
            break;
        case 't': /* insert the key with the same tag, or replace its item */
            scene_put(s, s->third, version);
            break;
        default: /* 'y': delete that one */
            if (scene_has(s, s->third))
                scene_del(s, s->third);
            break;
        }
    }
}

static const struct scenario scenarios[] = {
    {"replaced twice, in its first bucket", prepare_first, write_replace_twice, 1, NULL},
    {"replaced twice, in its second bucket", prepare_second, write_replace_twice, 1, NULL},
    {"replaced, then a neighbour", prepare_first, write_replace_both, 1, NULL},
    {"replaced in its second bucket, then a neighbour", prepare_second, write_replace_both, 1,
     NULL},
    {"a neighbour replaced, then it, in its second", prepare_second, write_replace_other, 1, NULL},
    {"moved from the first bucket", prepare_first, write_move, 1, NULL},
    {"moved from the second bucket", prepare_second, write_move, 1, NULL},
    {"moved there and back, from the first", prepare_first, write_move_back, 1, NULL},
    {"moved there and back, from the second", prepare_second, write_move_back, 1, NULL},
    {"moved from the first, then replaced", prepare_first, write_move_replace, 1, NULL},
    {"moved from the second, then replaced", prepare_second, write_move_replace, 1, NULL},
    {"replaced, then moved from the first", prepare_first, write_replace_move, 1, NULL},
    {"replaced, then moved from the second", prepare_second, write_replace_move, 1, NULL},
    {"moved from the first, its slot reused", prepare_first, write_move_reuse, 1, NULL},
    {"moved from the second, its slot reused", prepare_second, write_move_reuse, 1, NULL},
    {"inserted", prepare_absent, write_insert, 0, NULL},
    {"deleted, its slot reused", prepare_first, write_delete_reuse, 0, NULL},
    {"deleted and inserted again", prepare_first, write_delete_insert, 0, NULL},
    {"deleted and inserted again, in the second", prepare_second, write_delete_insert, 0, NULL},
};

static struct cuckoo_spot scene_spot(struct scene *s, uint64_t key)
{
    struct cuckoo_words w = cuckoo_words_of(s->t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS] = {key};

    return cuckoo_spot_of(s->t, words, w);
}

/* Find three keys that share a first bucket, the third with the tag of the first. */
static void scene_keys(struct scene *s)
{
    struct cuckoo_spot a;
    struct cuckoo_spot b;

    do {
        s->spot = scene_spot(s, ++s->key);
    } while (s->spot.bucket[0] == s->spot.bucket[1]);
    s->other = s->key;
    do {
        a = scene_spot(s, ++s->other);
    } while (a.bucket[0] != s->spot.bucket[0] || a.tag == s->spot.tag);
    s->third = s->other;
    do {
        b = scene_spot(s, ++s->third);
    } while (b.bucket[0] != s->spot.bucket[0] || b.tag != s->spot.tag);
}

/* ---- Exploring ---- */

enum reader { READER_GET, READER_BATCH, READER_NEXT, READERS };

/* Look for the key with the iterator, from its first bucket on. */
static uint64_t reader_iterate(struct scene *s, uint64_t *item)
{
    uint64_t cursor = (uint64_t)s->spot.bucket[0] * SNIC_CUCKOO_BUCKET_SLOTS;
    uint64_t key = 0;

    while (snic_cuckoo_next(s->t, &cursor, &key, item) == 0) {
        if (key == s->key)
            return 1;
        if (key != s->other && key != s->third)
            return (uint64_t)(item[0] = 9); /* a key that was never put */
    }
    return 0;
}

/* The version of a whole item, or UINT64_MAX. */
static uint64_t reader_judge(const struct scene *s, const uint64_t *item)
{
    uint64_t version = item[0];

    if (version < 1 || version > 7)
        return UINT64_MAX;
    return item[1] == ~(version * 8 + s->key) ? version : UINT64_MAX;
}

/* One look-up by the reader; 0 or the version found, UINT64_MAX for an item that was never put. */
static uint64_t reader_look(struct scene *s, enum reader reader)
{
    uint64_t item[2] = {0, 0};
    uint64_t found;

    if (reader == READER_NEXT)
        found = reader_iterate(s, item);
    else if (reader == READER_GET)
        found = snic_cuckoo_get(s->t, &s->key, item) == 0;
    else
        found = snic_cuckoo_get_n(s->t, &s->key, 1, item);
    return found ? reader_judge(s, item) : 0;
}

/* Two looks after each other: NULL, or what is wrong. */
static const char *reader_run(struct scene *s, enum reader reader, int resident)
{
    uint64_t v1 = reader_look(s, reader);
    uint64_t v2 = reader_look(s, reader);

    if (v1 == UINT64_MAX || v2 == UINT64_MAX)
        return "torn item";
    if (resident && (v1 == 0 || v2 == 0))
        return "false miss";
    if (v1 != 0 && v2 != 0 && v2 < v1)
        return "went back in time";
    return NULL;
}

/* Step to the next choice of messages; 0 when all have been made. */
static int model_next(void)
{
    while (model.depth_max > 0) {
        uint32_t d = model.depth_max - 1;

        if (++model.choice[d] < model.options[d])
            return 1;
        model.depth_max--;
    }
    return 0;
}

/* All executions of one reader over one recorded run of the writer; NULL or the first failure. */
static const char *model_explore(struct scene *s, enum reader reader, int resident)
{
    const char *wrong = NULL;

    model.mode = MODE_READER;
    model.depth_max = 0;
    do {
        memset(&model.current, 0, sizeof(model.current));
        memset(&model.pending, 0, sizeof(model.pending));
        model.depth = 0;
        if (model.drop == DROP_ACQUIRE || model.drop == DROP_FENCE_ACQUIRE)
            model.seen = 0;
        wrong = reader_run(s, reader, resident);
        model.executions++;
    } while (wrong == NULL && model_next());
    model.mode = MODE_PLAIN;
    return wrong;
}

/* Set up a scenario, record the writer, explore; without the fast paths of sizes if @p any. */
static const char *scenario_run(const struct scenario *c, int any, enum reader reader,
                                enum drop drop, uint32_t drop_at)
{
    /* The orderings are numbered for seed 1. */
    struct snic_cuckoo_opts o = {sizeof(o), 8,
                                 16,        any ? SNIC_CUCKOO_EVICT : 0,
                                 16,        drop == DROP_NOTHING ? support_seed() : 1};
    size_t size = snic_cuckoo_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_CUCKOO_ALIGN);
    const char *wrong;
    struct scene s;

    memset(&s, 0, sizeof(s));
    model.mode = MODE_PLAIN;
    SNIC_ASSERT(snic_cuckoo_init(&s.t, mem, size, &o) == 0);
    scene_keys(&s);
    s.ops = c->ops;
    c->prepare(&s);
    model.word_count = 0;
    memset(&model.current, 0, sizeof(model.current));
    memset(&model.fenced, 0, sizeof(model.fenced));
    model.drop = drop;
    model.drop_at = drop_at;
    model.seen = 0;
    model.mode = MODE_WRITER;
    c->write(&s);
    wrong = model_explore(&s, reader, c->resident && reader != READER_NEXT);
    model.drop = DROP_NOTHING;
    SNIC_ASSERT(snic_cuckoo_fini(s.t) == mem);
    support_guard_free(mem);
    return wrong;
}

/* A reader that any weak machine could hurt, while everything is in place. */
static void test_cuckoo_weak_memory_no_false_miss_no_torn_item(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(scenarios); i++) {
        for (int n = 0; n < 2 * READERS; n++) {
            int reader = n % READERS;
            const char *wrong;

            model.executions = 0;
            wrong = scenario_run(&scenarios[i], n >= READERS, (enum reader)reader, DROP_NOTHING, 0);
            printf("  %s, reader %d%s: %llu executions\n", scenarios[i].name, reader,
                   n >= READERS ? " (any size)" : "", (unsigned long long)model.executions);
            if (wrong != NULL)
                fail_msg("%s: %s", scenarios[i].name, wrong);
            assert_true(model.executions > 1 || reader == READER_NEXT);
        }
    }
}

/*
 * The same for every sequence of writer operations up to a length, from each start: what the list
 * above may have forgotten. By day it is the third of them that the seed picks, and all three
 * readers look at every fifth of those only.
 */
static void test_cuckoo_weak_memory_all_short_sequences_safe(void **state)
{
    static const char letters[] = "rmxoty";
    static void (*const starts[])(struct scene *) = {prepare_absent, prepare_first, prepare_second};
    uint32_t length = UTIL_SHARE > 1 ? 2 : 3;
    uint32_t sequences = 1;

    (void)state;
    model.executions = 0;
    for (uint32_t i = 0; i < length; i++)
        sequences *= (uint32_t)strlen(letters);
    for (uint32_t n = 0; n < sequences * SNIC_COUNTOF(starts); n++) {
        char ops[8] = {0};
        uint32_t rest = n / (uint32_t)SNIC_COUNTOF(starts);
        struct scenario c = {ops, starts[n % SNIC_COUNTOF(starts)], write_sequence, 0, ops};

        if (!support_nightly() && (n / SNIC_COUNTOF(starts)) % 3 != support_seed() % 3)
            continue;
        for (uint32_t i = 0; i < length; i++, rest /= (uint32_t)strlen(letters))
            ops[i] = letters[rest % strlen(letters)];
        c.resident = c.prepare != prepare_absent && strchr(ops, 'x') == NULL;
        for (int reader = 0; reader < (n % 5 == 0 || support_nightly() ? READERS : 1); reader++) {
            const char *wrong =
                scenario_run(&c, (int)(n / 7 % 2), (enum reader)reader, DROP_NOTHING, 0);

            if (wrong != NULL)
                fail_msg("start %u, writer %s, reader %d: %s", (unsigned)(n % SNIC_COUNTOF(starts)),
                         ops, reader, wrong);
        }
    }
    printf("  %u sequences, %llu executions\n", sequences, (unsigned long long)model.executions);
}

/* 1 if the scenario turns red without that ordering. */
static int drop_hurts(const struct scenario *c, enum drop drop, uint32_t at)
{
    const char *wrong = scenario_run(c, 0, READER_GET, drop, at);

    if (wrong != NULL)
        printf("  %s, without %s %u: %s\n", c->name,
               drop == DROP_RELEASE         ? "release store"
               : drop == DROP_FENCE_RELEASE ? "release fence"
               : drop == DROP_ACQUIRE       ? "acquire load"
                                            : "acquire fence",
               at, wrong);
    return wrong != NULL;
}

/*
 * The model would be worth nothing if it stayed green without the fences. Every fence and every
 * ordered access is needed by some scenario, and named here: the replace's two fences and two
 * release stores, the fill's fence and release store, the displacement's clear, the reader's two
 * acquire loads and its fence.
 */
static void test_cuckoo_weak_memory_each_ordering_is_needed(void **state)
{
    const struct scenario *twice = &scenarios[0];
    const struct scenario *moved = &scenarios[5];
    const struct scenario *reused = &scenarios[13];
    const struct scenario *insert = &scenarios[15];

    (void)state;
    assert_true(drop_hurts(twice, DROP_FENCE_RELEASE, 2));  /* before scratch is written again */
    assert_true(drop_hurts(twice, DROP_FENCE_RELEASE, 1));  /* before the slot is rewritten */
    assert_true(drop_hurts(reused, DROP_FENCE_RELEASE, 1)); /* before an empty slot is filled */
    assert_true(drop_hurts(twice, DROP_RELEASE, 0));        /* scratch published by odd */
    assert_true(drop_hurts(twice, DROP_RELEASE, 1));        /* slot published by even */
    assert_true(drop_hurts(insert, DROP_RELEASE, 0));       /* slot published by its tag */
    assert_true(drop_hurts(moved, DROP_RELEASE, 1));        /* cleared after the copy */
    assert_true(drop_hurts(moved, DROP_ACQUIRE, 0));        /* header 1 before header 2 */
    assert_true(drop_hurts(twice, DROP_ACQUIRE, 0));        /* header 1 before its slot */
    assert_true(drop_hurts(insert, DROP_ACQUIRE, 1));       /* header 2 before its slot */
    assert_true(drop_hurts(twice, DROP_FENCE_ACQUIRE, 0));  /* the copy before the second look */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_weak_memory_no_false_miss_no_torn_item),
        cmocka_unit_test(test_cuckoo_weak_memory_all_short_sequences_safe),
        cmocka_unit_test(test_cuckoo_weak_memory_each_ordering_is_needed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
