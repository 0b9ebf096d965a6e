/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a block server's end sends to the catalog: claims of its segments, READY, results of
 * commands.
 */
#include "control/agent_priv.h"

#define SNIC_CONTROL__AGENT_RETRY_NS UINT64_C(2000000)

void control_agent_send(struct snic_control_agent *a, struct snic_control_msg *m)
{
    (void)control_stream_send(&a->s, m, 0);
}

/* Fill in the store's places and free places. */
void control_agent_space(struct snic_control_agent *a, struct snic_control_msg *m)
{
    struct snic_segments_info info;
    snic_segments_inspect(a->o.store, &info);
    m->value = info.places;
    m->bytes = info.dead != 0 ? 0 : info.places - info.segments;
}

void control_agent_refused(struct snic_control_agent *a, int error)
{
    if (a->e.refused != NULL && !a->closing)
        a->e.refused(a->ctx, error);
    a->begin_ns = snic_loop_now(a->o.loop) + 20 * a->o.retry_ns;
    control_stream_abort(&a->s);
}

void control_agent_retry(struct snic_control_agent *a)
{
    if (!a->closing)
        snic_loop_arm(a->o.loop, &a->retry,
                      snic_loop_now(a->o.loop) + SNIC_CONTROL__AGENT_RETRY_NS);
}

void control_agent_result(struct snic_control_agent *a, uint32_t session, uint32_t tag, int status)
{
    struct snic_control_msg m;
    a->stats.failed += status < 0;
    if (tag == 0 || session != a->session || a->state != CONTROL_AGENT_READY)
        return;
    control_msg(&m, SNIC_CONTROL_RESULT, tag);
    m.status = status;
    control_agent_space(a, &m);
    control_agent_send(a, &m);
}

/* ---- Claims ---- */

static void control_agent_claim_more(struct snic_control_agent *a)
{
    struct snic_segments_stat stat;
    struct snic_control_msg m;
    uint64_t next;
    SNIC_ASSERT(a->state == CONTROL_AGENT_CLAIMING);
    SNIC_ASSERT(a->slots_used == 0);
    SNIC_ASSERT(!a->sink.busy);
    control_msg(&m, SNIC_CONTROL_CLAIM, 0);
    while (m.count < SNIC_CONTROL_ITEMS &&
           snic_segments_next(a->o.store, &a->claim_cursor, &stat) == 1) {
        if (stat.seg_id == SNIC_VOLUME_META || stat.seg_id == SNIC_CONTROL_META)
            continue;
        m.item[m.count].segment = stat.seg_id;
        m.item[m.count++].gen = stat.gen;
    }
    next = a->claim_cursor;
    a->last = m.count < SNIC_CONTROL_ITEMS || snic_segments_next(a->o.store, &next, &stat) == 0;
    m.flags = a->last;
    a->stats.claimed += m.count;
    control_agent_send(a, &m);
}

/* The store completes requests of the previous session first. */
void control_agent_claim(struct snic_control_agent *a)
{
    a->state = CONTROL_AGENT_CLAIMING;
    a->claim_cursor = 0;
    a->claim_due = a->slots_used != 0 || a->sink.busy;
    if (!a->claim_due)
        control_agent_claim_more(a);
}

void control_agent_claim_drained(struct snic_control_agent *a)
{
    if (a->claim_due && !a->closing)
        control_agent_claim(a);
}

/* A verdict is executed. The commands received meanwhile follow the last one (A5). */
void control_agent_claim_done(struct snic_control_agent *a)
{
    if (a->state != CONTROL_AGENT_CLAIMING)
        return;
    if (a->last)
        a->state = CONTROL_AGENT_CATCHING_UP;
    else
        control_agent_claim_more(a);
}

void control_agent_caught_up(struct snic_control_agent *a)
{
    struct snic_control_msg m;
    SNIC_ASSERT(a->state == CONTROL_AGENT_CATCHING_UP);
    SNIC_ASSERT(a->queue_count == 0);
    a->state = CONTROL_AGENT_READY;
    control_msg(&m, SNIC_CONTROL_READY, 0);
    control_agent_space(a, &m);
    control_agent_send(a, &m);
    if (a->e.ready != NULL)
        a->e.ready(a->ctx, 1, a->server);
}
