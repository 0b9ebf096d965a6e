/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A handle's buffers, the list of connections that the loop has to pump, and their places. The
 * invariants are in uring.c.
 */
#include "net/uring_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

/* ---- The work list ---- */

static void net_uring_work_start(struct net_uring *n)
{
    if (!n->work_queued) {
        n->work_queued = 1;
        loop_uring_leave(n->n.loop, &n->work_msg);
    }
}

/* Have the loop pump @c soon. */
void net_uring_work(struct net_uring_conn *c)
{
    struct net_uring *n = (struct net_uring *)c->c.net;
    if (snic_link_alone(&c->work))
        snic_link_append(&n->work, &c->work);
    net_uring_work_start(n);
}

void net_uring_conn_give(struct net_uring_conn *c)
{
    struct net_uring *n = (struct net_uring *)c->c.net;
    SNIC_ASSERT(!c->recv_busy && !c->send_busy && !c->watch_busy && !c->connect_busy &&
                c->zc_notifs == 0 && c->fd < 0 && c->send_count == 0); /* I2 */
    snic_link_remove(&c->link);
    snic_link_remove(&c->work);
    snic_link_remove(&c->wait);
    c->state = NET_URING_FREE;
    c->gen++;
    n->live--;
    n->free_conns[n->free_count++] = c;
}

/* ---- Buffers ---- */

/*
 * The kernel's ring hands out buffers in turn, so all that are in it are touched: it holds only
 * as many as were ever needed at once, and what comes back last is used first, while it is in
 * the cache.
 */
static void net_uring_buf_refill(struct net_uring *n)
{
    uint32_t added = 0;
    while (n->ring_count < n->ring_target && n->free_bufs.next != NULL) {
        struct snic_net_buf *b = SNIC_CONTAINER(n->free_bufs.next, struct snic_net_buf, node);
        n->free_bufs.next = b->node.next;
        io_uring_buf_ring_add(n->ring, n->data + (size_t)b->backend * n->opts.recv_size,
                              n->opts.recv_size, (unsigned short)b->backend,
                              io_uring_buf_ring_mask(n->opts.pool_buffers), (int)added++);
        n->ring_count++;
    }
    if (added > 0)
        io_uring_buf_ring_advance(n->ring, (int)added);
}

/*
 * The ring was empty. With many connections it holds more from now on, once per loop iteration; a
 * single one that is that fast does not need more, and starts its receive anew.
 */
void net_uring_buf_more(struct net_uring *n)
{
    uint64_t now = snic_loop_now(n->n.loop);
    uint64_t most = snic_min_u64(n->opts.pool_buffers, 2 * (uint64_t)n->live);
    if (n->ring_grown_ns != now && n->ring_target < most)
        n->ring_target = (uint32_t)snic_min_u64(2 * (uint64_t)n->ring_target, most);
    n->ring_grown_ns = now;
    net_uring_buf_refill(n);
}

/* The buffer that the kernel picked, or without buffer ring any; NULL when there is none. */
struct net_uring_buf *net_uring_buf_take(struct net_uring *n, uint32_t flags)
{
    struct net_uring_buf *b = NULL;
    if (n->ring != NULL) {
        uint32_t i = flags >> IORING_CQE_BUFFER_SHIFT;
        SNIC_ASSERT((flags & IORING_CQE_F_BUFFER) != 0 && i < n->opts.pool_buffers);
        b = &n->bufs[i];
        n->ring_count--;
        net_uring_buf_refill(n);
    } else {
        struct snic_node *node = n->free_bufs.next;
        if (node == NULL)
            return NULL;
        n->free_bufs.next = node->next;
        b = (struct net_uring_buf *)SNIC_CONTAINER(node, struct snic_net_buf, node);
    }
    SNIC_ASSERT(b->owner == NULL); /* I4 */
    n->pool_out++;
    b->b.data = n->data + (size_t)b->b.backend * n->opts.recv_size;
    return b;
}

static void net_uring_buf_free(struct net_uring *n, struct net_uring_buf *b)
{
    b->owner = NULL;
    b->b.node.next = n->free_bufs.next;
    n->free_bufs.next = &b->b.node;
}

/* All who wait may try: one that then hears nothing must not keep a buffer from the others. */
void net_uring_buf_waiters(struct net_uring *n)
{
    while (!snic_link_alone(&n->waiters)) {
        struct net_uring_conn *c = SNIC_CONTAINER(n->waiters.next, struct net_uring_conn, wait);
        snic_link_remove(&c->wait);
        net_uring_work(c);
    }
}

void net_uring_buf_back(struct net_uring_buf *b)
{
    struct net_uring *n = b->net;
    n->pool_out--;
    net_uring_buf_free(n, b);
    if (n->ring != NULL)
        net_uring_buf_refill(n);
    if (!snic_link_alone(&n->waiters))
        net_uring_buf_waiters(n);
}

static void *net_uring_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The pool, and the kernel's ring of it where there is that. */
int net_uring_buffers(struct net_uring *n)
{
    uint32_t count = n->opts.pool_buffers;
    n->data_bytes = (size_t)count * n->opts.recv_size;
    n->data = net_uring_map(n->data_bytes);
    n->bufs = calloc(count, sizeof(*n->bufs));
    if (n->data == NULL || n->bufs == NULL)
        return SNIC_ENOMEM;
    n->group = (n->features & SNIC_LOOP_HAVE_BUF_RING) != 0 ? loop_uring_group_get(n->n.loop) : -1;
    if (n->group >= 0) {
        struct io_uring_buf_reg reg;
        n->ring_bytes = snic_align_up(count * sizeof(struct io_uring_buf), 4096);
        n->ring = net_uring_map(n->ring_bytes);
        if (n->ring == NULL)
            return SNIC_ENOMEM;
        memset(&reg, 0, sizeof(reg));
        reg.ring_addr = (uint64_t)(uintptr_t)n->ring;
        reg.ring_entries = count;
        reg.bgid = (uint16_t)n->group;
        if (io_uring_register_buf_ring(loop_uring_ring(n->n.loop), &reg, 0) != 0) {
            loop_uring_group_put(n->n.loop, n->group);
            n->group = -1;
            (void)munmap(n->ring, n->ring_bytes);
            n->ring = NULL;
        }
    }
    for (uint32_t i = count; i > 0; i--) {
        n->bufs[i - 1].net = n;
        n->bufs[i - 1].b.backend = i - 1;
        net_uring_buf_free(n, &n->bufs[i - 1]);
    }
    n->ring_target = (uint32_t)snic_min_u64(SNIC_NET__URING_RING_START, count);
    if (n->ring != NULL)
        net_uring_buf_refill(n);
    return 0;
}
