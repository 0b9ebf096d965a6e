/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_luna_util.h"

/* ---- Pipes ---- */

static void pipe_put(struct duo *d, struct duo_pipe *p, const struct snic_luna_send *s)
{
    size_t sum = 0;
    uint64_t *flip = &d->flip[p != &d->conn[0].up];
    assert_true(s->iov_count >= 1 && s->iov_count <= SNIC_LUNA_IOV_MAX);
    if (p->head == p->tail && !d->tape)
        p->head = p->tail = 0;
    for (uint32_t i = 0; i < s->iov_count; i++) {
        assert_true(p->tail + s->iov[i].size <= DUO_PIPE);
        memcpy(p->bytes + p->tail, s->iov[i].base, s->iov[i].size);
        p->tail += s->iov[i].size;
        sum += s->iov[i].size;
    }
    assert_int_equal(sum, s->bytes);
    p->put += sum;
    if ((p == &d->conn[0].up || p == &d->conn[0].down) && *flip != 0 && (*flip - 1) / 8 < p->put &&
        (*flip - 1) / 8 >= p->put - sum) {
        size_t back = (size_t)(p->put - (*flip - 1) / 8);
        p->bytes[p->tail - back] ^= (unsigned char)(1u << (*flip - 1) % 8);
        *flip = 0;
    }
}

static size_t pipe_next(const struct duo *d, const struct duo_pipe *p, uint64_t split)
{
    size_t size = p->tail - p->head;
    if (p->got < split && split - p->got < size)
        size = (size_t)(split - p->got);
    return d->chunk != 0 && size > d->chunk ? d->chunk : size;
}

void duo_fill(unsigned char *p, size_t size, uint64_t seed)
{
    struct snic_rng r;
    snic_rng_init(&r, seed);
    snic_rng_fill(&r, p, size);
}

/* ---- Birth and death ---- */

static void duo_target(struct duo *d)
{
    size_t size = snic_luna_target_memsize(&d->k);
    assert_true(size > 0);
    d->tmem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    assert_int_equal(snic_luna_target_init(&d->t, d->tmem, size - 1, &d->k, 0), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_init(&d->t, d->tmem, size, &d->k, d->now), 0);
}

/* Of the one duo there is at a time; not from malloc, for a sanitizer touches all of what that
 * gives and takes, at each of a hundred thousand streams. */
static unsigned char pipes[DUO_CONNS][2][DUO_PIPE];

void duo_open(struct duo *d)
{
    struct snic_ebs_disk_opts disk = {.opts_size = sizeof(disk), .blocks = DUO_BLOCKS};
    d->now = 1000;
    d->step = d->step != 0 ? d->step : 20000;
    d->seg_gen = 1;
    d->o.opts_size = sizeof(d->o);
    d->o.client_epoch = 3;
    d->o.servers_max = 1;
    d->o.disk_blocks_max = DUO_BLOCKS;
    d->k.opts_size = sizeof(d->k);
    d->k.srv_epoch = 9;
    if (d->o.rpcs_max == 0)
        d->o.rpcs_max = 64;
    size_t size = snic_luna_memsize(&d->o);
    assert_true(size > 0);
    d->cmem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    assert_int_equal(snic_luna_init(&d->c, d->cmem, size - 1, &d->o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_luna_init(&d->c, d->cmem, size, &d->o, d->now), 0);
    duo_target(d);
    for (uint32_t i = 0; i < DUO_CONNS; i++) {
        d->conn[i].up.bytes = pipes[i][0];
        d->conn[i].down.bytes = pipes[i][1];
    }
    disk.sa_epoch = d->sa_epoch != 0 ? d->sa_epoch : 1;
    disk.vd_id = 7;
    disk.xts_key = d->xts_key;
    assert_int_equal(snic_luna_server_add(d->c, 0, d->now), 0);
    assert_int_equal(snic_luna_attach(d->c, 0, &disk, d->now), 0);
}

static void duo_give_back(struct duo *d)
{
    while (d->lent > 0)
        snic_luna_target_sent(d->t, d->lend[--d->lent], d->now);
}

static void duo_target_end(struct duo *d)
{
    struct snic_luna_target_action a;
    duo_give_back(d);
    while (snic_luna_target_poll(d->t, &a, 1, d->now) == 1)
        if (a.type == SNIC_LUNA_TARGET_SEND)
            snic_luna_target_sent(d->t, a.send, d->now);
    assert_ptr_equal(snic_luna_target_fini(d->t), d->tmem);
    support_guard_free(d->tmem);
}

void duo_close(struct duo *d)
{
    assert_ptr_equal(snic_luna_fini(d->c), d->cmem);
    support_guard_free(d->cmem);
    duo_target_end(d);
    memset(d, 0, offsetof(struct duo, store));
    memset(d->store, 0, sizeof(d->store));
}

void duo_break(struct duo *d, uint32_t conn, int reason)
{
    struct duo_conn *n = &d->conn[conn];
    if ((n->open & 1) != 0)
        snic_luna_closed(d->c, 0, conn, n->gen, reason, d->now);
    if ((n->open & 2) != 0)
        snic_luna_target_closed(d->t, n->handle, d->now);
    n->open = 0;
    n->paused = 0;
    n->resumed = 0;
    n->up.head = n->up.tail = n->down.head = n->down.tail = 0;
}

void duo_restart(struct duo *d, uint32_t srv_epoch)
{
    for (uint32_t i = 0; i < DUO_CONNS; i++)
        duo_break(d, i, SNIC_ECONNRESET);
    duo_target_end(d);
    d->requests = 0;
    d->k.srv_epoch = srv_epoch;
    duo_target(d);
}

void duo_check(struct duo *d)
{
    assert_int_equal(snic_luna_check(d->c), 0);
    assert_int_equal(snic_luna_target_check(d->t), 0);
}

/* ---- The store ---- */

static uint32_t duo_write(struct duo *d, const struct snic_ebs_request *q)
{
    struct duo_stored *b = &d->store[q->lba];
    assert_int_equal(q->count, 1);
    assert_true(q->kind == SNIC_EBS_DATA ? q->data != NULL : q->data == NULL);
    if (q->wver < d->fence)
        return SNIC_EBS_FENCED;
    if (q->wver <= b->wver)
        return q->wver == b->wver ? SNIC_EBS_OK : SNIC_EBS_SUPERSEDED;
    b->wver = q->wver;
    b->crc = q->data_crc;
    b->block_tag = q->block_tag;
    b->kind = q->kind;
    if (q->data != NULL)
        memcpy(b->data, q->data, SNIC_EBS_BLOCK_BYTES);
    return SNIC_EBS_OK;
}

static void duo_target_act(struct duo *d, const struct snic_luna_target_action *a)
{
    struct duo_conn *n = NULL;
    for (uint32_t i = 0; i < DUO_CONNS; i++)
        if ((d->conn[i].open & 2) != 0 && d->conn[i].handle == a->handle)
            n = &d->conn[i];
    if (a->type == SNIC_LUNA_TARGET_SEND) {
        if (n != NULL && !d->lost_down)
            pipe_put(d, &n->down, a->send);
        if (d->lends && d->lent < 256)
            d->lend[d->lent++] = a->send;
        else
            snic_luna_target_sent(d->t, a->send, d->now);
    } else if (a->type == SNIC_LUNA_TARGET_CLOSE) {
        d->target_closes++;
        d->target_reason = a->reason;
        if (n != NULL)
            n->open &= ~2;
    } else {
        assert_int_equal(a->type, SNIC_LUNA_TARGET_RESUME);
        if (n != NULL) {
            n->paused = 0;
            n->resumed = 1;
        }
    }
}

static void duo_read(struct duo *d, const struct snic_ebs_request *q)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    assert_true(q->count >= 1 && q->count <= SNIC_EBS_READ_BLOCKS);
    memset(blocks, 0, sizeof(blocks));
    for (uint32_t i = 0; i < q->count; i++) {
        const struct duo_stored *b = &d->store[q->lba + i];
        blocks[i].wver = b->wver;
        blocks[i].data_crc = b->crc;
        blocks[i].block_tag = b->block_tag;
        blocks[i].data = b->wver != 0 && b->kind == 0 ? b->data : NULL;
    }
    int r;
    while ((r = snic_luna_target_read_done(d->t, q, blocks, 1, d->now)) == SNIC_EAGAIN) {
        struct snic_luna_target_action a;
        uint32_t before = d->lent;
        duo_give_back(d);
        while (snic_luna_target_poll(d->t, &a, 1, d->now) == 1) {
            duo_target_act(d, &a);
            before += a.type == SNIC_LUNA_TARGET_SEND;
        }
        assert_true(before > 0);
    }
    assert_in_range(r, 0, 1);
}

static void duo_serve(struct duo *d, const struct snic_ebs_request *q)
{
    uint32_t status = d->status;
    assert_int_equal(q->vd_id, 7);
    assert_int_equal(q->seg_id, 70 + q->lba / 512);
    assert_int_equal(q->block, q->lba % 512);
    if (status == 0 && q->seg_gen < d->seg_gen)
        status = SNIC_EBS_STALE_GEN;
    if (status == 0 && q->op == SNIC_EBS_DO_READ) {
        duo_read(d, q);
        return;
    }
    if (q->op == SNIC_EBS_DO_FENCE) {
        d->fence = q->wver;
        status = 0;
    } else if (status == 0 && q->op == SNIC_EBS_DO_WRITE) {
        status = duo_write(d, q);
    }
    snic_luna_target_answer(d->t, q, status, q->data_crc, 500, d->now);
}

void duo_answer(struct duo *d)
{
    for (uint32_t i = 0; i < d->requests; i++)
        duo_serve(d, &d->request[i]);
    d->requests = 0;
}

static void duo_request(struct duo *d, const struct snic_ebs_request *q)
{
    if (!d->hold) {
        duo_serve(d, q);
        return;
    }
    assert_true(d->requests < DUO_REQUESTS);
    if (q->data != NULL) /* what is held keeps only that it had data */
        memcpy(d->store[q->lba].data, q->data, SNIC_EBS_BLOCK_BYTES);
    d->request[d->requests] = *q;
    if (q->data != NULL)
        d->request[d->requests].data = d->store[q->lba].data;
    d->requests++;
}

/* ---- Everybody acts ---- */

static void duo_up(struct duo *d, struct duo_conn *n)
{
    while (n->open == 3 && !n->paused) {
        struct snic_ebs_request q;
        size_t size = pipe_next(d, &n->up, d->split[0]), used;
        int r;
        if (size == 0 && !n->resumed)
            return;
        n->resumed = 0;
        do {
            r = snic_luna_target_recv(d->t, n->handle, n->up.bytes + n->up.head, size, &used, &q,
                                      d->now);
            assert_true(used <= size);
            n->up.head += used;
            n->up.got += used;
            size -= used;
            d->moved += used;
            if (r == 1)
                duo_request(d, &q);
        } while (r == 1);
        n->paused = r == SNIC_EAGAIN;
    }
}

static void duo_down(struct duo *d, uint32_t i)
{
    struct duo_conn *n = &d->conn[i];
    while (n->open == 3 && n->down.head < n->down.tail) {
        size_t size = pipe_next(d, &n->down, d->split[1]);
        (void)snic_luna_recv(d->c, 0, i, n->gen, n->down.bytes + n->down.head, size, d->now);
        n->down.head += size;
        n->down.got += size;
        d->moved += size;
    }
}

static void duo_connect(struct duo *d, const struct snic_ebs_action *a)
{
    struct duo_conn *n = &d->conn[a->path];
    if ((n->open & 2) != 0) { /* the server has not noticed yet; it will not hear of this again */
        snic_luna_target_closed(d->t, n->handle, d->now);
        n->open &= ~2;
    }
    n->gen = a->gen;
    n->open = 0;
    n->paused = 0;
    n->resumed = 0;
    n->up.head = n->up.tail = n->down.head = n->down.tail = 0;
    n->up.put = n->up.got = n->down.put = n->down.got = 0;
    if (d->refused || snic_luna_target_opened(d->t, &n->handle, d->now) != 0) {
        snic_luna_closed(d->c, 0, a->path, a->gen, SNIC_ECONNREFUSED, d->now);
        return;
    }
    n->open = 3;
    assert_int_equal(snic_luna_connected(d->c, 0, a->path, a->gen, d->now), 0);
}

static void duo_act(struct duo *d, const struct snic_ebs_action *a)
{
    struct duo_conn *n = &d->conn[a->path];
    d->acts[a->type]++;
    if (a->type == SNIC_EBS_ACT_SEND) {
        assert_int_equal(a->gen, n->gen);
        if (!d->lost_up)
            pipe_put(d, &n->up, a->send);
        if (d->keeps && d->kept < 256)
            d->keep[d->kept++] = a->send;
        else
            snic_luna_sent(d->c, a->send, d->now);
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        duo_connect(d, a);
    } else if (a->type == SNIC_EBS_ACT_CLOSE) {
        assert_int_equal(a->gen, n->gen);
        d->closes++;
        d->reason = a->reason;
        n->open &= ~1;
    } else if (a->type == SNIC_EBS_ACT_MAP && !d->mute) {
        d->maps++;
        assert_int_equal(snic_luna_map(d->c, 0, a->segment, 70 + a->segment, 0, d->seg_gen, d->now),
                         0);
    }
}

uint64_t duo_agent(struct duo *d)
{
    struct snic_ebs_action a;
    uint64_t acts = 0;
    while (snic_luna_poll(d->c, &a, 1, d->now) == 1 && ++acts < 100000)
        duo_act(d, &a);
    return acts;
}

void duo_keep_back(struct duo *d)
{
    while (d->kept > 0)
        snic_luna_sent(d->c, d->keep[--d->kept], d->now);
}

void duo_turn(struct duo *d)
{
    struct snic_luna_target_action b;
    uint64_t moved = d->moved, acts = 0;
    d->now += d->step;
    for (uint32_t i = 0; i < DUO_CONNS; i++) {
        if ((d->conn[i].open & 2) != 0)
            duo_up(d, &d->conn[i]);
        duo_down(d, i);
    }
    if (!d->lends)
        duo_give_back(d);
    while (snic_luna_target_poll(d->t, &b, 1, d->now) == 1 && ++acts < 100000)
        duo_target_act(d, &b);
    for (uint32_t i = 0; i < DUO_CONNS; i++)
        if (d->conn[i].open == 1) /* the network reports to the client that the server has closed */
            duo_break(d, i, SNIC_ECONNRESET);
    acts += duo_agent(d);
    assert_true(acts < 100000);
    duo_check(d);
    uint64_t due = snic_luna_deadline_ns(d->c);
    if (moved == d->moved && acts == 0 && due != SNIC_NEVER && !d->still)
        d->now = snic_max_u64(d->now, due);
}

int duo_until(struct duo *d, uint32_t dones, uint32_t turns)
{
    while (d->acts[SNIC_EBS_ACT_DONE] < dones && turns-- > 0)
        duo_turn(d);
    return d->acts[SNIC_EBS_ACT_DONE] == dones;
}

void duo_io(struct duo *d, struct snic_ebs_io *io, uint8_t op, uint64_t lba, uint32_t blocks,
            const struct snic_iov *iov, uint32_t pieces)
{
    memset(io, 0, sizeof(*io));
    io->op = op;
    io->lba = lba;
    io->blocks = blocks;
    io->iov = iov;
    io->iov_count = pieces;
    assert_int_equal(snic_luna_submit(d->c, io, d->now), 0);
}
