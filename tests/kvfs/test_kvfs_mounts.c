/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Several engines on one store, their operations at the store interleaved by a seed.
 *
 * What is atomic is checked with the engine itself as the sequential model: a batch of requests is
 * run by several engines at once, and on copies of the store, as it was before, one after the other
 * in each order. Results and final state must be those of one of the orders.
 */
#include "test_kvfs_many.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_DIRS = 8, MANY_FILES = 24 };

/* What there is, for the next batch to meddle with: directories and files. */
struct batch_world {
    uint64_t dirs[MANY_DIRS];
    uint32_t dir_count;
    uint64_t files[MANY_FILES];
    uint32_t file_count;
};

static const char *const batch_names[] = {"x", "y", "z"};

static void batch_look(struct many *y, struct batch_world *w)
{
    memset(w, 0, sizeof(*w));
    w->dirs[w->dir_count++] = SNIC_FSOP_ROOT;
    for (uint32_t d = 0; d < w->dir_count; d++) {
        for (uint32_t n = 0; n < SNIC_COUNTOF(batch_names); n++) {
            struct snic_fsop req;
            kvt_req(&y->t[0], &req, SNIC_FSOP_LOOKUP, w->dirs[d], batch_names[n]);
            if (many_call(y, 0, &req) < 0)
                continue;
            if ((req.attr.mode & 0170000) == 0040000) {
                if (w->dir_count < MANY_DIRS)
                    w->dirs[w->dir_count++] = req.attr.ino;
            } else if (w->file_count < MANY_FILES) {
                w->files[w->file_count++] = req.attr.ino;
            }
        }
    }
}

static void batch_draw(struct many *y, const struct batch_world *w, struct batch_op *b)
{
    static const enum snic_fsop_kind kinds[] = {
        SNIC_FSOP_MKNOD,  SNIC_FSOP_MKNOD, SNIC_FSOP_MKDIR,  SNIC_FSOP_MKDIR,
        SNIC_FSOP_UNLINK, SNIC_FSOP_RMDIR, SNIC_FSOP_RENAME, SNIC_FSOP_RENAME,
        SNIC_FSOP_RENAME, SNIC_FSOP_LINK,  SNIC_FSOP_WRITE,  SNIC_FSOP_SETATTR};
    uint32_t hot = (uint32_t)snic_rng_below(&y->rng, 2);
    memset(b, 0, sizeof(*b));
    b->kind = kinds[snic_rng_below(&y->rng, SNIC_COUNTOF(kinds))];
    b->engine = (uint32_t)snic_rng_below(&y->rng, y->count);
    b->ino = w->dirs[snic_rng_below(&y->rng, hot ? snic_min_u64(2, w->dir_count) : w->dir_count)];
    b->ino2 = w->dirs[snic_rng_below(&y->rng, w->dir_count)];
    memcpy(b->name, batch_names[snic_rng_below(&y->rng, SNIC_COUNTOF(batch_names))], 2);
    memcpy(b->name2, batch_names[snic_rng_below(&y->rng, SNIC_COUNTOF(batch_names))], 2);
    if (b->kind == SNIC_FSOP_RENAME) {
        static const uint32_t flags[] = {0, 0, SNIC_FSOP_RENAME_NOREPLACE,
                                         SNIC_FSOP_RENAME_EXCHANGE};
        b->flags = flags[snic_rng_below(&y->rng, 4)];
    }
    if (b->kind != SNIC_FSOP_LINK && b->kind != SNIC_FSOP_WRITE && b->kind != SNIC_FSOP_SETATTR)
        return;
    if (w->file_count == 0) {
        b->kind = SNIC_FSOP_MKNOD;
        return;
    }
    b->ino = w->files[snic_rng_below(&y->rng, w->file_count)];
    b->name[0] = 0;
    b->size = (uint32_t)snic_rng_below(&y->rng, 50);
    if (b->kind == SNIC_FSOP_WRITE) {
        b->flags = snic_rng_below(&y->rng, 2) != 0 ? SNIC_FSOP_APPEND : 0;
        b->size++;
        snic_rng_fill(&y->rng, b->bytes, sizeof(b->bytes));
    }
}

static void batch_run(struct many *y, char *state, char *room)
{
    struct batch_world w;
    struct batch_op ops[MANY_BATCH];
    struct snic_fsop req[MANY_BATCH];
    struct snic_iov iov[MANY_BATCH];
    struct snic_kvmem *before;
    uint32_t order[MANY_BATCH], n = 2 + (uint32_t)snic_rng_below(&y->rng, MANY_BATCH - 1);
    batch_look(y, &w);
    many_pass(y, snic_rng_below(&y->rng, 2000000000));
    assert_int_equal(snic_kvmem_clone(y->m, &before), 0);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
        batch_draw(y, &w, &ops[i]);
        struct kvt *t = &y->t[ops[i].engine];
        batch_req(t, &ops[i], &req[i], &iov[i]);
        t->now = y->now;
        kvt_submit(t, &req[i]);
    }
    many_finish(y, n);
    for (uint32_t i = 0; i < n; i++)
        ops[i].result = req[i].result;
    many_pass(y, 3000000000); /* deferred times, orphans */
    batch_state(y, state);
    int same;
    do {
        same = batch_order(y, before, ops, n, order, state, room);
    } while (!same && batch_next_order(order, n));
    if (!same)
        batch_print(ops, n, state);
    assert_true(same);
    snic_kvmem_close(before);
}

static void batches(uint32_t engines, uint32_t caps, uint64_t seed, uint64_t count)
{
    char *state = malloc(SNAP_MAX), *room = malloc(SNAP_MAX);
    struct many y;
    assert_true(state != NULL && room != NULL);
    many_open(&y, engines, caps, seed);
    many_mount(&y);
    for (uint64_t i = 0; i < count; i++)
        batch_run(&y, state, room);
    for (uint32_t i = 0; i < engines; i++)
        assert_int_equal(y.t[i].damages, 0);
    many_close(&y);
    free(state);
    free(room);
}

static void test_kvfs_mounts_batches_some_order(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(4, 100); s++) {
        batches(2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed() * 1000 + s, 20);
        batches(3, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed() * 1000 + s, 20);
    }
}

static void test_kvfs_mounts_batches_by_group_some_order(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(4, 100); s++) {
        batches(2, MANY_CAPS, support_seed() * 1000 + s, 20);
        batches(3, MANY_CAPS, support_seed() * 1000 + s, 20);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_mounts_batches_some_order),
        cmocka_unit_test(test_kvfs_mounts_batches_by_group_some_order),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
