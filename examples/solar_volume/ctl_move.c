/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ctl move: one segment after the other. A transient error is retried: a server that is away,
 * another move to the same one. One that is permanent, or lasts too long, ends all of it where
 * every segment would meet it (a server that is full), else it is reported, and the others are
 * moved.
 */
#include "ctl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct moving {
    uint64_t segment;
    uint32_t server;
};

enum move_fate { MOVE_DONE, MOVE_BUSY, MOVE_ABSENT, MOVE_STAYS, MOVE_HOPELESS };
enum { NODE_KNOWN = 1, NODE_UP = 2, NODE_ABANDONED = 4 };

static struct {
    int all;
    struct moving *list;
    size_t count, room, at;
    uint64_t moved;
    uint64_t begun_ns; /* that the present one is tried; 0: it was not yet */
    uint64_t since_ns; /* with this fate */
    int status;        /* of the last try, and what it stands for */
    enum move_fate fate;
    struct snic_timer timer;
    uint8_t node[SNIC_CONTROL_SERVERS_MAX + 1];
} mv;

static void moving_add(uint64_t segment, uint32_t server)
{
    if (mv.count == mv.room) {
        mv.room = mv.room * 2 + 64;
        mv.list = realloc(mv.list, mv.room * sizeof(*mv.list));
        if (mv.list == NULL)
            ex_die("move: out of memory for a list of %zu segments", mv.room);
    }
    mv.list[mv.count].segment = segment;
    mv.list[mv.count++].server = server;
}

/* Servers and segments of the lists that move requests for itself. */
void ctl_move_item(const struct snic_control_msg *m)
{
    if (m->type == SNIC_CONTROL_NODE && m->server <= SNIC_CONTROL_SERVERS_MAX) {
        uint8_t *n = &mv.node[m->server];
        *n = (uint8_t)((*n & NODE_ABANDONED) | NODE_KNOWN | (m->flags != 0 ? NODE_UP : 0));
    }
    for (uint32_t i = 0; m->type == SNIC_CONTROL_SEGMENT && i < m->count; i++)
        if (m->item[i].server != vb.server)
            moving_add(m->item[i].segment, m->item[i].server);
}

#define MOVE_AGAIN_NS UINT64_C(50000000)
#define MOVE_ABSENT_NS UINT64_C(5000000000) /* a server that does not answer */
#define MOVE_BUSY_NS UINT64_C(30000000000)
#define MOVE_ONE_NS UINT64_C(60000000000) /* the one in turns with the other */

static enum move_fate move_fate(int status)
{
    switch (status) {
    case 0:
        return MOVE_DONE;
    case SNIC_EBUSY:
    case SNIC_EAGAIN:
        return MOVE_BUSY;
    case SNIC_EHOSTUNREACH:
    case SNIC_EPEERDEAD:
    case SNIC_ETIMEDOUT:
    case SNIC_ECONNREFUSED:
    case SNIC_ECONNRESET:
    case SNIC_ECONNABORTED:
    case SNIC_ECANCELED:
        return MOVE_ABSENT;
    case SNIC_ENOSPC:
    case SNIC_ENOENT:
    case SNIC_EPERM:
        return MOVE_HOPELESS;
    default:
        return MOVE_STAYS;
    }
}

static void move_report(const char *text)
{
    const struct moving *g = &mv.list[mv.at];
    char from[32] = "";
    if (g->server != 0)
        snprintf(from, sizeof(from), " from server %" PRIu32, g->server);
    fprintf(stderr,
            "solar_volume: move: segment %" PRIu64 " of disk %s was not moved%s to server %" PRIu64
            ": %s\n",
            g->segment, vb.name, from, vb.server, text);
}

static void move_end(void)
{
    if (mv.all && mv.moved != mv.count)
        fprintf(stderr,
                "solar_volume: move: of %zu segments of disk %s %" PRIu64
                " were moved to server %" PRIu64 ", the others were not\n",
                mv.count, vb.name, mv.moved, vb.server);
    vb.code = mv.moved != mv.count;
    ctl_end();
}

static void move_try(struct snic_timer *t, uint64_t now)
{
    (void)t;
    if (mv.begun_ns == 0)
        mv.begun_ns = mv.since_ns = now;
    vb.m.type = SNIC_CONTROL_MOVE;
    vb.m.segment = mv.list[mv.at].segment;
    vb.m.server = (uint32_t)vb.server;
    int r = snic_control_operator_request(vb.call, &vb.m);
    if (r == 0)
        return;
    ctl_report_gone(mv.fate == MOVE_ABSENT ? mv.status : r);
    move_end();
}

static void move_next(void)
{
    while (mv.at < mv.count && (mv.node[mv.list[mv.at].server] & NODE_ABANDONED) != 0)
        mv.at++;
    mv.begun_ns = 0;
    mv.status = 0;
    mv.fate = MOVE_DONE;
    if (mv.at == mv.count)
        move_end();
    else
        move_try(NULL, snic_loop_now(vb.loop));
}

static const char *move_why(int status)
{
    if (status == SNIC_ENOSPC)
        return "it has no room left";
    if (status == SNIC_ENOENT)
        return "no such disk, or the segment was never read or written";
    if (status == SNIC_EOVERFLOW)
        return "the moves of the disk's lease are used up: restart its client, or reissue the disk";
    if (move_fate(status) == MOVE_BUSY)
        return "it is being moved already, another one is being moved there, four servers copy "
               "from its server, or the disk is being reissued";
    return snic_strerror(status);
}

/* One of the servers did not answer. What else is at one that is not here is not tried any more.
 * @return 1: nothing can be moved to the server that it was to be moved to */
static int move_judge_absent(void)
{
    char text[160];
    uint32_t from = mv.list[mv.at].server;
    int up = (mv.node[vb.server] & NODE_UP) != 0;
    if (!up) {
        snprintf(text, sizeof(text), "server %" PRIu64 " is not connected", vb.server);
    } else if (from != 0 ? (mv.node[from] & NODE_UP) == 0 : mv.status == SNIC_EHOSTUNREACH) {
        snprintf(text, sizeof(text), "the server that has it is not connected");
        mv.node[from] |= NODE_ABANDONED;
    } else if (from == 0) {
        snprintf(text, sizeof(text), "server %" PRIu64 " cannot copy it: %s", vb.server,
                 snic_strerror(mv.status));
    } else {
        snprintf(text, sizeof(text),
                 "server %" PRIu64 " cannot copy it from server %" PRIu32 ": %s", vb.server, from,
                 snic_strerror(mv.status));
    }
    move_report(text);
    return !up;
}

/* The move has failed; by now it is known that the catalog responds, and which servers do. */
static void move_judge(void)
{
    int all = mv.fate == MOVE_HOPELESS;
    if (mv.fate == MOVE_ABSENT)
        all = move_judge_absent();
    else
        move_report(move_why(mv.status));
    if (all) {
        move_end();
        return;
    }
    mv.at++;
    move_next();
}

/* 1: it is tried again. */
static int move_waits(void)
{
    uint64_t now = snic_loop_now(vb.loop);
    if (!mv.all || (mv.fate != MOVE_BUSY && mv.fate != MOVE_ABSENT) ||
        now - mv.since_ns >= (mv.fate == MOVE_BUSY ? MOVE_BUSY_NS : MOVE_ABSENT_NS) ||
        now - mv.begun_ns >= MOVE_ONE_NS)
        return 0;
    snic_loop_arm(vb.loop, &mv.timer, now + MOVE_AGAIN_NS);
    return 1;
}

void ctl_move_done(int status)
{
    enum move_fate fate = move_fate(status);
    if (mv.fate != MOVE_DONE && mv.fate != fate)
        mv.since_ns = snic_loop_now(vb.loop);
    mv.fate = fate;
    mv.status = status;
    if (fate == MOVE_DONE) {
        mv.moved++;
        mv.at++;
        move_next();
        return;
    }
    if (move_waits())
        return;
    for (uint32_t i = 0; i <= SNIC_CONTROL_SERVERS_MAX; i++)
        mv.node[i] &= NODE_ABANDONED;
    vb.next = move_judge;
    vb.m.value = 0;
    vb.m.type = SNIC_CONTROL_NODES;
    if (snic_control_operator_request(vb.call, &vb.m) == 0)
        return;
    vb.m.type = SNIC_CONTROL_MOVE; /* it was this that the catalog did not answer */
    ctl_report_gone(status);
    move_end();
}

static void move_begin(void)
{
    char *rest;
    if ((mv.node[vb.server] & NODE_KNOWN) == 0) {
        fprintf(stderr,
                "solar_volume: move: disk %s, %s %s: no server %" PRIu64
                " in the catalog (list shows them)\n",
                vb.name, mv.all ? "segments:" : "segment", vb.segment, vb.server);
        ctl_fail();
        return;
    }
    vb.next = move_next;
    if (mv.all) {
        ctl_request(SNIC_CONTROL_SEGMENTS);
        return;
    }
    moving_add(strtoull(vb.segment, &rest, 10), 0);
    move_next();
}

void ctl_move(void)
{
    char *rest;
    snic_timer_init(&mv.timer, move_try);
    mv.all = strcmp(vb.segment, "all") == 0;
    (void)strtoull(vb.segment, &rest, 10);
    if (!mv.all && (vb.segment[0] < '0' || vb.segment[0] > '9' || *rest != 0))
        ex_usage("move: segment '%s' is neither a number nor all", vb.segment);
    vb.next = move_begin;
    ctl_request(SNIC_CONTROL_NODES);
}

void ctl_move_free(void)
{
    free(mv.list);
}
