/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Repair after certified death: contracts, and producer processes killed wherever SIGKILL finds
 * them. (Every step of every interleaving of a death is walked by test_ring_explore.c.)
 */
#include "test_ring_util.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct snic_ring_opts owned_opts(uint32_t kind, uint32_t discipline, uint32_t owners)
{
    struct snic_ring_opts o = request_opts(discipline, 1024);

    o.kind = kind;
    o.owners_max = owners;
    return o;
}

/* Slots are assigned, refused and returned. */
static void test_ring_owner_table_full_or_taken_refused(void **state)
{
    struct fixture f;
    struct snic_ring_producer p[3];

    (void)state;
    fixture_open(&f, owned_opts(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 2));
    assert_int_equal(snic_ring_producer_attach(&p[0], f.mem, f.size, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_producer_attach(&p[0], f.mem, f.size, 5), 0);
    assert_int_equal(snic_ring_producer_attach(&p[1], f.mem, f.size, 5), SNIC_EEXIST);
    assert_int_equal(snic_ring_producer_attach(&p[1], f.mem, f.size, 6), 0);
    assert_int_equal(snic_ring_producer_attach(&p[2], f.mem, f.size, 7), SNIC_ENOSPC);
    snic_ring_producer_detach(&p[0]);
    assert_int_equal(snic_ring_producer_attach(&p[2], f.mem, f.size, 7), 0);
    assert_int_equal(snic_ring_abandon(f.mem, f.size, 5), SNIC_ENOENT);
    assert_int_equal(snic_ring_abandon(f.mem, f.size, 0), SNIC_ENOENT);
    assert_int_equal(snic_ring_abandon(f.mem, f.size, 7), 0);
    assert_int_equal(snic_ring_abandon(f.mem, f.size, 7), SNIC_ENOENT);
    assert_int_equal(snic_ring_producer_attach(&p[2], f.mem, f.size, 8), 0);
    fixture_close(&f);
}

/* A reservation of the dead is skipped, also over the end of the data area; those of the living
 * around it arrive; QUIESCENT waits until the living are done. */
static void test_ring_dead_reservation_is_skipped_anywhere(void **state)
{
    uint32_t variant, at;

    (void)state;
    for (variant = 0; variant < 2; variant++)
        for (at = 0; at < 64; at++) {
            struct fixture f;
            struct snic_ring_producer dead, dead2, live;
            struct snic_ring_consumer c;
            struct snic_ring_rec rec[8];
            uint32_t i;

            fixture_open(&f, owned_opts(SNIC_RING_REQUEST, variant, 3));
            assert_int_equal(snic_ring_producer_attach(&dead, f.mem, f.size, 1), 0);
            assert_int_equal(snic_ring_producer_attach(&live, f.mem, f.size, 2), 0);
            assert_int_equal(snic_ring_producer_attach(&dead2, f.mem, f.size, 3), 0);
            assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
            for (i = 0; i < at; i++) {
                assert_int_equal(snic_ring_push(&live, 1, "", 0), 0);
                assert_int_equal(snic_ring_peek(&c, rec, 1), 1);
                assert_int_equal(snic_ring_release(&c, rec[0].next), 0);
            }
            assert_int_equal(snic_ring_push(&live, 7, "a", 1), 0);
            assert_int_equal(snic_ring_reserve(&dead, 1, 100, 0, &rec[0]), 0);
            assert_int_equal(snic_ring_reserve(&live, 8, 1, 0, &rec[1]), 0);
            assert_int_equal(snic_ring_reserve(&dead2, 1, 10, 20, &rec[0]), 0);
            *(char *)rec[1].data = 'b';
            if (variant == SNIC_RING_QUIESCENT) {
                assert_int_equal(snic_ring_abandon(f.mem, f.size, 1), SNIC_EAGAIN);
                assert_int_equal(snic_ring_abandon(f.mem, f.size, 3), SNIC_EAGAIN);
                assert_int_equal(snic_ring_peek(&c, rec, 8), 0);
            }
            snic_ring_commit(&live);
            assert_int_equal(snic_ring_abandon(f.mem, f.size, 3), 0);
            assert_int_equal(snic_ring_abandon(f.mem, f.size, 1), 0);
            assert_int_equal(snic_ring_check(f.mem, f.size), 0);
            assert_int_equal(snic_ring_peek(&c, rec, 8), 2);
            assert_true(rec[0].type == 7 && rec[1].type == 8 && *(char *)rec[1].data == 'b');
            assert_int_equal(snic_ring_release(&c, rec[1].next), 0);
            assert_int_equal(snic_ring_backlog(&c), 0);
            fixture_close(&f);
        }
}

/* What a dead collector had claimed is released, not delivered again. */
static void test_ring_dead_collector_claim_is_released(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector dead, live;
        struct snic_ring_rec rec, held;
        struct snic_ring_op ops[4];
        int i;

        fixture_open(&f, owned_opts(SNIC_RING_RESPONSE, d, 2));
        assert_int_equal(
            snic_ring_responder_attach(&r, f.mem, f.size, f.aux, (size_t)f.info.aux_bytes), 0);
        assert_int_equal(snic_ring_collector_attach(&dead, f.mem, f.size, 1), 0);
        assert_int_equal(snic_ring_collector_attach(&live, f.mem, f.size, 2), 0);
        for (i = 0; i < 3; i++) {
            assert_int_equal(snic_ring_resp_reserve(&r, 1, 8, 0, &rec), 0);
            assert_int_equal(snic_ring_resp_finish(&r, rec.position, 0), 0);
        }
        assert_int_equal(snic_ring_resp_flush(&r, ops, 4), 0);
        assert_int_equal(snic_ring_claim(&dead, &held), 1);
        assert_int_equal(snic_ring_claim(&dead, &rec), SNIC_EBUSY);
        assert_int_equal(snic_ring_claim(&live, &rec), 1);
        assert_int_equal(snic_ring_claim_release(&live, &rec), 0);
        assert_int_equal(snic_get_le64((char *)f.mem + SNIC_RING_OFF_HEAD), 0);
        assert_int_equal(snic_ring_abandon(f.mem, f.size, 1), 0);
        assert_int_equal(snic_get_le64((char *)f.mem + SNIC_RING_OFF_HEAD), rec.next);
        assert_int_equal(snic_ring_claim(&live, &rec), 1);
        assert_int_equal(rec.position, held.next + 16);
        assert_int_equal(snic_ring_claim_release(&live, &rec), 0);
        assert_int_equal(snic_ring_claim(&live, &rec), 0);
        fixture_close(&f);
    }
}

/* ---- Processes ---- */

struct payload {
    uint64_t from, sequence, check;
};

static void child(void *mem, size_t size, uint64_t token, uint64_t seed)
{
    struct snic_ring_producer p;
    struct snic_rng rng;
    struct payload v = {token, 0, 0};

    snic_rng_init(&rng, seed);
    if (snic_ring_producer_attach(&p, mem, size, token) != 0)
        _exit(1);
    for (;;) {
        struct snic_ring_rec rec;
        uint32_t extra = (uint32_t)snic_rng_below(&rng, 60);

        if (snic_ring_reserve(&p, 1, (uint32_t)sizeof(v) + extra, 0, &rec) != 0)
            continue;
        v.check = v.from * 31 + v.sequence * 17;
        memcpy(rec.data, &v, sizeof(v));
        snic_ring_commit(&p);
        v.sequence++;
    }
}

#define TOKENS 8192

struct herd {
    struct snic_ring_consumer c;
    void *mem;
    size_t size;
    pid_t pid[3];
    uint64_t token[3], last_token;
    uint64_t next[TOKENS]; /* sequence number expected from each token */
};

static void herd_start(struct herd *h, int who)
{
    h->token[who] = ++h->last_token;
    h->pid[who] = fork();
    if (h->pid[who] == 0)
        child(h->mem, h->size, h->token[who], h->token[who]);
}

/* The ring stalls when nothing comes for that long. */
enum { NEVER_S = 110 };

/* Take at least @p want records. */
static int herd_take(struct herd *h, uint64_t want)
{
    struct snic_ring_rec rec[16];
    time_t end = time(NULL) + NEVER_S;
    uint64_t got = 0;
    int n, i;

    while (got < want) {
        n = snic_ring_peek(&h->c, rec, 16);
        if (n < 0 || time(NULL) > end)
            return -1;
        for (i = 0; i < n; i++) {
            struct payload v;

            memcpy(&v, rec[i].data, sizeof(v));
            if (v.from > h->last_token || v.check != v.from * 31 + v.sequence * 17 ||
                v.sequence != h->next[v.from]++)
                return -2;
        }
        if (n > 0 && snic_ring_release(&h->c, rec[n - 1].next) != 0)
            return -3;
        got += (uint64_t)n;
        if (n > 0)
            end = time(NULL) + NEVER_S;
        else
            usleep(50);
    }
    return 0;
}

/* Certified death, then repair. SNIC_ENOENT: killed before it attached. */
static int herd_bury(struct herd *h, int who)
{
    int e = SNIC_EAGAIN;
    time_t end;

    if (kill(h->pid[who], SIGKILL) != 0 || waitpid(h->pid[who], NULL, 0) != h->pid[who])
        return -1;
    end = time(NULL) + NEVER_S;
    while (e == SNIC_EAGAIN && time(NULL) <= end) {
        e = snic_ring_abandon(h->mem, h->size, h->token[who]);
        if (e == SNIC_EAGAIN)
            usleep(50);
    }
    return e == SNIC_ENOENT ? 0 : e;
}

/* Producers are killed in the middle of whatever they do, again and again; after each certified
 * death and repair the ring works on, and no committed record is lost, doubled or torn. */
static void test_ring_producer_processes_killed_ring_goes_on(void **state)
{
    uint64_t kills = support_scale(100, TOKENS - 8);
    struct herd *h = calloc(1, sizeof(*h));
    struct snic_rng rng;
    uint32_t d;

    (void)state;
    assert_non_null(h);
    snic_rng_init(&rng, support_seed());
    for (d = 0; d < 2; d++) {
        struct snic_ring_opts o = owned_opts(SNIC_RING_REQUEST, d, 4);
        uint64_t killed;
        int i, bad = 0;

        memset(h, 0, sizeof(*h));
        o.capacity_bytes = 4096;
        h->size = snic_ring_memsize(&o);
        h->mem = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(h->mem != MAP_FAILED);
        assert_int_equal(snic_ring_init(h->mem, h->size, &o), 0);
        assert_int_equal(snic_ring_consumer_attach(&h->c, h->mem, h->size, NULL, 0), 0);
        for (i = 0; i < 3; i++)
            herd_start(h, i);
        for (killed = 0; killed < kills && !bad; killed++) {
            int who = (int)snic_rng_below(&rng, 3);

            bad = herd_take(h, snic_rng_below(&rng, 300));
            if (!bad)
                bad = herd_bury(h, who);
            if (!bad)
                herd_start(h, who);
        }
        for (i = 0; i < 3; i++)
            bad = herd_bury(h, i) != 0 ? -9 : bad;
        bad = bad ? bad : snic_ring_check(h->mem, h->size);
        munmap(h->mem, h->size);
        assert_int_equal(bad, 0);
    }
    free(h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_owner_table_full_or_taken_refused),
        cmocka_unit_test(test_ring_dead_reservation_is_skipped_anywhere),
        cmocka_unit_test(test_ring_dead_collector_claim_is_released),
        cmocka_unit_test(test_ring_producer_processes_killed_ring_goes_on),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
