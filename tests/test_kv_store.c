/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv_server's store over files in memory, in a simulated world. A model keeps
 * every value that each key was given; power is cut at every single file operation, and
 * what the store finds again must lie between the newest acknowledged and the newest given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "support.h"

#define SEGMENT (64u << 10)
#define VALUE_MAX 8000u
#define KEYS 60u
#define FILES_MAX 256u
#define SECTOR 512u
#define HISTORY 4096u

/* ---- Files in memory ---- */

struct mem_file {
    uint64_t id;
    char name[64];
    unsigned char *data;    /* what reads see            */
    unsigned char *durable; /* what survives a power cut */
    size_t size;
};

struct mem_fs {
    struct mem_file files[FILES_MAX];
    uint64_t next_id;
    uint64_t limit; /* most files, 0: any number */
    int error;      /* of writes, while not 0    */
};

struct mem_op {
    struct mem_op *next;
    struct kv_file_req *req;
    struct snic_timer timer;
};

struct version {
    uint64_t end; /* acknowledged when the log is durable up to here */
    uint64_t expire_ms;
    uint32_t size;
    int present;
};

struct model_key {
    struct version versions[HISTORY];
    uint32_t given; /* newest number; 0: absent */
};

static struct {
    struct snic_world *world;
    struct snic_loop *loop;
    struct kv_store *store;
    struct snic_rng rng;
    struct mem_fs fs;
    struct mem_fs image; /* after the cut */
    struct mem_op *ops;
    struct model_key keys[KEYS];
    uint32_t acked[KEYS]; /* when power was cut */
    uint32_t given[KEYS];
    uint64_t operations;
    uint64_t cut_at; /* operation at which power is cut, 0: never */
    int cut;
    int room;
    int gone; /* the files below are detached */
    uint64_t durable;
    uint64_t cached;
    enum kv_sync sync;
} t;

static uint32_t any(uint32_t n)
{
    return (uint32_t)(snic_rng_next(&t.rng) % n);
}

static struct mem_file *mem_find(struct mem_fs *fs, uint64_t id)
{
    for (uint32_t i = 0; i < FILES_MAX; i++)
        if (fs->files[i].data != NULL && fs->files[i].id == id)
            return &fs->files[i];
    return NULL;
}

static void mem_drop(struct mem_file *f)
{
    free(f->data);
    free(f->durable);
    memset(f, 0, sizeof(*f));
}

static void mem_clear(struct mem_fs *fs)
{
    for (uint32_t i = 0; i < FILES_MAX; i++)
        mem_drop(&fs->files[i]);
}

static int64_t mem_create(struct mem_fs *fs, struct kv_file_req *r)
{
    struct mem_file *f = NULL;
    uint64_t count = 0;

    for (uint32_t i = 0; i < FILES_MAX; i++) {
        count += fs->files[i].data != NULL;
        if (fs->files[i].data != NULL && strcmp(fs->files[i].name, r->name) == 0)
            mem_drop(&fs->files[i]);
    }
    if (fs->limit != 0 && count >= fs->limit)
        return SNIC_ENOSPC;
    for (uint32_t i = 0; i < FILES_MAX && f == NULL; i++)
        if (fs->files[i].data == NULL)
            f = &fs->files[i];
    assert_non_null(f);
    f->id = ++fs->next_id;
    f->size = r->size;
    f->data = calloc(1, r->size);
    f->durable = calloc(1, r->size);
    memcpy(f->name, r->name, sizeof(f->name));
    r->file = f->id;
    return 0;
}

static int64_t mem_apply(struct mem_fs *fs, struct kv_file_req *r)
{
    struct mem_file *f = mem_find(fs, r->file);

    switch (r->op) {
    case KV_FILE_CREATE:
        return mem_create(fs, r);
    case KV_FILE_LIST:
        for (uint32_t i = 0; i < FILES_MAX; i++)
            if (fs->files[i].data != NULL)
                r->entry(r, fs->files[i].name, fs->files[i].id, fs->files[i].size);
        return 0;
    case KV_FILE_READ:
    case KV_FILE_WRITE:
    case KV_FILE_FSYNC:
    case KV_FILE_DELETE:
        break;
    }
    if (r->op == KV_FILE_DELETE && f == NULL)
        return SNIC_ENOENT; /* submitted again after a re-attachment */
    assert_non_null(f);     /* nothing is used after its deletion */
    if (r->op == KV_FILE_DELETE) {
        mem_drop(f);
        return 0;
    }
    if (r->op == KV_FILE_FSYNC) {
        memcpy(f->durable, f->data, f->size);
        return 0;
    }
    assert_true(r->offset + r->size <= f->size);
    if (r->op == KV_FILE_READ) {
        memcpy(r->data, f->data + r->offset, r->size);
        return (int64_t)r->size;
    }
    if (fs->error != 0)
        return fs->error;
    assert_int_equal(r->offset % 4096, 0);
    assert_int_equal(r->size % 4096, 0);
    memcpy(f->data + r->offset, r->data, r->size);
    if (r->sync)
        memcpy(f->durable + r->offset, r->data, r->size);
    return (int64_t)r->size;
}

/* Operations in flight when power goes have happened or not; of a write any sectors. */
static void mem_cut_op(struct mem_fs *fs, const struct kv_file_req *r)
{
    struct mem_file *f = mem_find(fs, r->file);

    if (r->op == KV_FILE_WRITE && f != NULL) {
        for (uint64_t at = 0; at < r->size; at += SECTOR)
            if (any(2))
                memcpy(f->durable + r->offset + at, (const char *)r->data + at, SECTOR);
    } else if (r->op == KV_FILE_DELETE && f != NULL && any(2)) {
        mem_drop(f);
    }
}

/* What is on the device after a power cut now. */
static void mem_cut(void)
{
    mem_clear(&t.image);
    t.image = t.fs;
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        struct mem_file *from = &t.fs.files[i];
        struct mem_file *f = &t.image.files[i];

        if (from->data == NULL)
            continue;
        f->data = malloc(f->size);
        f->durable = malloc(f->size);
        memcpy(f->durable, from->durable, f->size);
        for (size_t at = 0; at < f->size; at += SECTOR)
            if (any(2)) /* written, not synced */
                memcpy(f->durable + at, from->data + at, SECTOR);
    }
    for (struct mem_op *o = t.ops; o != NULL; o = o->next)
        mem_cut_op(&t.image, o->req);
    for (uint32_t i = 0; i < FILES_MAX; i++)
        if (t.image.files[i].data != NULL)
            memcpy(t.image.files[i].data, t.image.files[i].durable, t.image.files[i].size);
    for (uint32_t k = 0; k < KEYS; k++) {
        uint32_t n = t.keys[k].given;

        t.given[k] = n;
        while (n > 0 && t.keys[k].versions[n].end > t.durable)
            n--;
        t.acked[k] = n;
    }
    t.cut = 1;
}

static void mem_unlink(struct mem_op *o)
{
    struct mem_op **at = &t.ops;

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
}

static void mem_fire(struct snic_timer *timer, uint64_t now)
{
    struct mem_op *o = SNIC_CONTAINER(timer, struct mem_op, timer);
    struct kv_file_req *r = o->req;

    (void)now;
    mem_unlink(o);
    free(o);
    r->result = t.gone && any(2) ? SNIC_EPEERDEAD : mem_apply(&t.fs, r);
    if (t.gone)
        r->result = SNIC_EPEERDEAD; /* done or not done, who knows */
    r->done(r);
}

static void mem_submit(void *ctx, struct kv_file_req *r)
{
    struct mem_op *o = calloc(1, sizeof(*o));

    (void)ctx;
    o->req = r;
    o->next = t.ops;
    t.ops = o;
    snic_timer_init(&o->timer, mem_fire);
    snic_loop_arm(t.loop, &o->timer, snic_loop_now(t.loop) + 1000 + any(200000));
    t.operations++;
    if (t.operations == t.cut_at)
        mem_cut();
}

static const struct kv_files_ops mem_ops = {mem_submit};

/* ---- The store's events ---- */

static void on_durable(void *ctx, uint64_t address)
{
    (void)ctx;
    assert_true(address >= t.durable);
    t.durable = address;
}

static void on_room(void *ctx)
{
    (void)ctx;
    t.room = 1;
}

/* What the DPU is told to serve must be there: whole, and of that version. */
static int on_cache(void *ctx, const unsigned char hash[16], const struct kv_item *item,
                    uint64_t version)
{
    struct mem_file *f = mem_find(&t.fs, item->file);
    const unsigned char *key;
    const unsigned char *value;
    struct kv_record r;
    unsigned char again[16];
    static const uint64_t seed[2] = {3, 5};

    (void)ctx;
    if (any(8) == 0)
        return SNIC_EAGAIN;
    assert_non_null(f);
    assert_int_equal(kv_record_decode(&r, f->data + item->offset, item->bytes, &key, &value),
                     item->bytes);
    assert_int_equal(r.version, version);
    kv_key_hash(again, seed, r.database, key, r.key_size);
    assert_memory_equal(hash, again, 16);
    t.cached++;
    return 0;
}

static void on_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level == 0 && getenv("SNIC_VERBOSE") != NULL)
        fprintf(stderr, "%s\n", text);
}

static void open_store(uint64_t device_bytes)
{
    struct kv_store_opts o;
    char error[256];
    int r;

    memset(&o, 0, sizeof(o));
    o.loop = t.loop;
    o.files = &mem_ops;
    o.sync = t.sync;
    o.sync_interval_ms = 5;
    o.memory_bytes = 2 * SEGMENT;
    o.segment_bytes = SEGMENT;
    o.device_bytes = device_bytes;
    o.databases = 2;
    o.key_max = 64;
    o.value_max = VALUE_MAX;
    o.hash_seed[0] = 3;
    o.hash_seed[1] = 5;
    o.flush_bytes_max = 16u << 10;
    o.hook_bytes_max = any(2) ? 0 : 8192;
    o.cache = on_cache;
    o.durable = on_durable;
    o.room = on_room;
    o.log = on_log;
    t.durable = 0;
    t.gone = 0;
    r = kv_store_open(&t.store, &o, error, sizeof(error));
    if (r != 0)
        fail_msg("open: %s", error);
}

/* ---- The model ---- */

static uint32_t key_name(uint32_t k, char out[64])
{
    return (uint32_t)snprintf(out, 64, "key%u%.*s", k, (int)(k % 40),
                              "........................................");
}

static void fill_value(unsigned char *out, uint32_t k, uint32_t n, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        out[i] = (unsigned char)(k * 31 + n * 7 + i);
}

static void spin(uint64_t ns)
{
    assert_true(snic_loop_once(t.loop, ns) >= 0);
}

/* Note a version of key @p k that the store has taken. */
static void model_add(uint32_t k, uint64_t end, int present, uint32_t size, uint64_t expire_ms)
{
    struct model_key *m = &t.keys[k];

    assert_true(m->given + 1 < HISTORY);
    m->given++;
    m->versions[m->given] = (struct version){end, expire_ms, size, present};
}

/* What a write that was not taken says; runs the loop where waiting helps. 1: again. */
static int refused(int r)
{
    if (r == SNIC_EAGAIN) {
        for (t.room = 0; !t.room && !t.gone;)
            spin(1000000);
        return !t.gone;
    }
    assert_true(r == SNIC_ENOSPC || r == SNIC_EIO);
    return 0;
}

/* 1: taken. */
static int do_set(uint32_t k)
{
    static unsigned char value[VALUE_MAX];
    char key[64];
    uint32_t n = key_name(k, key);
    uint32_t size = any(4) ? any(200) : any(VALUE_MAX);
    uint64_t expire = any(10) ? 0 : kv_store_wall_ms(t.store) + 1 + any(50);
    uint64_t end;
    int r;

    fill_value(value, k, t.keys[k].given + 1, size);
    do
        r = kv_store_set(t.store, k % 2, key, n, value, size, expire, &end);
    while (r != 0 && refused(r));
    if (r == 0)
        model_add(k, end, 1, size, expire);
    return r == 0;
}

static int do_delete(uint32_t k)
{
    char key[64];
    uint32_t n = key_name(k, key);
    struct kv_entry *e;
    uint64_t end;
    int r = 0;

    do {
        e = kv_store_find(t.store, k % 2, key, n);
        if (e == NULL)
            return 0;
        r = kv_store_delete(t.store, e, &end);
    } while (r != 0 && refused(r));
    if (r == 0)
        model_add(k, end, 0, 0, 0);
    return r == 0;
}

static void do_flush(uint32_t database)
{
    uint64_t end;
    int r;

    do
        r = kv_store_flush_keys(t.store, database, &end);
    while (r != 0 && refused(r));
    for (uint32_t k = 0; r == 0 && k < KEYS; k++)
        if (database == KV_ALL_DATABASES || k % 2 == database)
            model_add(k, end, 0, 0, 0);
}

struct got {
    int done;
    int result;
    uint32_t size;
    unsigned char data[VALUE_MAX];
};

static void on_read(struct kv_read *r)
{
    struct got *g = r->ctx;

    g->done = 1;
    g->result = r->result;
    g->size = r->value_size;
    if (r->result == 0)
        memcpy(g->data, r->value, r->value_size);
}

/* The present value of a key, from memory or the device. 1: it exists. */
static int get(uint32_t k, struct got *g)
{
    char key[64];
    uint32_t n = key_name(k, key);
    struct kv_entry *e = kv_store_find(t.store, k % 2, key, n);
    const unsigned char *value;

    if (e == NULL)
        return 0;
    value = kv_store_value(t.store, e);
    if (value != NULL) {
        g->size = e->value_size;
        memcpy(g->data, value, g->size);
        return 1;
    }
    g->done = 0;
    assert_int_equal(kv_store_read(t.store, e, (int)any(2), on_read, g, 0), 0);
    while (!g->done)
        spin(1000000);
    assert_int_equal(g->result, 0);
    return 1;
}

/* Does what was found agree with version @p v of the key? */
static int agrees(uint32_t k, uint32_t v, int found, const struct got *g)
{
    static unsigned char value[VALUE_MAX];
    const struct version *m = &t.keys[k].versions[v];
    uint64_t now = kv_store_wall_ms(t.store);

    if (v == 0 || !m->present || (!found && m->expire_ms != 0 && m->expire_ms <= now))
        return !found; /* an expired one may have been found just before */
    fill_value(value, k, v, m->size);
    return found && g->size == m->size && memcmp(g->data, value, m->size) == 0;
}

static void check_key(uint32_t k)
{
    static struct got g;
    int found = get(k, &g);

    /* It may have expired while it was read. */
    if (!agrees(k, t.keys[k].given, found, &g) &&
        t.keys[k].versions[t.keys[k].given].expire_ms == 0)
        fail_msg("key %u is not what it was given last (%u)", k, t.keys[k].given);
}

static void check_all(void)
{
    for (uint32_t k = 0; k < KEYS; k++)
        check_key(k);
    assert_int_equal(kv_store_check(t.store), 0);
}

/* After a cut: a version from the acknowledged one to the newest given. */
static void check_survivors(void)
{
    static struct got g;

    for (uint32_t k = 0; k < KEYS; k++) {
        int found = get(k, &g);
        uint32_t v = t.given[k] + 1;

        while (v > t.acked[k] && !agrees(k, v - 1, found, &g))
            v--;
        if (v == t.acked[k] && t.keys[k].versions[t.acked[k]].expire_ms == 0)
            fail_msg("operation %llu, key %u: %s, none of versions %u to %u",
                     (unsigned long long)t.cut_at, k, found ? "found" : "absent", t.acked[k],
                     t.given[k]);
        /* The model goes on from what is. */
        memset(&t.keys[k].versions[1], 0, sizeof(struct version));
        if (v > t.acked[k] && v - 1 > 0)
            t.keys[k].versions[1] = t.keys[k].versions[v - 1];
    }
}

/* ---- Scaffold ---- */

static void begin(uint64_t seed, enum kv_sync sync)
{
    struct snic_world_opts o = {.opts_size = sizeof(o)};

    o.seed = seed;
    memset(&t, 0, sizeof(t));
    snic_rng_init(&t.rng, seed);
    t.sync = sync;
    assert_int_equal(snic_world_open(&t.world, &o), 0);
    assert_int_equal(snic_world_loop(t.world, 0, &t.loop), 0);
}

static void end(void)
{
    if (t.store != NULL)
        assert_int_equal(kv_store_close(t.store), 0);
    assert_null(t.ops);
    snic_loop_close(t.loop);
    snic_world_close(t.world);
    mem_clear(&t.fs);
    mem_clear(&t.image);
}

static void detach_attach(void)
{
    t.gone = 1;
    kv_store_detach(t.store);
    while (t.ops != NULL)
        spin(1000000);
    t.gone = 0;
    kv_store_attach(t.store, &mem_ops, NULL);
}

static void random_step(void)
{
    uint32_t k = any(KEYS);
    uint32_t what = any(100);

    if (what < 60)
        (void)do_set(k);
    else if (what < 75)
        (void)do_delete(k);
    else if (what < 85)
        check_key(k);
    else if (what < 98)
        spin(any(300000));
    else if (what == 98 && any(6) == 0)
        do_flush(any(2) ? KV_ALL_DATABASES : any(2));
    kv_store_resume_cache(t.store);
}

static void restart(void)
{
    assert_int_equal(kv_store_close(t.store), 0);
    assert_null(t.ops);
    open_store(0);
}

/** Random writes, deletions, reads, restarts and re-attachments agree with the model. */
static void test_kv_store_random_ops_agree_with_model(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        begin(support_seed() * 1000 + s, (enum kv_sync)(s % 3));
        open_store(0);
        for (uint32_t i = 0; i < 3000; i++) {
            random_step();
            if (any(500) == 0)
                restart();
            if (any(300) == 0)
                detach_attach();
        }
        check_all();
        restart();
        check_all();
        assert_true(t.cached > 0);
        end();
    }
}

/** Power cut at every file operation under sync always: nothing acknowledged is lost. */
static void test_kv_store_power_cut_at_every_operation_keeps_acknowledged(void **state)
{
    uint32_t cuts = 0;

    (void)state;
    for (uint64_t s = 0; s < support_scale(12, 200); s++) {
        uint64_t last = 1000000;

        for (uint64_t at = 1; at < last; at++) {
            begin(support_seed() * 1000 + s, KV_SYNC_ALWAYS);
            t.cut_at = at;
            open_store(10 * SEGMENT);
            for (uint32_t i = 0; i < 1200 && !t.cut; i++)
                random_step();
            if (!t.cut)
                last = 0;
            cuts += (uint32_t)t.cut;
            assert_int_equal(kv_store_close(t.store), 0);
            t.store = NULL;
            if (t.cut) {
                mem_clear(&t.fs);
                t.fs = t.image;
                memset(&t.image, 0, sizeof(t.image));
                t.cut_at = 0;
                open_store(10 * SEGMENT);
                t.cut_at = at;
                check_survivors();
                assert_int_equal(kv_store_check(t.store), 0);
            }
            end();
        }
    }
    print_message("%u power cuts\n", cuts);
    assert_true(cuts >= 1000);
}

/** A device of few segments: overwriting it many times works, compaction keeps up. */
static void test_kv_store_small_device_compaction_goes_on(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(3, 30); s++) {
        uint32_t taken = 0;

        begin(support_seed() * 1000 + s, KV_SYNC_ALWAYS);
        t.fs.limit = 10 + s % 3;
        open_store(0);
        for (uint32_t i = 0; i < 6000; i++) {
            /* Short of space only deletions are promised; live data is about 90 KiB. */
            taken += (uint32_t)do_set(any(KEYS));
            if (any(8) == 0)
                (void)do_delete(any(KEYS));
        }
        assert_int_equal(taken, 6000);
        check_all();
        restart();
        check_all();
        end();
    }
}

/** A full device: writes say so, reads and deletions work, space comes back. */
static void test_kv_store_full_device_delete_makes_room(void **state)
{
    static unsigned char value[VALUE_MAX];
    struct kv_engine_stats stats;
    char key[64];
    uint64_t at;
    uint32_t count = 0;
    int r;

    (void)state;
    begin(support_seed(), KV_SYNC_ALWAYS);
    t.fs.limit = 8;
    open_store(0);
    for (;;) { /* keys beside the model's */
        int n = snprintf(key, sizeof(key), "full%u", count);

        do
            r = kv_store_set(t.store, 0, key, (uint32_t)n, value, VALUE_MAX, 0, &at);
        while (r == SNIC_EAGAIN && refused(r));
        if (r != 0)
            break;
        count++;
    }
    assert_int_equal(r, SNIC_ENOSPC);
    assert_true(count > 3 * (SEGMENT / VALUE_MAX - 1));
    for (uint32_t i = 0; i < count; i++) {
        int n = snprintf(key, sizeof(key), "full%u", i);
        struct kv_entry *e = kv_store_find(t.store, 0, key, (uint32_t)n);

        assert_non_null(e);
        if (i % 2 == 0) {
            do
                r = kv_store_delete(t.store, e, &at);
            while (r == SNIC_EAGAIN && refused(r));
            assert_int_equal(r, 0);
        }
    }
    for (uint32_t i = 0; i < count / 4; i++) {
        int n = snprintf(key, sizeof(key), "again%u", i);

        do
            r = kv_store_set(t.store, 0, key, (uint32_t)n, value, VALUE_MAX, 0, &at);
        while (r == SNIC_EAGAIN && refused(r));
        assert_int_equal(r, 0);
    }
    check_all();
    kv_store_get_stats(t.store, &stats);
    assert_true(stats.compactions > 0);
    end();
}

/** Writes fail for a while: they are refused, then everything taken before gets durable. */
static void test_kv_store_write_errors_pass_and_nothing_is_lost(void **state)
{
    (void)state;
    begin(support_seed(), KV_SYNC_ALWAYS);
    open_store(0);
    for (uint32_t i = 0; i < 200; i++)
        (void)do_set(any(KEYS));
    t.fs.error = SNIC_EIO;
    for (uint32_t i = 0; i < 100; i++) {
        (void)do_set(any(KEYS));
        spin(1000000);
    }
    assert_int_equal(do_set(0), 0);
    t.fs.error = 0;
    for (uint32_t i = 0; i < 100; i++)
        spin(100000000);
    assert_int_equal(kv_store_durable(t.store), kv_store_tail(t.store));
    assert_int_equal(do_set(0), 1);
    restart();
    check_all();
    end();
}

/** An expired key is gone, from the index too without being asked for, and after a restart. */
static void test_kv_store_expiry_deletes(void **state)
{
    uint64_t at;

    (void)state;
    begin(support_seed(), KV_SYNC_NONE);
    open_store(0);
    assert_int_equal(kv_store_set(t.store, 0, "a", 1, "v", 1, kv_store_wall_ms(t.store) + 500, &at),
                     0);
    assert_int_equal(
        kv_store_set(t.store, 0, "b", 1, "v", 1, kv_store_wall_ms(t.store) + 1000000, &at), 0);
    assert_non_null(kv_store_find(t.store, 0, "a", 1));
    assert_int_equal(kv_store_expires(t.store, 0), 2);
    while (kv_store_count(t.store, 0) == 2)
        spin(1000000000);
    assert_null(kv_store_find(t.store, 0, "a", 1));
    restart();
    assert_null(kv_store_find(t.store, 0, "a", 1));
    assert_non_null(kv_store_find(t.store, 0, "b", 1));
    end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_store_random_ops_agree_with_model),
        cmocka_unit_test(test_kv_store_power_cut_at_every_operation_keeps_acknowledged),
        cmocka_unit_test(test_kv_store_small_device_compaction_goes_on),
        cmocka_unit_test(test_kv_store_full_device_delete_makes_room),
        cmocka_unit_test(test_kv_store_write_errors_pass_and_nothing_is_lost),
        cmocka_unit_test(test_kv_store_expiry_deletes),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
