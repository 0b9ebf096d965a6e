/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What an event does to a node. */
#include "ddpnic_node_priv.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local jmp_buf xn_jump;
static _Thread_local int xn_armed;
static _Thread_local char xn_text[MC_TEXT];

_Noreturn void xn_assert_fail(const char *file, int line, const char *text)
{
    const char *name = strrchr(file, '/');

    if (!xn_armed) {
        (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
        abort();
    }
    (void)snprintf(xn_text, sizeof(xn_text), "assertion in %.20s: %.100s",
                   name != NULL ? name + 1 : file, text);
    longjmp(xn_jump, 1);
}

struct xn_work {
    struct xn_space *s;
    struct xn_node *n;
    struct xn_result *r;
    struct snic_ddp_msg out[XN_OUT];
    struct xn_done done[XN_DONE];
};

static void xn_bad(struct xn_work *w, const char *text)
{
    if (w->r->bad == NULL)
        w->r->bad = text;
}

static void xn_sent(struct xn_work *w, const struct snic_ddp_action *a)
{
    const struct snic_ddp_view *v;
    uint32_t to;

    if (w->n->sum.view == XN_NONE) {
        xn_bad(w, "a message before the first membership");
        return;
    }
    v = xn_view_at(w->s, w->n->sum.view);
    for (to = 0; to < w->s->o.nodes; to++) {
        if ((a->to >> to & 1) == 0)
            continue;
        if (w->r->outs == XN_OUT)
            abort();
        w->out[w->r->outs] = a->msg;
        w->out[w->r->outs].dst = (uint8_t)to;
        w->out[w->r->outs++].dst_incarnation = v->incarnation[to];
    }
}

static void xn_pcie(struct xn_work *w, int host, const struct snic_ddp_action *a)
{
    struct xn_node *n = w->n;

    if ((host ? n->down : n->back) == XN_QUEUE) {
        xn_bad(w, "more on the PCIe than the model has room for");
        return;
    }
    if (host) {
        if (a->msg.type == SNIC_DDP_INV)
            w->r->made_ts = a->msg.ts;
        n->queue[n->down++] = a->msg;
        return;
    }
    memset(&n->reply[n->back], 0, sizeof(n->reply[0]));
    n->reply[n->back].m = a->msg;
    n->reply[n->back].type = a->type;
    n->reply[n->back++].flags = a->flags;
}

static void xn_act(struct xn_work *w, int host, const struct snic_ddp_action *a)
{
    struct xn_node *n = w->n;
    struct xn_pending *p;

    switch (a->type) {
    case SNIC_DDP_SEND:
        xn_sent(w, a);
        break;
    case SNIC_DDPNIC_PCIE:
    case SNIC_DDPNIC_WAKE:
        xn_pcie(w, host, a);
        break;
    case SNIC_DDP_DONE:
        if (w->r->dones == XN_DONE)
            abort();
        w->done[w->r->dones].token = a->token;
        w->done[w->r->dones].result = a->result;
        w->done[w->r->dones++].ts = a->msg.ts;
        break;
    case SNIC_DDPNIC_VSTORE:
    case SNIC_DDPNIC_DSTORE:
    case SNIC_DDPNIC_DMA:
    case SNIC_DDPNIC_LOG:
    case SNIC_DDPNIC_MARK:
        if (n->pending == XN_PENDING) {
            xn_bad(w, "more under way than the model has room for");
            break;
        }
        p = &n->pend[n->pending++];
        memset(p, 0, sizeof(*p));
        p->type = (uint16_t)(a->type - SNIC_DDPNIC_VSTORE);
        p->key = (uint16_t)a->msg.key.w[0];
        p->ts = a->msg.ts;
        p->id = a->id;
        p->value = a->type == SNIC_DDPNIC_MARK ? a->msg.scope : a->msg.value;
        break;
    default:
        break; /* RELEASE: the engine's own tests count handles; SUSPECT is advice */
    }
}

static int xn_step_host(struct xn_work *w, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_host(xn_engine(w->n), 0, ev);

    while (snic_ddpnic_poll_host(xn_engine(w->n), &a) != 0)
        xn_act(w, 1, &a);
    return r;
}

static int xn_step_nic(struct xn_work *w, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_nic(xn_engine(w->n), 0, ev);

    while (snic_ddpnic_poll_nic(xn_engine(w->n), &a) != 0)
        xn_act(w, 0, &a);
    return r;
}

static int xn_complete(struct xn_work *w, uint32_t i)
{
    struct xn_node *n = w->n;
    struct xn_pending p = n->pend[i];
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    n->pending--;
    memmove(&n->pend[i], &n->pend[i + 1], (n->pending - i) * sizeof(p));
    if (p.type == SNIC_DDPNIC_LOG - SNIC_DDPNIC_VSTORE && p.ts > n->log[p.key]) {
        n->log[p.key] = p.ts;
        n->log_value[p.key] = p.value;
    }
    ev.type = SNIC_DDPNIC_VSTORED + p.type;
    ev.key.w[0] = p.key;
    ev.ts = p.ts;
    ev.id = p.id;
    ev.scope = p.value;
    return xn_step_nic(w, &ev);
}

static int xn_down(struct xn_work *w)
{
    struct xn_node *n = w->n;
    struct snic_ddp_msg m = n->queue[0];
    struct snic_ddp_event ev;
    int r;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDPNIC_PCIE;
    ev.msg = &m;
    r = xn_step_nic(w, &ev);
    if (r == 0) {
        n->down--;
        memmove(n->queue, n->queue + 1, n->down * sizeof(m));
    }
    return r;
}

static int xn_back(struct xn_work *w)
{
    struct xn_node *n = w->n;
    struct xn_back b = n->reply[0];
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.type = b.type;
    ev.flags = b.flags;
    ev.key = b.m.key;
    ev.msg = &b.m;
    n->back--;
    memmove(n->reply, n->reply + 1, n->back * sizeof(b));
    return xn_step_host(w, &ev);
}

/* What takes no time. */
static void xn_fold(struct xn_work *w)
{
    struct xn_node *n = w->n;
    uint32_t fold = w->s->o.fold, i;
    int any = n->sum.alive, stalled = 0;

    while (any && w->r->bad == NULL) {
        any = 0;
        for (i = 0; i < n->pending && !any; i++)
            if ((fold >> n->pend[i].type & 1) != 0) {
                any = 1;
                if (xn_complete(w, i) != 0)
                    xn_bad(w, "a completion was refused");
                stalled = 0;
            }
        if (!any && (fold & XN_FOLD_BACK) != 0 && n->back != 0) {
            any = 1;
            if (xn_back(w) != 0)
                xn_bad(w, "the host refused a message of its NIC");
        }
        if (!any && (fold & XN_FOLD_DOWN) != 0 && n->down != 0 && !stalled) {
            stalled = xn_down(w) != 0;
            any = !stalled;
        }
    }
}

static int xn_client(struct xn_work *w, uint32_t kind, uint32_t arg)
{
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.type = kind == XN_WRITE    ? SNIC_DDP_WRITE
              : kind == XN_DELETE ? SNIC_DDP_DELETE
                                  : SNIC_DDP_SYNC;
    if (kind == XN_SYNC) {
        ev.scope = arg;
        ev.token = 64 + arg;
    } else {
        ev.key.w[0] = arg & 15;
        ev.token = arg >> 4 & 255;
        ev.scope = arg >> 12;
        ev.value = kind == XN_DELETE ? 0 : ev.token;
        ev.length = kind == XN_DELETE ? 0 : 1;
    }
    return xn_step_host(w, &ev);
}

static int xn_install(struct xn_work *w, uint32_t view)
{
    struct snic_ddp_event ev;
    int r;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_EPOCH;
    ev.view = xn_view_at(w->s, view);
    w->n->sum.view = view;
    r = xn_step_nic(w, &ev);
    if (r != 0 || (ev.view->full >> w->n->sum.id & 1) == 0 || w->n->sum.lease != 0)
        return r;
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_LEASE;
    ev.ts = SNIC_NEVER;
    w->n->sum.lease = 1;
    return xn_step_host(w, &ev);
}

static void xn_crash(struct xn_work *w)
{
    struct xn_node *n = w->n;
    uint32_t k;

    xn_sum_log(n);
    for (k = 0; k < XN_KEYS; k++) {
        n->log[k] = n->sum.key[k].log;
        n->log_value[k] = n->sum.key[k].log_value;
    }
    n->pending = n->down = n->back = 0;
    n->sum.alive = n->sum.lease = 0;
    n->sum.view = XN_NONE;
    memset(n->engine, 0, w->s->node_size - sizeof(*n));
}

static int xn_event(struct xn_work *w, uint32_t kind, uint32_t arg)
{
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    switch (kind) {
    case XN_MESSAGE:
        ev.type = SNIC_DDP_MESSAGE;
        ev.msg = xn_message(w->s, arg);
        return xn_step_nic(w, &ev);
    case XN_DOWN:
        return xn_down(w);
    case XN_BACK:
        return xn_back(w);
    case XN_COMPLETE:
        return xn_complete(w, arg);
    case XN_FIRE:
        ev.type = SNIC_DDP_FIRE;
        ev.id = w->n->timer[arg].id;
        return xn_step_nic(w, &ev);
    case XN_INSTALL:
        return xn_install(w, arg);
    case XN_LEASE_END:
        ev.type = SNIC_DDP_LEASE;
        w->n->sum.lease = 0;
        return xn_step_host(w, &ev);
    case XN_CRASH:
        xn_crash(w);
        return 0;
    default:
        return xn_client(w, kind, arg);
    }
}

/* Give the engine's output numbers. Under the lock. */
static void xn_number(struct xn_work *w, uint32_t before)
{
    struct xn_result *r = w->r;
    uint32_t i;

    r->out = calloc(r->outs + 1u, sizeof(*r->out));
    r->done = calloc(r->dones + 1u, sizeof(*r->done));
    if (r->out == NULL || r->done == NULL)
        abort();
    memcpy(r->done, w->done, r->dones * sizeof(*r->done));
    for (i = 0; i < r->outs; i++)
        r->out[i] = mc_set_add(&w->s->messages, mc_fingerprint(&w->out[i], sizeof(w->out[i])),
                               &w->out[i], sizeof(w->out[i]));
    r->node = r->bad != NULL || r->status != 0 ? before : xn_add(w->s, w->n);
}

const struct xn_result *xn_step(struct xn_space *s, uint32_t node, uint32_t event)
{
    uint64_t key = (uint64_t)node << 32 | event;
    struct xn_result *r = mc_memo_find(&s->memo, key);
    struct xn_work *w;

    if (r != NULL)
        return r;
    /* Works under the lock: it is rare, and the engine must not be entered twice for one thing. */
    (void)pthread_mutex_lock(&s->lock);
    r = mc_memo_find(&s->memo, key);
    if (r == NULL) {
        w = calloc(1, sizeof(*w));
        r = calloc(1, sizeof(*r));
        if (w == NULL || r == NULL)
            abort();
        w->s = s;
        w->r = r;
        w->n = xn_scratch(s);
        memcpy(w->n, xn_node_at(s, node), s->node_size);
        r->event = key;
        xn_armed = 1;
        if (setjmp(xn_jump) == 0) {
            r->status = xn_event(w, event >> 27, XN_ARG(event));
            if (r->status == 0)
                xn_fold(w);
        } else {
            xn_bad(w, r->owned = strdup(xn_text));
        }
        xn_armed = 0;
        xn_number(w, node);
        mc_memo_add(&s->memo, r);
        free(w->n);
        free(w);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
