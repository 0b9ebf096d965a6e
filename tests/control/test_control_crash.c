/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Every operation, and a death at each of its steps: the power of the catalog's process fails at
 * each operation on its device, with several choices of what survives; and the catalog's process,
 * or a server that takes part, is killed at each event of the world. All restart. What
 * had been reported holds; servers have what the catalog has, with no lower generation, and nothing
 * else; the holder reads what it wrote, and can write.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

enum { CREATE, ATTACH, PLACE, MOVE, QOS, REVOKE, DELETE, REISSUE, DETACH, OPERATIONS };
enum { POWER, CATALOG, SOURCE, TARGET, DEATHS };

static struct ctlfix fix;
static unsigned char *buffer;

static const char *const names[] = {"create", "attach", "place",   "move",  "qos",
                                    "revoke", "delete", "reissue", "detach"};

static char where[80]; /* of the case under way, for those that fail */

/* ---- An operation ---- */

static struct snic_io_req place_req;
static uint32_t source, target; /* servers */

static void message(struct snic_control_msg *m, uint32_t type, uint32_t disk)
{
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)type;
    memcpy(m->name, ctlfix_name(disk), strlen(ctlfix_name(disk)));
}

static void place_done(struct snic_io_req *r)
{
    r->backend[0] = 1;
}

static void place_begin(struct ctlfix *f)
{
    struct snic_io_req *r = &place_req;
    snic_io_req_init(r);
    r->done = place_done;
    r->op = SNIC_IO_WRITE; /* nothing else takes a place */
    r->offset = 3u << 21;
    r->length = 4096;
    r->buf.base = buffer;
    r->buf.size = 4096;
    assert_int_equal(snic_io_submit(f->client[0].handle[0].io, &r, 1), 1);
    place_req.backend[0] = 0;
}

static void begin(struct ctlfix *f, int what)
{
    struct snic_control_msg m;
    switch (what) {
    case CREATE:
        message(&m, SNIC_CONTROL_CREATE, 1);
        m.bytes = CTLFIX_BLOCKS * 4096;
        break;
    case ATTACH:
        ctlfix_attach_begin(f, 1, 0, SNIC_CONTROL_TAKE);
        return;
    case PLACE:
        place_begin(f);
        return;
    case MOVE:
        ctlfix_move_msg(&m, 0, 0, ctlfix_id(f, target));
        break;
    case QOS:
        message(&m, SNIC_CONTROL_SET_QOS, 0);
        m.qos.ios_per_second = 1000000;
        break;
    case REVOKE:
        message(&m, SNIC_CONTROL_REVOKE, 0);
        break;
    case REISSUE:
        message(&m, SNIC_CONTROL_REISSUE, 0);
        break;
    case DELETE:
        message(&m, SNIC_CONTROL_DELETE, 2);
        break;
    default:
        snic_control_client_detach(f->client[0].cc, 0);
        return;
    }
    ctlfix_request_begin(f, &m);
}

static int over(const struct ctlfix *f, int what)
{
    if (what == ATTACH)
        return !f->client[1].handle[0].attach;
    if (what == PLACE)
        return place_req.backend[0] != 0;
    return what == DETACH ? 0 : f->call_done;
}

/* What was reported holds. */
static void judge(struct ctlfix *f, int what)
{
    struct snic_control_msg m;
    int reported = over(f, what);
    if (reported && what != ATTACH && what != PLACE)
        reported = f->call_status == 0;
    if (!reported)
        return;
    if (what == CREATE) {
        assert_int_equal(ctlfix_create(f, 1), SNIC_EEXIST);
    } else if (what == ATTACH && f->client[1].handle[0].result == 0) {
        assert_int_equal(f->client[1].handle[0].lost, 0);
        assert_ptr_equal(f->holder[0], &f->client[1].handle[0]);
    } else if (what == QOS) {
        message(&m, SNIC_CONTROL_DISKS, 0);
        assert_int_equal(ctlfix_request(f, &m), 0);
        assert_true(f->items >= 1);
        assert_true(f->client[0].handle[0].qos > 0 || f->last.qos.ios_per_second == 1000000 ||
                    f->items > 1);
    } else if (what == REVOKE) {
        assert_null(f->holder[0]);
    } else if (what == DELETE) {
        message(&m, SNIC_CONTROL_DELETE, 2);
        assert_int_equal(ctlfix_request(f, &m), SNIC_ENOENT);
    }
}

/* ---- Invariants after the restart ---- */

static void judge_server(struct ctlfix *f, uint32_t server, uint32_t *seen)
{
    struct snic_segments *store = snic_volume_server_store(f->server[server].s);
    struct snic_segments_stat stat;
    struct snic_control_item it;
    uint64_t cursor = 0;
    while (snic_segments_next(store, &cursor, &stat) == 1) {
        if (stat.seg_id == SNIC_VOLUME_META || stat.seg_id == SNIC_CONTROL_META)
            continue;
        uint32_t vd = (uint32_t)(stat.seg_id >> 32);
        assert_int_equal(stat.vd_id, vd);
        if (snic_control_find(f->ctl, vd, stat.seg_id & UINT32_MAX, &it) != 0)
            fail_msg("server %u has segment %llx, which is nowhere", server,
                     (unsigned long long)stat.seg_id);
        if (it.server != ctlfix_id(f, server))
            fail_msg("server %u has segment %llx, which is at %u", server,
                     (unsigned long long)stat.seg_id, it.server);
        assert_true(stat.gen >= it.gen);
        (*seen)++;
    }
}

static void judge_world(struct ctlfix *f)
{
    struct snic_control_stats s;
    uint32_t seen = 0;
    ctlfix_ready(f);
    ctlfix_run(f, 300 * CTLFIX_MS); /* clients resume, and what was deleted goes */
    for (uint32_t i = 0; i < f->servers; i++)
        judge_server(f, i, &seen);
    snic_control_get_stats(f->ctl, &s);
    assert_int_equal(seen, s.segments);
    assert_int_equal(f->events[SNIC_CONTROL_SEGMENTS_MISSING], 0);
}

static void judge_holder(struct ctlfix *f, int what)
{
    if (f->holder[0] == NULL || what == DETACH) { /* a client takes it */
        for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
            ctlfix_client_kill(f, i);
        ctlfix_client_start(f, 0);
        ctlfix_run(f, 20 * CTLFIX_MS);
        assert_int_equal(ctlfix_attach(f, 0, 0, SNIC_CONTROL_TAKE), 0);
    }
    struct ctlfix_handle *g = f->holder[0];
    g->wanted = 0;
    assert_int_equal(ctlfix_settle(f, 20000 * CTLFIX_MS), 0);
    if (f->why[0] != 0)
        printf("%s: %s\n", where, f->why);
    ctlfix_audit(f, 0);
    ctlfix_load(f, g->c->index, 0, 20);
    assert_int_equal(ctlfix_settle(f, 20000 * CTLFIX_MS), 0);
    ctlfix_audit(f, 0);
}

/* ---- One case ---- */

static void prepare(struct ctlfix *f, int what)
{
    struct snic_control_item it;
    assert_int_equal(ctlfix_create(f, 0), 0);
    assert_int_equal(ctlfix_create(f, 2), 0);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        ctlfix_client_start(f, i);
    assert_int_equal(ctlfix_attach(f, 1, 2, 0), 0);
    assert_int_equal(ctlfix_io(f, 1, 2, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    ctlfix_client_kill(f, 1);
    ctlfix_client_start(f, 1);
    assert_int_equal(ctlfix_attach(f, 0, 0, 0), 0);
    ctlfix_load(f, 0, 0, what == PLACE ? 0 : 30);
    assert_int_equal(ctlfix_settle(f, 20000 * CTLFIX_MS), 0);
    ctlfix_run(f, 20 * CTLFIX_MS);
    if (what == REISSUE) { /* of a disk without a holder */
        ctlfix_client_kill(f, 0);
        ctlfix_client_start(f, 0);
        ctlfix_run(f, 20 * CTLFIX_MS);
    }
    source = 0;
    if (snic_control_find(f->ctl, 1, 0, &it) == 0)
        while (ctlfix_id(f, source) != it.server)
            source++;
    target = (source + 1) % f->servers;
}

/* @return 1: the operation had ended, with all its effects, before the process was killed */
static int one(int what, int death, uint64_t step, uint64_t seed)
{
    struct ctlfix *f = &fix;
    struct snic_fault power = {.kind = SNIC_FAULT_POWER, .seed = seed};
    uint64_t end;
    int survived;
    snprintf(where, sizeof(where), "%s, death %d, step %llu", names[what], death,
             (unsigned long long)step);
    ctlfix_start(f, 7, 2);
    prepare(f, what);
    power.after = step + 1;
    if (death == POWER)
        assert_int_equal(snic_disk_fault(f->disk, &power), 0);
    if (what == MOVE)
        ctlfix_load(f, 0, 0, 60);
    begin(f, what);
    end = snic_world_now(f->world) + (what == DETACH ? 20 : 400) * CTLFIX_MS;
    for (uint64_t i = 0; (death == POWER || i < step) && f->failed == 0; i++) {
        assert_int_equal(snic_world_step(f->world), 1);
        if (over(f, what) || snic_world_now(f->world) > end)
            break;
    }
    survived = over(f, what) || snic_world_now(f->world) > end;
    snic_disk_faults_clear(f->disk);
    if (death == POWER || death == CATALOG) {
        ctlfix_ctl_kill(f, seed);
        assert_int_equal(ctlfix_ctl_start(f), 0);
    } else {
        ctlfix_server_kill(f, death == SOURCE ? source : target, seed);
        ctlfix_run(f, 5 * CTLFIX_MS);
        ctlfix_server_start(f, death == SOURCE ? source : target);
    }
    if (f->why[0] != 0)
        printf("%s: %s\n", where, f->why);
    judge_world(f);
    judge(f, what);
    judge_holder(f, what);
    ctlfix_check(f);
    ctlfix_end(f);
    return survived;
}

/* @p every: the stride over the events of a move, which are thousands; a placement and a reissue
   have hundreds, others six to twenty. */
static void all(int death, uint64_t every, uint64_t seed)
{
    uint64_t of_hundreds = snic_min_u64(every, 61),
             of_few = snic_min_u64(every, support_stride(1, 5));
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    memset(buffer, 0, 4096); /* what is written to have a place: to the oracle it is nothing */
    for (int what = 0; what < OPERATIONS; what++) {
        uint64_t stride = what == MOVE                       ? every
                          : what == PLACE || what == REISSUE ? of_hundreds
                                                             : of_few;
        uint64_t n = 0, step = support_turn(stride);
        const char *one_step = getenv("SNIC_CRASH_STEP");
        if (one_step != NULL) {
            (void)one(what, death, strtoull(one_step, NULL, 10), seed);
            continue;
        }
        if ((death == SOURCE || death == TARGET) && what == DETACH)
            continue; /* nothing is requested of servers */
        while (!one(what, death, step, seed)) {
            step += stride;
            n++;
        }
        printf("%s: %llu deaths\n", names[what], (unsigned long long)n);
        assert_true(n > 0);
    }
    free(buffer);
}

static void test_control_crash_power_keeps_none(void **state)
{
    (void)state;
    all(POWER, 1, SNIC_FAULT_KEEP_NONE);
}

static void test_control_crash_power_keeps_all(void **state)
{
    (void)state;
    all(POWER, 1, SNIC_FAULT_KEEP_ALL);
}

static void test_control_crash_power_keeps_some(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_rounds(2, 20); i++)
        all(POWER, 1, 1 + support_seed() * 100 + i);
}

static void test_control_crash_catalog_killed(void **state)
{
    (void)state;
    all(CATALOG, support_stride(61, 401), 5);
}

static void test_control_crash_source_killed(void **state)
{
    (void)state;
    all(SOURCE, support_stride(101, 601), 6);
}

static void test_control_crash_target_killed(void **state)
{
    (void)state;
    all(TARGET, support_stride(101, 601), 7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_crash_power_keeps_none),
        cmocka_unit_test(test_control_crash_power_keeps_all),
        cmocka_unit_test(test_control_crash_power_keeps_some),
        cmocka_unit_test(test_control_crash_catalog_killed),
        cmocka_unit_test(test_control_crash_source_killed),
        cmocka_unit_test(test_control_crash_target_killed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
