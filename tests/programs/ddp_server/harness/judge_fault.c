/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the faults of a history mean: which losses there were, from whose logs the nodes began
 * again, how many nodes there were. The rules are those of the README's section "What may be lost".
 */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

enum judge_what {
    JUDGE_CONFIGURED,
    JUDGE_DOWN,
    JUDGE_FULL,
    JUDGE_APART,
    JUDGE_JOINED,
    JUDGE_GONE,
    JUDGE_BACK,
    JUDGE_OTHER
};
static const char *const judge_whats[] = {"nodes",  "down", "full", "apart",
                                          "joined", "gone", "back"};

struct judge_fault {
    uint64_t at;
    size_t order;
    uint8_t what;
    uint8_t node;
    uint8_t log; /* full: it began from its own log */
};

const char *judge_fault_read(struct judge_faults *f, char **word, uint32_t words)
{
    uint64_t node = 0;
    struct judge_fault x = {.order = f->count, .what = 0};
    if (words < 3 || judge_time(word[1], &x.at) != 0)
        return "a fault: ! TIME WHAT NODE";
    if (words > 3 && (judge_time(word[3], &node) != 0 || node > JUDGE_NODES))
        return "the number of a node";
    while (x.what < JUDGE_OTHER && strcmp(word[2], judge_whats[x.what]) != 0)
        x.what++;
    if (node == JUDGE_NODES && x.what != JUDGE_CONFIGURED)
        return "the number of a node";
    x.node = (uint8_t)node;
    x.log = words > 4 && strcmp(word[4], "log") == 0;
    f->list = judge_grow(f->list, f->count, sizeof(*f->list));
    f->list[f->count++] = x;
    return NULL;
}

static int judge_fault_by_time(const void *a, const void *b)
{
    const struct judge_fault *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

struct judge_nodes {
    uint32_t configured;
    uint64_t crashed[JUDGE_NODES]; /* 1 and since when; 0: a full member */
    int apart[JUDGE_NODES];
    int gone[JUDGE_NODES];
    int in_loss;  /* a majority has crashed */
    int can_lose; /* and since then no node was up and reachable, at some time */
    int again;    /* and after that a node began again: it may have served */
    uint32_t logs;
    uint64_t since;
};

static void judge_fault_begins(struct judge_nodes *n, uint64_t now)
{
    n->in_loss = 1;
    n->can_lose = 0;
    n->again = 0;
    n->logs = 0;
    n->since = now;
}

static void judge_fault_ends(struct judge_history *h, struct judge_nodes *n, uint64_t now)
{
    n->in_loss = 0;
    if (n->can_lose) {
        h->losses = judge_grow(h->losses, h->loss_count, sizeof(*h->losses));
        h->losses[h->loss_count++] = (struct judge_loss){n->since, now, n->logs};
    }
}

/* After the fault @p x. */
static void judge_fault_loss(struct judge_history *h, struct judge_nodes *n,
                             const struct judge_fault *x)
{
    uint32_t crashed = 0, away = 0;
    for (uint32_t i = 0; i < n->configured; i++) {
        crashed += n->crashed[i] != 0;
        away += n->crashed[i] != 0 || n->apart[i];
    }
    int majority = crashed > n->configured / 2;
    int none = away == n->configured;
    int ends = x->what == JUDGE_DOWN || x->what == JUDGE_GONE;
    /* Nodes that began again may have served before a majority of them was seen to be full: when
     * the last of those that were seen goes, or one that was not, that is a loss of its own. */
    if (n->in_loss && n->again && none && ends) {
        judge_fault_ends(h, n, x->at);
        judge_fault_begins(n, x->at);
    }
    if (majority && !n->in_loss)
        judge_fault_begins(n, x->at);
    n->again |= n->in_loss && (x->what == JUDGE_BACK || x->what == JUDGE_FULL);
    n->can_lose |= none;
    if (!majority && n->in_loss)
        judge_fault_ends(h, n, x->at);
}

/* A node is a full member again. Of the last loss, too, if it was down all the time since. */
static void judge_fault_full(struct judge_history *h, struct judge_nodes *n,
                             const struct judge_fault *f)
{
    struct judge_loss *last = h->loss_count > 0 ? &h->losses[h->loss_count - 1] : NULL;
    uint32_t bit = f->log ? 1u << f->node : 0;
    if (n->in_loss)
        n->logs |= bit;
    else if (last != NULL && n->crashed[f->node] != 0 && n->crashed[f->node] - 1 < last->up)
        last->logs |= bit;
    n->crashed[f->node] = 0;
}

static void judge_fault_present(struct judge_history *h, const struct judge_nodes *n, uint64_t now)
{
    struct judge_present p = {now, n->configured};
    for (uint32_t i = 0; i < n->configured; i++)
        p.nodes -= n->gone[i] != 0;
    h->present = judge_grow(h->present, h->present_count, sizeof(*h->present));
    h->present[h->present_count++] = p;
}

void judge_faults_apply(struct judge_history *h, struct judge_faults *f)
{
    struct judge_nodes n = {.configured = 0};
    if (f->count > 0)
        qsort(f->list, f->count, sizeof(*f->list), judge_fault_by_time);
    for (size_t i = 0; i < f->count; i++) {
        const struct judge_fault *x = &f->list[i];
        if (x->what == JUDGE_CONFIGURED)
            n.configured = x->node;
        else if (x->what == JUDGE_FULL)
            judge_fault_full(h, &n, x);
        else if (x->what == JUDGE_APART || x->what == JUDGE_JOINED)
            n.apart[x->node] = x->what == JUDGE_APART;
        else if (x->what == JUDGE_GONE || x->what == JUDGE_BACK)
            n.gone[x->node] = x->what == JUDGE_GONE;
        if (x->what == JUDGE_DOWN && n.crashed[x->node] == 0)
            n.crashed[x->node] = x->at + 1;
        judge_fault_loss(h, &n, x);
        if (x->what == JUDGE_DOWN)
            n.logs &= ~(1u << x->node); /* the members begin again, perhaps without it */
        judge_fault_present(h, &n, x->at);
    }
    memset(n.crashed, 0, sizeof(n.crashed));
    judge_fault_loss(h, &n, &(struct judge_fault){.at = JUDGE_OPEN - 1, .what = JUDGE_FULL});
    free(f->list);
}

int judge_survives(const struct judge_history *h, const struct judge_op *op, size_t loss)
{
    if (op->kept >= h->losses[loss].down)
        return 0;
    /* Durable at one node: survives while each restart begins from that node's log. */
    for (size_t i = 0; op->class == JUDGE_HERE && i <= loss; i++) {
        if (h->losses[i].down > op->kept && (h->losses[i].logs >> op->node & 1) == 0)
            return 0;
    }
    return 1;
}

int judge_copies(const struct judge_history *h, const struct judge_op *op)
{
    /* Each member of the answer's epoch had the write after its call, and was there together with
     * the others at one moment: when the epoch began, or at the call. */
    uint32_t most = 0;
    if (op->copies == 0 || op->result != JUDGE_OK || h->present_count == 0)
        return 1;
    for (size_t i = h->present_count; i-- > 0;) {
        if (h->present[i].at > op->end)
            continue;
        most = h->present[i].nodes > most ? h->present[i].nodes : most;
        if (h->present[i].at <= op->call)
            break;
    }
    return most >= op->copies;
}
