/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long random runs of several lanes at the same time, each on records and an object of its own,
 * against a model.
 */
#include "conformance_kv_util.h"

/* ---- Lanes ---- */

enum { LANE_REGIONS = 3, LANE_BLOCKS = 12, LANE_KEYS = 12, LANE_VALUE = 200 };

struct lane {
    struct kvcall call;
    struct snic_rng *rng;
    uint64_t group;
    uint64_t object;
    uint64_t base[LANE_REGIONS];
    unsigned char bytes[LANE_REGIONS][LANE_BLOCKS * SNIC_KVOP_BLOCK];
    unsigned char taken[LANE_REGIONS][LANE_BLOCKS];
    unsigned char values[LANE_KEYS][LANE_VALUE];
    uint32_t sizes[LANE_KEYS]; /* 0: no record */
    /* the operation */
    struct snic_kvop_get gets[LANE_KEYS];
    struct snic_kvop_guard guards[4];
    struct snic_kvop_change changes[5];
    unsigned char guard_values[4][LANE_VALUE];
    unsigned char change_values[4][LANE_VALUE];
    unsigned char got[LANE_KEYS][LANE_VALUE];
    struct snic_iov iov[3];
    unsigned char buffer[LANE_BLOCKS * SNIC_KVOP_BLOCK];
    uint64_t scan[1024];
    uint32_t region;
    uint32_t right; /* the guards hold */
};

static uint32_t lane_roll(struct lane *l, uint32_t n)
{
    return (uint32_t)snic_rng_below(l->rng, n);
}

static struct snic_kvop_key lane_key(const struct lane *l, uint32_t i)
{
    char text[8];
    (void)snprintf(text, sizeof(text), "k%c", 'a' + (char)i);
    return kv_key(l->group, text);
}

/** A range of the object within one region, in op->offset and length. */
static void lane_range(struct lane *l, uint32_t max)
{
    struct snic_kvop *op = &l->call.op;
    uint32_t size = LANE_BLOCKS * SNIC_KVOP_BLOCK;
    l->region = lane_roll(l, LANE_REGIONS);
    uint32_t from = lane_roll(l, size);
    if (lane_roll(l, 2) == 0)
        from -= from % SNIC_KVOP_BLOCK;
    uint32_t length = 1 + lane_roll(l, snic_min_u64(size - from, max) > 0
                                           ? (uint32_t)snic_min_u64(size - from, max)
                                           : 1);
    if (lane_roll(l, 2) == 0 && length > SNIC_KVOP_BLOCK)
        length -= length % SNIC_KVOP_BLOCK;
    op->object = l->object;
    op->offset = l->base[l->region] + from;
    op->length = length;
}

/** Pieces of l->buffer for a READ or WRITE. */
static void lane_pieces(struct lane *l)
{
    struct snic_kvop *op = &l->call.op;
    uint64_t cut = op->length > 2 ? 1 + snic_rng_below(l->rng, op->length - 1) : op->length;
    l->iov[0] = (struct snic_iov){l->buffer, (size_t)cut};
    l->iov[1] = (struct snic_iov){l->buffer + cut, (size_t)(op->length - cut)};
    op->iov = l->iov;
    op->iov_count = cut == op->length ? 1 : 2;
}

static void lane_commit(struct lane *l)
{
    struct snic_kvop *op = &l->call.op;
    op->kind = SNIC_KVOP_COMMIT;
    op->guards = l->guards;
    op->changes = l->changes;
    op->guard_count = lane_roll(l, 4);
    op->change_count = 1 + lane_roll(l, 4);
    op->flags = lane_roll(l, 8) == 0 ? SNIC_KVOP_DURABLE : 0;
    l->right = 1;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        uint32_t k = lane_roll(l, LANE_KEYS);
        struct snic_kvop_guard *g = &l->guards[i];
        memcpy(l->guard_values[i], l->values[k], LANE_VALUE);
        *g = (struct snic_kvop_guard){
            .key = lane_key(l, k), .value = l->guard_values[i], .size = l->sizes[k]};
        if (lane_roll(l, 12) == 0 && g->size != 0) {
            l->guard_values[i][lane_roll(l, g->size)] ^= 1;
            l->right = 0;
        }
        if (g->size == 0)
            g->value = NULL;
    }
    uint32_t first = lane_roll(l, LANE_KEYS);
    for (uint32_t i = 0; i < op->change_count; i++) {
        struct snic_kvop_change *c = &l->changes[i];
        uint32_t size = 1 + lane_roll(l, LANE_VALUE);
        memset(c, 0, sizeof(*c));
        c->key = lane_key(l, (first + i) % LANE_KEYS);
        c->kind = lane_roll(l, 3) == 0 ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT;
        if (c->kind == SNIC_KVOP_DELETE)
            continue;
        snic_rng_fill(l->rng, l->change_values[i], size);
        c->value = l->change_values[i];
        c->size = size;
    }
    if (lane_roll(l, 3) != 0)
        return;
    lane_range(l, 60000);
    struct snic_kvop_change *c = &l->changes[op->change_count++];
    *c = (struct snic_kvop_change){
        .kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = l->object, .offset = op->offset};
    /* bytes beside the records are written even where the guards fail */
    if (lane_roll(l, 4) != 0 && (l->right || (l->region == 0 && l->object == l->group))) {
        snic_rng_fill(l->rng, l->buffer, op->length);
        c->kind = SNIC_KVOP_CHANGE_WRITE;
        c->value = l->buffer;
        c->size = (uint32_t)op->length;
    }
}

static void lane_start(struct lane *l, struct snic_kv *kv)
{
    struct snic_kvop *op = &l->call.op;
    uint32_t size = LANE_BLOCKS * SNIC_KVOP_BLOCK;
    memset(op, 0, sizeof(*op));
    switch (lane_roll(l, 12)) {
    case 0:
        op->kind = SNIC_KVOP_GET;
        op->gets = l->gets;
        op->get_count = LANE_KEYS;
        for (uint32_t i = 0; i < LANE_KEYS; i++)
            l->gets[i] = (struct snic_kvop_get){
                .key = lane_key(l, i), .value = l->got[i], .room = LANE_VALUE};
        break;
    case 1:
        op->kind = SNIC_KVOP_SCAN;
        op->key = kv_key(l->group, "k");
        op->scan_max = LANE_KEYS + 1;
        op->out = l->scan;
        op->out_room = sizeof(l->scan);
        break;
    case 2:
    case 3:
    case 4:
        lane_commit(l);
        break;
    case 5:
    case 6:
        lane_range(l, size);
        op->kind = SNIC_KVOP_OBJECT_READ;
        lane_pieces(l);
        memset(l->buffer, 0x55, sizeof(l->buffer));
        break;
    case 7:
    case 8:
        lane_range(l, size);
        op->kind = SNIC_KVOP_OBJECT_WRITE;
        snic_rng_fill(l->rng, l->buffer, op->length);
        lane_pieces(l);
        break;
    case 9:
        lane_range(l, size);
        op->kind = lane_roll(l, 2) == 0 ? SNIC_KVOP_OBJECT_ZERO : SNIC_KVOP_OBJECT_PUNCH;
        if (lane_roll(l, 4) == 0 && (kv->caps & SNIC_KV_CAP_ALLOC) != 0)
            op->kind = SNIC_KVOP_OBJECT_ALLOC;
        break;
    case 10:
        lane_range(l, size);
        op->kind = lane_roll(l, 3) == 0 ? SNIC_KVOP_OBJECT_TRUNCATE : SNIC_KVOP_OBJECT_STAT;
        op->length = 0;
        break;
    default:
        lane_range(l, size);
        op->kind = SNIC_KVOP_OBJECT_SEEK;
        op->length = 0;
        op->flags = lane_roll(l, 2) == 0 ? SNIC_KVOP_SEEK_HOLE : 0;
        break;
    }
    assert_int_equal(kvcall_submit(kv, &l->call), 1);
}

/* ---- The model ---- */

/** Take or give back the blocks of a range of a region; the change of space. */
static int64_t lane_take(struct lane *l, uint32_t region, uint64_t from, uint64_t to, int take)
{
    int64_t change = 0;
    uint64_t first = take ? from / BLOCK : (from + BLOCK - 1) / BLOCK;
    uint64_t end = take ? (to + BLOCK - 1) / BLOCK : to / BLOCK;
    for (uint64_t i = first; i < end; i++) {
        change += (int64_t)BLOCK * (take - l->taken[region][i]);
        l->taken[region][i] = (unsigned char)take;
    }
    return change;
}

/** From a byte of a region on, everything goes. */
static int64_t lane_truncate(struct lane *l, uint64_t offset)
{
    int64_t change = 0;
    for (uint32_t r = 0; r < LANE_REGIONS; r++) {
        uint64_t size = sizeof(l->bytes[r]);
        if (offset >= l->base[r] + size)
            continue;
        uint64_t from = offset > l->base[r] ? offset - l->base[r] : 0;
        memset(l->bytes[r] + from, 0, size - from);
        change += lane_take(l, r, from, size, 0);
    }
    return change;
}

static int64_t lane_seek(const struct lane *l, uint64_t offset, int hole)
{
    for (uint32_t r = 0; r < LANE_REGIONS; r++) {
        for (uint64_t i = 0; i < LANE_BLOCKS; i++) {
            uint64_t at = l->base[r] + i * BLOCK;
            if (at + BLOCK <= offset)
                continue;
            if (hole && offset < at && (i == 0 || !l->taken[r][i]))
                return (int64_t)offset;
            if (l->taken[r][i] != hole)
                return (int64_t)snic_max_u64(offset, at);
            if (hole)
                offset = at + BLOCK;
        }
    }
    return hole ? (int64_t)offset : SNIC_ENOENT;
}

static void lane_committed(struct lane *l)
{
    const struct snic_kvop *op = &l->call.op;
    int64_t allocated = 0;
    if (!l->right) {
        assert_int_equal(op->result, SNIC_ECANCELED);
        return;
    }
    assert_int_equal(op->result, 0);
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *c = &l->changes[i];
        uint64_t from = c->offset - l->base[l->region];
        uint32_t k = (uint32_t)(c->key.bytes[1] - 'a');
        if (c->kind == SNIC_KVOP_CHANGE_WRITE) {
            memcpy(l->bytes[l->region] + from, c->value, c->size);
            allocated += lane_take(l, l->region, from, from + c->size, 1);
        } else if (c->kind == SNIC_KVOP_CHANGE_TRUNCATE) {
            allocated += lane_truncate(l, c->offset);
        } else {
            l->sizes[k] = c->kind == SNIC_KVOP_PUT ? c->size : 0;
            if (l->sizes[k] != 0)
                memcpy(l->values[k], c->value, c->size);
        }
    }
    assert_int_equal(op->allocated, allocated);
}

static void lane_got(const struct lane *l)
{
    for (uint32_t i = 0; i < LANE_KEYS; i++) {
        assert_int_equal(l->gets[i].result, l->sizes[i] == 0 ? SNIC_ENOENT : 0);
        assert_int_equal(l->gets[i].size, l->sizes[i]);
        assert_memory_equal(l->got[i], l->values[i], l->sizes[i]);
    }
}

static void lane_scanned(const struct lane *l)
{
    const struct snic_kvop_record *r = snic_kvop_first(&l->call.op);
    assert_int_equal(l->call.op.end, 1);
    for (uint32_t i = 0; i < LANE_KEYS; i++) {
        if (l->sizes[i] == 0)
            continue;
        assert_non_null(r);
        assert_int_equal(snic_kvop_record_key(r)[1], 'a' + (int)i);
        assert_int_equal(r->value_size, l->sizes[i]);
        assert_memory_equal(snic_kvop_record_value(r), l->values[i], l->sizes[i]);
        r = snic_kvop_next(&l->call.op, r);
    }
    assert_null(r);
}

/** Compare the operation's result with the model, and change the model as it should. */
static void lane_object_done(struct lane *l)
{
    const struct snic_kvop *op = &l->call.op;
    uint64_t from = op->offset - l->base[l->region];
    unsigned char *at = l->bytes[l->region] + from;
    int64_t space = 0;
    switch (op->kind) {
    case SNIC_KVOP_OBJECT_READ:
        assert_int_equal(op->result, op->length);
        assert_memory_equal(l->buffer, at, op->length);
        return;
    case SNIC_KVOP_OBJECT_WRITE:
        assert_int_equal(op->result, op->length);
        memcpy(at, l->buffer, op->length);
        space = lane_take(l, l->region, from, from + op->length, 1);
        break;
    case SNIC_KVOP_OBJECT_ZERO:
    case SNIC_KVOP_OBJECT_ALLOC:
        if (op->kind == SNIC_KVOP_OBJECT_ZERO)
            memset(at, 0, op->length);
        space = lane_take(l, l->region, from, from + op->length, 1);
        assert_int_equal(op->result, 0);
        break;
    case SNIC_KVOP_OBJECT_PUNCH:
        memset(at, 0, op->length);
        space = lane_take(l, l->region, from, from + op->length, 0);
        assert_int_equal(op->result, 0);
        break;
    case SNIC_KVOP_OBJECT_TRUNCATE:
        space = lane_truncate(l, op->offset);
        assert_int_equal(op->result, 0);
        break;
    case SNIC_KVOP_OBJECT_STAT:
        for (uint32_t r = 0; r < LANE_REGIONS; r++) {
            for (uint32_t i = 0; i < LANE_BLOCKS; i++)
                space += l->taken[r][i] * (int64_t)BLOCK;
        }
        assert_int_equal(op->result, 0);
        break;
    default:
        assert_int_equal(op->result,
                         lane_seek(l, op->offset, (op->flags & SNIC_KVOP_SEEK_HOLE) != 0));
        return;
    }
    assert_int_equal(op->allocated, space);
}

static void lane_done(struct lane *l)
{
    const struct snic_kvop *op = &l->call.op;
    assert_int_equal(l->call.done, 1);
    if (op->kind == SNIC_KVOP_COMMIT)
        lane_committed(l);
    else if (op->kind == SNIC_KVOP_GET)
        lane_got(l);
    else if (op->kind == SNIC_KVOP_SCAN)
        lane_scanned(l);
    else
        lane_object_done(l);
}

static void lanes_run(void **state, uint32_t count, uint32_t steps, int two)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kv *handles[2] = {c.kv, c.kv};
    if (two && (b->again == NULL || b->single || !kv_has(&c, SNIC_KV_CAP_SHARED))) {
        kv_close(&c, b);
        return; /* such a store has a test with processes */
    }
    if (two)
        assert_int_equal(b->again(&c, &handles[1]), 0);
    struct lane *lanes = calloc(count, sizeof(*lanes));
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed());
    uint64_t stripe = c.kv->stripe_bytes;
    for (uint32_t i = 0; i < count; i++) {
        struct lane *l = &lanes[i];
        l->rng = &rng;
        l->group = 100 + i;
        l->object = i % 3 == 2 ? 1000 + i : l->group;
        l->base[0] = i % 2 == 0 ? 0 : 3 * BLOCK;
        l->base[1] = stripe * (1 + i) - 6 * BLOCK;
        l->base[2] = (1ULL << 61) - stripe * i - 5 * BLOCK;
        lane_start(l, c.kv);
    }
    for (uint32_t done = 0; done < steps;) {
        assert_true(snic_loop_once(c.loop, SNIC_NEVER) >= 0);
        for (uint32_t i = 0; i < count; i++) {
            if (lanes[i].call.done == 0)
                continue;
            lane_done(&lanes[i]);
            lane_start(&lanes[i], handles[snic_rng_below(&rng, 2)]);
            done++;
        }
        if (c.medium != NULL && done % 64 == 0)
            assert_int_equal(snic_kvmem_check(c.medium), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        kvcall_wait(c.kv, &lanes[i].call);
        lane_done(&lanes[i]);
    }
    free(lanes);
    if (two)
        snic_kv_close(handles[1]);
    kv_close(&c, b);
}

static void kv_random_operations_match_a_model(void **state)
{
    const struct conformance_kv_backend *b = *state;
    lanes_run(state, 1, (uint32_t)support_scale(b->slow ? 1500 : 6000, b->slow ? 10000 : 200000),
              0);
}

static void kv_random_operations_of_many_lanes(void **state)
{
    const struct conformance_kv_backend *b = *state;
    lanes_run(state, 16, (uint32_t)support_scale(b->slow ? 4000 : 12000, b->slow ? 30000 : 400000),
              0);
}

/* Each operation on one of two handles: what completed on one is there for the other. */
static void kv_random_operations_on_two_handles(void **state)
{
    const struct conformance_kv_backend *b = *state;
    lanes_run(state, 12, (uint32_t)support_scale(b->slow ? 4000 : 6000, b->slow ? 30000 : 200000),
              1);
}

const struct conformance_kv_check conformance_kv_randoms[] = {
    {"random_operations_match_a_model", kv_random_operations_match_a_model},
    {"random_operations_of_many_lanes", kv_random_operations_of_many_lanes},
    {"random_operations_on_two_handles", kv_random_operations_on_two_handles},
};
const size_t conformance_kv_randoms_count = SNIC_COUNTOF(conformance_kv_randoms);
