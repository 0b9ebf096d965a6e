/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages between the loops of a target. What a loop has for another is collected during an
 * iteration and posted as one batch: one message, and at most one wake-up. Those of one loop for
 * another arrive in the order in which they were sent.
 */
#include "nvmet/nvmet_priv.h"

static void nvmet_mail_receive(struct snic_loop_msg *msg)
{
    struct nvmet_mail *m = SNIC_CONTAINER(msg, struct nvmet_mail, msg);
    while (m != NULL) {
        struct nvmet_mail *next = m->next; /* fn may send it again, or end it */
        m->next = NULL;
        m->fn(m);
        m = next;
    }
}

void nvmet_mail_flush(struct snic_loop_msg *msg)
{
    struct snic_nvmet *s = SNIC_CONTAINER(msg, struct snic_nvmet, flush);
    s->flush_on = 0;
    for (uint32_t i = 0; i < s->o.loops_max; i++) {
        struct nvmet_mail *m = s->out[i].first;
        if (m == NULL)
            continue;
        s->out[i].first = s->out[i].last = NULL;
        m->msg.fn = nvmet_mail_receive;
        snic_loop_post(s->first->loops[i]->loop, &m->msg);
    }
}

void nvmet_mail_send(struct snic_nvmet *from, struct snic_nvmet *to, struct nvmet_mail *m,
                     nvmet_mail_fn fn)
{
    if (from == to) {
        fn(m);
        return;
    }
    struct nvmet_box *box = &from->out[to->index];
    m->fn = fn;
    m->next = NULL;
    if (box->first == NULL)
        box->first = m;
    else
        box->last->next = m;
    box->last = m;
    if (!from->flush_on) {
        from->flush_on = 1;
        snic_loop_defer(from->loop, &from->flush);
    }
}
