/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What an agent reports to its owner, one action at a time: trains or sends, then I/Os that are
 * done, then what the transport, the disks and the servers have, then slow I/Os.
 */
#include "ebs/queue_priv.h"

static int ebs_report_io(struct snic_ebs_action *a, enum snic_ebs_act type, struct snic_ebs_io *io)
{
    a->type = type;
    a->io = io;
    return io != NULL;
}

static int ebs_report_disk(struct ebs_queue *q, struct snic_ebs_action *a)
{
    struct ebs_event ev;
    if (!ebs_queue_event(q, &ev))
        return 0;
    a->type = ev.lease ? SNIC_EBS_ACT_LEASE : ev.token ? SNIC_EBS_ACT_TOKEN : SNIC_EBS_ACT_MAP;
    a->disk = ev.disk;
    a->segment = ev.segment;
    a->gen32 = ev.gen32;
    return 1;
}

static int ebs_report_server(struct ebs_queue *q, struct snic_ebs_action *a)
{
    if (snic_link_alone(&q->server_events))
        return 0;
    struct ebs_load *l = SNIC_CONTAINER(q->server_events.next, struct ebs_load, event);
    snic_link_remove(&l->event);
    a->type = l->suspect ? SNIC_EBS_ACT_SUSPECT : SNIC_EBS_ACT_RECOVERED;
    a->server = (uint32_t)(l - q->loads);
    return 1;
}

static int ebs_report(struct ebs_queue *q, struct snic_ebs_action *a)
{
    memset(a, 0, sizeof(*a));
    if (q->ops->report_lent(q, a) || ebs_report_io(a, SNIC_EBS_ACT_DONE, ebs_queue_done(q)))
        return 1;
    return !q->halted &&
           (q->ops->report_path(q, a) || ebs_report_disk(q, a) || ebs_report_server(q, a) ||
            ebs_report_io(a, SNIC_EBS_ACT_SLOW, ebs_queue_slow(q)));
}

int ebs_queue_work(struct ebs_queue *q)
{
    struct snic_timer *t;
    while ((t = snic_wheel_pop(&q->wheel, q->now_ns)) != NULL)
        t->fn(t, q->now_ns);
    ebs_queue_expire(q);
    ebs_queue_lookups(q);
    if (!q->dirty && q->now_ns < q->qos_ns)
        return 0;
    q->dirty = 0;
    ebs_queue_admit(q);
    return 1;
}

uint32_t ebs_queue_poll(struct ebs_queue *q, struct snic_ebs_action *out, uint32_t max)
{
    uint32_t n = 0;
    int worked = q->halted;
    while (n < max) {
        if (ebs_report(q, &out[n])) {
            n++;
            worked = q->halted;
        } else if (!worked) {
            if (ebs_queue_work(q))
                q->ops->send(q);
            worked = 1;
        } else {
            break;
        }
    }
    return n;
}
