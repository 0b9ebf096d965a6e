/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmetcp_util.h"

#include <stdlib.h>

const struct snic_nvmetcp_params plain = {0, 0, 0, 0};

/* ---- Two sides ---- */

void duo_opts(struct duo *d)
{
    memset(d, 0, offsetof(struct duo, up));
    d->up.head = d->up.tail = d->up.gone = 0;
    d->down.head = d->down.tail = d->down.gone = 0;
    d->to.opts_size = sizeof(d->to);
    d->to.depth_max = 16;
    d->to.inline_max = 8192;
    d->to.inline_buffers = 4;
    d->to.h2c_max = 8192;
    d->ho.opts_size = sizeof(d->ho);
    d->ho.entries = 16;
    d->queue.opts_size = sizeof(d->queue);
    d->queue.entries = 16;
    d->queue.inline_max = 8192;
    d->output_iovs = 16;
    d->now = 1000;
    for (size_t i = 0; i < sizeof(d->disk); i++)
        d->disk[i] = (unsigned char)(i * 7 + (i >> 8));
}

void duo_open(struct duo *d)
{
    size_t size = snic_nvmetcp_target_memsize(&d->to);
    assert_true(size > 0);
    d->tmem = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    assert_int_equal(snic_nvmetcp_target_init(&d->t, d->tmem, size, &d->to, d->now), 0);
    size = snic_nvmetcp_host_memsize(&d->ho);
    assert_true(size > 0);
    d->hmem = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    assert_int_equal(snic_nvmetcp_host_init(&d->h, d->hmem, size, &d->ho, d->now), 0);
}

void duo_close(struct duo *d)
{
    struct snic_nvmetcp_event e;
    snic_nvmetcp_host_end(d->h, SNIC_ECONNABORTED, d->now);
    while (snic_nvmetcp_host_poll(d->h, &e, d->now) == 1)
        continue;
    support_guard_free(snic_nvmetcp_target_fini(d->t));
    support_guard_free(snic_nvmetcp_host_fini(d->h));
}

void duo_check(const struct duo *d)
{
    assert_int_equal(snic_nvmetcp_target_check(d->t), 0);
    assert_int_equal(snic_nvmetcp_host_check(d->h), 0);
}

void pipe_put(struct pipe *p, const void *data, size_t size)
{
    if (p->tail + size > DUO_BYTES) {
        memmove(p->bytes, p->bytes + p->head, p->tail - p->head);
        p->tail -= p->head;
        p->gone += p->head;
        p->head = 0;
    }
    assert_true(p->tail + size <= DUO_BYTES);
    memcpy(p->bytes + p->tail, data, size);
    p->tail += size;
}

static size_t pipe_size(const struct duo *d, const struct pipe *p)
{
    size_t n = p->tail - p->head, split = d->split[p == &d->down];
    uint64_t at = p->gone + p->head;
    if (d->rng != NULL && n > 0)
        n = 1 + snic_rng_below(d->rng, snic_rng_below(d->rng, 3) == 0 ? snic_min_u64(n, 200) : n);
    if (split > at && split - at < n)
        n = split - at;
    return d->cut > 0 && n > d->cut ? d->cut : n;
}

static void duo_sent(struct duo *d, int target, size_t bytes)
{
    d->unsent[target] -= bytes;
    if (target)
        snic_nvmetcp_target_sent(d->t, bytes, d->now);
    else
        snic_nvmetcp_host_sent(d->h, bytes, d->now);
}

int duo_idle(const struct duo *d)
{
    return d->up.head == d->up.tail && d->down.head == d->down.tail && d->unsent[0] == 0 &&
           d->unsent[1] == 0;
}

static size_t duo_output_of(struct duo *d, int target)
{
    struct snic_iov iov[64];
    size_t bytes = 0, all = 0;
    struct pipe *p = target ? &d->down : &d->up;
    if (d->rng != NULL) {
        d->output_iovs = 1 + (uint32_t)snic_rng_below(d->rng, 20);
        d->zero_copy = (int)snic_rng_below(d->rng, 2);
    }
    for (;;) {
        uint32_t n = target ? snic_nvmetcp_target_output(d->t, iov, d->output_iovs, &bytes)
                            : snic_nvmetcp_host_output(d->h, iov, d->output_iovs, &bytes);
        size_t sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            assert_true(iov[i].size > 0);
            pipe_put(p, iov[i].base, iov[i].size);
            sum += iov[i].size;
        }
        assert_int_equal(sum, bytes);
        if (n == 0)
            break;
        all += bytes;
        d->unsent[target] += bytes;
        if (d->rng == NULL)
            duo_sent(d, target, bytes);
        else if (snic_rng_below(d->rng, 4) == 0)
            break;
    }
    if (d->unsent[target] > 0) { /* the socket reports later than the peer receives */
        bytes = snic_rng_below(d->rng, d->unsent[target] + 1);
        duo_sent(d, target, snic_rng_below(d->rng, 2) == 0 ? d->unsent[target] : bytes);
        all++;
    }
    return all;
}

void duo_output(struct duo *d)
{
    (void)duo_output_of(d, 0);
    (void)duo_output_of(d, 1);
}

/* Bytes that belong into buffers go there without recv. */
static size_t duo_filled(struct duo *d, int target, struct pipe *p, size_t size)
{
    struct snic_iov iov[3];
    uint32_t n =
        target ? snic_nvmetcp_target_want(d->t, iov, 3) : snic_nvmetcp_host_want(d->h, iov, 3);
    size_t done = 0;
    for (uint32_t i = 0; i < n && done < size; i++) {
        size_t k = snic_min_u64(iov[i].size, size - done);
        memcpy(iov[i].base, p->bytes + p->head + done, k);
        done += k;
    }
    if (done > 0 && target)
        snic_nvmetcp_target_filled(d->t, done, d->now);
    else if (done > 0)
        snic_nvmetcp_host_filled(d->h, done, d->now);
    p->head += done;
    return done;
}

static size_t duo_input(struct duo *d)
{
    size_t used = 0, n = pipe_size(d, &d->up), moved = 0;
    if (d->zero_copy && n > 0)
        moved += duo_filled(d, 1, &d->up, n);
    n = pipe_size(d, &d->up);
    if (n > 0) {
        (void)snic_nvmetcp_target_recv(d->t, d->up.bytes + d->up.head, n, &used, d->now);
        d->up.head += used;
        assert_true(used == n || snic_nvmetcp_target_paused(d->t));
    }
    moved += used;
    n = pipe_size(d, &d->down);
    if (d->zero_copy && n > 0)
        moved += duo_filled(d, 0, &d->down, n);
    n = pipe_size(d, &d->down);
    if (n > 0) {
        (void)snic_nvmetcp_host_recv(d->h, d->down.bytes + d->down.head, n, &used, d->now);
        assert_true(used == n || snic_nvmetcp_host_paused(d->h));
        d->down.head += used;
        moved += used;
    }
    return moved;
}

static struct duo_open *duo_find(struct duo *d, uint32_t command)
{
    for (uint32_t i = 0; i < DUO_OPEN; i++)
        if (d->open[i].used && d->open[i].command == command)
            return &d->open[i];
    return NULL;
}

static void duo_take(struct duo *d, const struct snic_nvmetcp_event *e)
{
    struct duo_open *o = d->open;
    while (o->used)
        o++;
    assert_true(o < d->open + DUO_OPEN);
    memset(o, 0, sizeof(*o));
    o->used = 1;
    o->command = e->command;
    memcpy(o->sqe, e->sqe, 64);
    o->wanted = e->wanted;
    o->to_host = e->to_host;
    o->data = e->data;
    o->data_size = e->data_size;
    d->opens++;
}

static void duo_finish(struct duo *d, struct duo_open *o, struct snic_nvmetcp_completion *c)
{
    int r = snic_nvmetcp_target_complete(d->t, o->command, c, d->now);
    assert_true(r == 0 || r == SNIC_ENOTCONN);
    o->used = 0;
    d->opens--;
}

/* The next grant. The disk itself is lent, in three pieces. @return 1: granted */
static int duo_grant(struct duo *d, struct duo_open *o)
{
    uint32_t at = snic_get_le32(o->sqe + 40) + o->granted, slot = 0;
    uint32_t n = o->wanted - o->granted;
    if (d->grant_bytes > 0 && n > d->grant_bytes)
        n = d->grant_bytes;
    if (o->grants >= DUO_GRANTS)
        return 0;
    while (o->iov[slot][0].base != NULL)
        slot++;
    struct snic_iov *v = o->iov[slot];
    v[0].base = d->disk + at;
    v[0].size = n / 3;
    v[1].base = d->disk + at + n / 3;
    v[1].size = 0;
    v[2].base = d->disk + at + n / 3;
    v[2].size = n - n / 3;
    int r = snic_nvmetcp_target_grant(d->t, o->command, v, 3, n, d->now);
    if (r != 0) {
        v[0].base = NULL;
        assert_true(r == SNIC_EAGAIN || r == SNIC_ENOTCONN);
        return 0;
    }
    o->granted += n;
    o->grants++;
    return 1;
}

int duo_execute(struct duo *d, struct duo_open *o)
{
    struct snic_nvmetcp_completion c = {.cookie = 0};
    uint32_t at = snic_get_le32(o->sqe + 40);
    if (o->sqe[0] == 0x7f && o->sqe[4] == 1)
        assert_int_equal(snic_nvmetcp_target_connected(d->t, &d->queue), 0);
    if (o->granted < o->wanted && o->error == 0)
        return duo_grant(d, o);
    if (o->arrived < o->granted)
        return 0;
    if (o->data != NULL && o->sqe[0] == 1)
        memcpy(d->disk + at, o->data, o->data_size);
    if (o->to_host > 0) {
        while (d->out[c.cookie].base != NULL)
            c.cookie++;
        assert_true(c.cookie < DUO_OPEN);
        d->out[c.cookie].base = d->disk + at;
        d->out[c.cookie].size = o->to_host;
        c.iov = &d->out[c.cookie];
        c.iov_count = 1;
        c.size = o->to_host;
    }
    duo_finish(d, o, &c);
    return 1;
}

void duo_events(struct duo *d)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_target_poll(d->t, &e, d->now) == 1) {
        struct duo_open *o;
        switch (e.type) {
        case SNIC_NVMETCP_CONNECT:
        case SNIC_NVMETCP_FABRICS:
        case SNIC_NVMETCP_COMMAND:
            duo_take(d, &e);
            break;
        case SNIC_NVMETCP_DATA_IN:
            o = duo_find(d, e.command);
            assert_non_null(o);
            o->arrived += e.data_size;
            o->grants--;
            for (uint32_t i = 0; i < DUO_GRANTS; i++)
                if (o->iov[i][0].base == d->disk + snic_get_le32(o->sqe + 40) + e.offset)
                    o->iov[i][0].base = NULL;
            if (e.reason != 0)
                o->error = e.reason;
            assert_int_equal(e.all, o->arrived == o->wanted);
            break;
        case SNIC_NVMETCP_SENT:
            d->sent++;
            assert_true(e.cookie < DUO_OPEN && d->out[e.cookie].base != NULL);
            d->out[e.cookie].base = NULL;
            break;
        case SNIC_NVMETCP_TERM:
            d->t_term++;
            d->t_last = e;
            break;
        default:
            assert_int_equal(e.type, SNIC_NVMETCP_ENDED);
            d->t_ended++;
            d->t_last = e;
            break;
        }
    }
    while (snic_nvmetcp_host_poll(d->h, &e, d->now) == 1) {
        d->ready += e.type == SNIC_NVMETCP_READY;
        d->done += e.type == SNIC_NVMETCP_DONE;
        d->h_term += e.type == SNIC_NVMETCP_TERM;
        d->h_ended += e.type == SNIC_NVMETCP_ENDED;
        if (e.type == SNIC_NVMETCP_DONE)
            e.req->state = 1;
        if (e.type == SNIC_NVMETCP_TERM || e.type == SNIC_NVMETCP_ENDED)
            d->h_last = e;
    }
}

int duo_round(struct duo *d)
{
    int moved = duo_output_of(d, 0) > 0;
    moved |= duo_output_of(d, 1) > 0;
    duo_check(d);
    moved |= duo_input(d) > 0;
    duo_check(d);
    duo_events(d);
    duo_check(d);
    for (uint32_t i = 0; i < DUO_OPEN && !d->hold; i++)
        if (d->open[i].used)
            moved |= duo_execute(d, &d->open[i]);
    return moved;
}

void duo_run(struct duo *d)
{
    while (duo_round(d))
        continue;
}

void duo_command(struct snic_nvmetcp_command *c, uint8_t op, uint32_t at, struct snic_iov *iov,
                 uint32_t iovs)
{
    memset(c, 0, sizeof(*c));
    c->sqe[0] = op;
    snic_put_le32(c->sqe + 40, at);
    c->iov = iov;
    c->iov_count = iovs;
    for (uint32_t i = 0; i < iovs; i++)
        c->size += (uint32_t)iov[i].size;
}

void duo_submit(struct duo *d, struct snic_nvmetcp_command *c)
{
    c->state = 0;
    assert_int_equal(snic_nvmetcp_host_submit(d->h, c, d->now), 0);
}

void duo_connect(struct duo *d)
{
    static unsigned char data[1024];
    struct snic_iov iov = {data, sizeof(data)};
    struct snic_nvmetcp_command c;
    int hold = d->hold;
    d->hold = 0;
    duo_run(d);
    assert_int_equal(d->ready, 1);
    snic_nvmetcp_host_inline(d->h, 8192);
    duo_command(&c, 0x7f, 0, &iov, 1);
    c.sqe[4] = 1;
    duo_submit(d, &c);
    duo_run(d);
    assert_true(c.state == 1 && c.error == 0 && c.status == 0);
    snic_nvmetcp_host_inline(d->h, d->host_inline);
    d->done = 0;
    d->hold = hold;
}

/* ---- A target alone ---- */

void solo_open(struct solo *s)
{
    s->o.opts_size = sizeof(s->o);
    if (s->o.depth_max == 0) {
        s->o.depth_max = 4;
        s->o.inline_buffers = 2;
    }
    size_t size = snic_nvmetcp_target_memsize(&s->o);
    s->mem = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    s->now = 1000;
    s->out_size = 0;
    assert_int_equal(snic_nvmetcp_target_init(&s->t, s->mem, size, &s->o, s->now), 0);
}

void solo_close(struct solo *s)
{
    support_guard_free(snic_nvmetcp_target_fini(s->t));
    memset(s, 0, sizeof(*s));
}

void solo_output(struct solo *s)
{
    struct snic_iov iov[8];
    size_t bytes;
    uint32_t n;
    while ((n = snic_nvmetcp_target_output(s->t, iov, 8, &bytes)) > 0) {
        for (uint32_t i = 0; i < n; i++) {
            assert_true(s->out_size + iov[i].size <= sizeof(s->out));
            memcpy(s->out + s->out_size, iov[i].base, iov[i].size);
            s->out_size += iov[i].size;
        }
        snic_nvmetcp_target_sent(s->t, bytes, s->now);
    }
    assert_int_equal(snic_nvmetcp_target_check(s->t), 0);
}

size_t solo_feed(struct solo *s, const void *data, size_t size)
{
    size_t used;
    (void)snic_nvmetcp_target_recv(s->t, data, size, &used, s->now);
    assert_int_equal(snic_nvmetcp_target_check(s->t), 0);
    solo_output(s);
    return used;
}

void solo_greet(struct solo *s, uint8_t digests, uint8_t hpda, uint32_t maxr2t)
{
    unsigned char b[SNIC_NVMETCP_HEADER_MAX];
    struct snic_nvmetcp_params none = {0, 0, 0, 0}, back = {0, 0, 1, 0};
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_ICREQ, .digests = digests, .pda = hpda};
    pdu.limit = maxr2t;
    assert_int_equal(snic_nvmetcp_encode(b, &pdu, &none), 128);
    assert_int_equal(solo_feed(s, b, 128), 128);
    assert_int_equal(s->out_size, 128);
    assert_int_equal(snic_nvmetcp_decode(&pdu, &back, s->out, 128), 0);
    assert_int_equal(pdu.type, SNIC_NVMETCP_ICRESP);
    assert_int_equal(pdu.digests, digests & ~s->o.digests);
    assert_int_equal(pdu.pda, s->o.cpda);
    s->out_size = 0;
}

size_t solo_capsule(unsigned char *out, const struct snic_nvmetcp_params *p,
                    const unsigned char sqe[64], const void *data, uint32_t size)
{
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_CAPSULE_CMD, .capsule = sqe};
    pdu.data_size = size;
    size_t n = (size_t)snic_nvmetcp_encode(out, &pdu, p);
    memset(out + n, 0, pdu.pad_size);
    n += pdu.pad_size;
    if (size > 0)
        memcpy(out + n, data, size);
    n += size;
    if (size > 0 && (p->digests & SNIC_NVMETCP_DDGST) != 0) {
        snic_put_le32(out + n, snic_crc32c(0, data, size));
        n += 4;
    }
    assert_int_equal(n, pdu.plen);
    return n;
}

void solo_connect(struct solo *s, const struct snic_nvmetcp_params *p, uint32_t entries,
                  uint32_t flags)
{
    static unsigned char b[2048], data[1024];
    unsigned char sqe[64] = {0x7f, 0x40, 1, 0, 1};
    struct snic_nvmetcp_queue q = {.opts_size = sizeof(q), .flags = flags, .entries = entries};
    struct snic_nvmetcp_completion c;
    q.inline_max = s->o.inline_max == 0 ? 8192 : s->o.inline_max;
    snic_put_le32(sqe + 32, 1024);
    sqe[39] = 1;
    size_t n = solo_capsule(b, p, sqe, data, 1024);
    assert_int_equal(solo_feed(s, b, n), n);
    struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_CONNECT);
    assert_int_equal(e.data_size, 1024);
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), 0);
    memset(&c, 0, sizeof(c));
    assert_int_equal(snic_nvmetcp_target_complete(s->t, e.command, &c, s->now), 0);
    solo_output(s);
    assert_int_equal(s->out_size, 24 + ((p->digests & SNIC_NVMETCP_HDGST) != 0 ? 4 : 0));
    assert_int_equal(snic_get_le16(s->out + 16),
                     (flags & SNIC_NVMETCP_NO_SQ_FLOW) != 0 ? 0xffff : 1);
    s->out_size = 0;
}

void solo_expect_term(struct solo *s, uint16_t fes, uint32_t fei)
{
    struct snic_nvmetcp_params back = {0, 0, 1, 0};
    struct snic_nvmetcp_pdu pdu;
    struct snic_nvmetcp_event e;
    assert_true(s->out_size >= 24);
    assert_int_equal(snic_nvmetcp_decode(&pdu, &back, s->out, s->out_size), 0);
    assert_int_equal(pdu.type, SNIC_NVMETCP_C2H_TERM);
    assert_int_equal(pdu.plen, s->out_size);
    assert_int_equal(pdu.fes, fes);
    assert_int_equal(pdu.fei, fei);
    e = solo_event(s, SNIC_NVMETCP_TERM);
    assert_true(e.fes == fes && e.fei == fei && e.reason == SNIC_EPROTO && !e.from_peer);
    solo_none(s);
    s->out_size = 0;
}

struct snic_nvmetcp_event solo_event(struct solo *s, uint32_t type)
{
    struct snic_nvmetcp_event e = {.type = 0};
    assert_int_equal(snic_nvmetcp_target_poll(s->t, &e, s->now), 1);
    assert_int_equal(e.type, type);
    assert_int_equal(snic_nvmetcp_target_check(s->t), 0);
    return e;
}

void solo_none(struct solo *s)
{
    struct snic_nvmetcp_event e;
    assert_int_equal(snic_nvmetcp_target_poll(s->t, &e, s->now), 0);
}

void solo_up(struct solo *s, uint32_t flags)
{
    solo_open(s);
    solo_greet(s, 0, 0, 0);
    solo_connect(s, &plain, 4, flags);
}

uint32_t solo_command(struct solo *s, uint16_t cid)
{
    unsigned char b[128], sqe[64] = {0, 0x40};
    snic_put_le16(sqe + 2, cid);
    size_t n = solo_capsule(b, &plain, sqe, NULL, 0);
    assert_int_equal(solo_feed(s, b, n), n);
    return solo_event(s, SNIC_NVMETCP_COMMAND).command;
}

uint32_t solo_write(struct solo *s, uint32_t size)
{
    unsigned char b[128], sqe[64] = {1, 0x40, 1, 2};
    snic_put_le32(sqe + 32, size);
    sqe[39] = 0x5a;
    size_t n = solo_capsule(b, &plain, sqe, NULL, 0);
    assert_int_equal(solo_feed(s, b, n), n);
    struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_COMMAND);
    assert_int_equal(e.wanted, size);
    assert_int_equal(s->out_size, 0); /* no R2T before a grant */
    return e.command;
}

void fill(unsigned char *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)((i * 31) ^ (i >> 9) ^ seed);
}
