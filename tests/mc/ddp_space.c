/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Things with numbers: node states, messages, memberships. */
#include "ddp_node_priv.h"

#include <stdlib.h>
#include <string.h>

const struct dn_sum *dn_sum(const struct dn_space *s, uint32_t node)
{
    return &dn_node_at(s, node)->sum;
}

const struct snic_ddp_msg *dn_message(const struct dn_space *s, uint32_t message)
{
    return s->messages.item[message];
}

const struct snic_ddp_view *dn_view_at(const struct dn_space *s, uint32_t view)
{
    return s->views.item[view];
}

struct snic_ddp_timer dn_timer(const struct dn_space *s, uint32_t node, uint32_t i)
{
    return dn_node_at(s, node)->timer[i];
}

uint32_t dn_view(struct dn_space *s, const struct snic_ddp_view *v)
{
    uint32_t n;

    (void)pthread_mutex_lock(&s->lock);
    n = mc_set_add(&s->views, mc_fingerprint(v, sizeof(*v)), v, sizeof(*v));
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- The space ---- */

void dn_result_free(void *result)
{
    struct dn_result *r = result;

    free(r->out);
    free(r->done);
    free(r->owned);
    free(r);
}

struct dn_space *dn_space_new(const struct dn_opts *o)
{
    struct dn_space *s = calloc(1, sizeof(*s));
    struct snic_ddp_opts e = dn_engine_opts(o, 0);

    if (s == NULL)
        abort();
    s->o = *o;
    s->node_size = sizeof(struct dn_node) + snic_ddp_memsize(&e);
    (void)pthread_mutex_init(&s->lock, NULL);
    mc_set_init(&s->nodes);
    mc_set_init(&s->messages);
    mc_set_init(&s->views);
    mc_memo_init(&s->memo);
    s->twins = o->twins != 0 ? dn_twins_new() : NULL;
    return s;
}

void dn_space_free(struct dn_space *s)
{
    mc_memo_fini(&s->memo, dn_result_free);
    dn_twins_free(s->twins);
    mc_set_fini(&s->nodes);
    mc_set_fini(&s->messages);
    mc_set_fini(&s->views);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void dn_counts(const struct dn_space *s, uint64_t *nodes, uint64_t *messages, uint64_t *steps)
{
    *nodes = s->nodes.count;
    *messages = s->messages.count;
    *steps = s->memo.count;
}
