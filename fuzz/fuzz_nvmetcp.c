/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both halves of NVMe/TCP face to face, and a string of operations between them: commands, grants,
 * completions, time; bytes that are delivered in pieces of any size, in place or not, damaged, left
 * out, or made up, also with a right header digest; sends that are reported late,
 * ends. Both are checked after each operation.
 */
#include "snicstore/nvmetcp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIPE = 1 << 18, COMMANDS = 6, OPENS = 16, LENT = 32, DATA = 9000, GRANTS = 8 };

struct pipe {
    size_t head, tail;
    unsigned char bytes[PIPE];
};

struct open {
    uint32_t used, command, wanted, granted, to_host, connect;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    uint64_t now;
    struct snic_nvmetcp_target *t;
    struct snic_nvmetcp_host *h;
    size_t unsent[2];
    struct pipe pipe[2]; /* up, down */
    struct open open[OPENS];
    struct snic_nvmetcp_command c[COMMANDS];
    int busy[COMMANDS];
    struct snic_iov civ[COMMANDS][2];
    struct snic_iov lent[LENT];
    struct snic_iov grant[GRANTS][2];
    uint32_t grants;
    unsigned char host_data[COMMANDS][DATA];
    unsigned char target_data[DATA];
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static void check(struct fuzz *f)
{
    must(snic_nvmetcp_target_check(f->t) == 0 && snic_nvmetcp_host_check(f->h) == 0);
}

static void put(struct pipe *p, const void *data, size_t size)
{
    if (p->tail + size > PIPE) {
        memmove(p->bytes, p->bytes + p->head, p->tail - p->head);
        p->tail -= p->head;
        p->head = 0;
    }
    if (p->tail + size > PIPE)
        return; /* the connection is cut short, which is an input, too */
    memcpy(p->bytes + p->tail, data, size);
    p->tail += size;
}

static void output(struct fuzz *f, int target, uint32_t max)
{
    struct snic_iov iov[8];
    size_t bytes, sum = 0;
    uint32_t n = target ? snic_nvmetcp_target_output(f->t, iov, max, &bytes)
                        : snic_nvmetcp_host_output(f->h, iov, max, &bytes);
    for (uint32_t i = 0; i < n; i++) {
        put(&f->pipe[target], iov[i].base, iov[i].size);
        sum += iov[i].size;
    }
    must(n <= max && sum == bytes);
    f->unsent[target] += bytes;
}

static void sent(struct fuzz *f, int target, uint8_t part)
{
    size_t n = part == 255 ? f->unsent[target] : f->unsent[target] * part / 255;
    f->unsent[target] -= n;
    if (target)
        snic_nvmetcp_target_sent(f->t, n, f->now);
    else
        snic_nvmetcp_host_sent(f->h, n, f->now);
}

static void input(struct fuzz *f, int target, size_t most)
{
    struct pipe *p = &f->pipe[!target];
    size_t n = p->tail - p->head, used = 0;
    if (n > most)
        n = most;
    int r = target ? snic_nvmetcp_target_recv(f->t, p->bytes + p->head, n, &used, f->now)
                   : snic_nvmetcp_host_recv(f->h, p->bytes + p->head, n, &used, f->now);
    must(r == 0 || r == SNIC_ENOTCONN);
    int paused = target ? snic_nvmetcp_target_paused(f->t) : snic_nvmetcp_host_paused(f->h);
    must(used == n || paused);
    p->head += used;
}

static void in_place(struct fuzz *f, int target, size_t most)
{
    struct pipe *p = &f->pipe[!target];
    struct snic_iov iov[2];
    size_t done = 0, have = p->tail - p->head;
    uint32_t n =
        target ? snic_nvmetcp_target_want(f->t, iov, 2) : snic_nvmetcp_host_want(f->h, iov, 2);
    have = have > most ? most : have;
    for (uint32_t i = 0; i < n && done < have; i++) {
        size_t k = iov[i].size < have - done ? iov[i].size : have - done;
        memcpy(iov[i].base, p->bytes + p->head + done, k);
        done += k;
    }
    p->head += done;
    if (done > 0 && target)
        snic_nvmetcp_target_filled(f->t, done, f->now);
    else if (done > 0)
        snic_nvmetcp_host_filled(f->h, done, f->now);
}

/* ---- The owners ---- */

static void command(struct fuzz *f)
{
    uint8_t k = take(f) % COMMANDS, op = take(f), more = take(f);
    struct snic_nvmetcp_command *c = &f->c[k];
    if (f->busy[k])
        return;
    memset(c, 0, sizeof(*c));
    c->sqe[0] = (op & 7) == 7 ? 0x7f : op & 3;
    c->sqe[4] = op >> 4;
    c->size = (uint32_t)(more * (op & 8 ? 35 : 1));
    f->civ[k][0].base = f->host_data[k];
    f->civ[k][0].size = c->size / 3;
    f->civ[k][1].base = f->host_data[k] + c->size / 3;
    f->civ[k][1].size = c->size - c->size / 3;
    c->iov = f->civ[k];
    c->iov_count = 2;
    f->busy[k] = snic_nvmetcp_host_submit(f->h, c, f->now) == 0;
}

static void grant(struct fuzz *f, struct open *o)
{
    uint32_t size = 1 + take(f) * 20u;
    if (f->grants == GRANTS)
        return;
    if (size > o->wanted - o->granted)
        size = o->wanted - o->granted;
    struct snic_iov *v = f->grant[f->grants];
    v[0].base = f->target_data;
    v[0].size = size / 2;
    v[1].base = f->target_data + size / 2;
    v[1].size = size - size / 2;
    if (snic_nvmetcp_target_grant(f->t, o->command, v, 2, size, f->now) != 0)
        return;
    o->granted += size;
    f->grants++;
}

static void complete(struct fuzz *f, struct open *o)
{
    struct snic_nvmetcp_completion c = {.status = take(f) & 1 ? 0x4002 : 0};
    struct snic_nvmetcp_queue q = {.opts_size = sizeof(q), .entries = 6, .inline_max = 4096};
    c.credit = c.status;
    if (o->connect && c.status == 0) {
        q.flags = take(f) & 3;
        int r = snic_nvmetcp_target_connected(f->t, &q);
        must(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOTCONN);
    }
    while (c.cookie < LENT && f->lent[c.cookie].size != 0)
        c.cookie++;
    if (c.status == 0 && o->to_host > 0 && o->to_host <= DATA && c.cookie < LENT) {
        c.iov = &f->lent[c.cookie];
        c.iov_count = 1;
        c.size = o->to_host;
        f->lent[c.cookie].base = f->target_data;
        f->lent[c.cookie].size = o->to_host;
    }
    int e = snic_nvmetcp_target_complete(f->t, o->command, &c, f->now);
    must(e == 0 || e == SNIC_EBUSY || e == SNIC_ENOTCONN);
    if (e != 0 && c.size > 0)
        f->lent[c.cookie].size = 0;
    if (e != SNIC_EBUSY)
        o->used = 0;
}

static void target_events(struct fuzz *f)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_target_poll(f->t, &e, f->now) == 1) {
        if (e.type == SNIC_NVMETCP_SENT) {
            must(e.cookie < LENT && f->lent[e.cookie].size > 0);
            f->lent[e.cookie].size = 0;
        }
        if (e.type > SNIC_NVMETCP_COMMAND)
            continue;
        struct open *o = f->open;
        while (o->used)
            o++;
        must(o < f->open + OPENS);
        o->used = 1;
        o->command = e.command;
        o->wanted = e.wanted;
        o->granted = 0;
        o->to_host = e.to_host;
        o->connect = e.type == SNIC_NVMETCP_CONNECT;
        unsigned sum = 0;
        for (uint32_t i = 0; i < e.data_size; i++)
            sum += ((unsigned char *)e.data)[i];
        f->target_data[0] = (unsigned char)sum;
    }
}

static void host_events(struct fuzz *f)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_host_poll(f->h, &e, f->now) == 1) {
        if (e.type == SNIC_NVMETCP_DONE) {
            uint32_t k = (uint32_t)(e.req - f->c);
            must(k < COMMANDS && f->busy[k]);
            f->busy[k] = 0;
        }
    }
    /* The pieces of grants are reused when none can be in use. */
    struct snic_nvmetcp_stats s;
    snic_nvmetcp_target_stats(f->t, &s);
    if (s.grants == 0)
        f->grants = 0;
}

static void damage(struct fuzz *f)
{
    uint8_t which = take(f), at = take(f), value = take(f);
    struct pipe *p = &f->pipe[which & 1];
    size_t n = p->tail - p->head;
    unsigned char *b = p->bytes + p->head;
    if (n == 0)
        return;
    if ((which & 2) != 0 && n > 4) { /* left out */
        p->head += at % n;
        return;
    }
    b[at % n] ^= value;
    if ((which & 4) != 0 && n >= b[2] + 4u && b[2] >= 8) /* a header: with a right digest */
        snic_put_le32(b + b[2], snic_crc32c(0, b, b[2]));
}

/* A PDU of the input's making. */
static void invent(struct fuzz *f)
{
    unsigned char b[256], sqe[64] = {0};
    uint8_t type = take(f), flags = take(f);
    struct snic_nvmetcp_params p = {flags & 3, (flags >> 2) & 1 ? 3 : 0, type & 1, 0};
    struct snic_nvmetcp_pdu pdu = {.type = type % 10, .flags = flags, .capsule = sqe};
    p.to_host = pdu.type == 9 || (pdu.type & 1) != 0;
    pdu.cccid = take(f);
    pdu.ttag = take(f);
    pdu.offset = take(f) * 16u;
    pdu.length = take(f) * 16u;
    pdu.limit = 4096;
    pdu.digests = flags & 3;
    sqe[0] = take(f);
    sqe[1] = 0x40;
    sqe[39] = (flags & 16) != 0 ? 1 : 0x5a;
    snic_put_le32(sqe + 32, pdu.length);
    if (pdu.type == 4 || pdu.type == 6 || pdu.type == 7)
        pdu.data_size = pdu.length;
    int n = snic_nvmetcp_encode(b, &pdu, &p);
    must(n > 0 || pdu.type == 8);
    if (n <= 0)
        return;
    put(&f->pipe[p.to_host], b, (size_t)n);
    put(&f->pipe[p.to_host], f->host_data[0], pdu.plen - (uint32_t)n);
}

static void step(struct fuzz *f)
{
    uint8_t op = take(f), n;
    struct open *o = &f->open[(op >> 4) % OPENS];
    switch (op & 15) {
    case 0:
    case 1:
        output(f, op & 1, 1 + take(f) % 8);
        break;
    case 2:
    case 3:
        sent(f, op & 1, take(f));
        break;
    case 4:
    case 5:
        n = take(f);
        input(f, op & 1, n == 255 ? PIPE : n);
        break;
    case 6:
        in_place(f, (op >> 4) & 1, 1 + take(f) * 8u);
        break;
    case 7:
        command(f);
        break;
    case 8:
        if (o->used && o->granted < o->wanted)
            grant(f, o);
        break;
    case 9:
        if (o->used)
            complete(f, o);
        break;
    case 10:
        damage(f);
        break;
    case 11:
        invent(f);
        break;
    case 12:
        f->now += (uint64_t)take(f) * take(f) * 10;
        break;
    case 13:
        n = take(f);
        if (n < 8)
            snic_nvmetcp_host_end(f->h, SNIC_ECANCELED, f->now);
        else if (n < 16)
            snic_nvmetcp_target_end(f->t, SNIC_ECANCELED, n & 1, f->now);
        else if (n < 20)
            snic_nvmetcp_target_closed(f->t, f->now);
        else
            snic_nvmetcp_host_inline(f->h, n * 16u);
        break;
    case 14:
        target_events(f);
        host_events(f);
        break;
    default: /* a round of all */
        for (int k = 0; k < 2; k++) {
            output(f, k, 8);
            sent(f, k, 255);
            input(f, !k, PIPE);
        }
        target_events(f);
        host_events(f);
        break;
    }
    check(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    static _Alignas(SNIC_NVMETCP_ALIGN) unsigned char tmem[1 << 17], hmem[1 << 15];
    struct snic_nvmetcp_target_opts to = {.opts_size = sizeof(to), .depth_max = 6};
    struct snic_nvmetcp_host_opts ho = {.opts_size = sizeof(ho), .entries = 6};
    memset(&f, 0, offsetof(struct fuzz, pipe));
    memset(f.open, 0, offsetof(struct fuzz, host_data) - offsetof(struct fuzz, open));
    f.pipe[0].head = f.pipe[0].tail = f.pipe[1].head = f.pipe[1].tail = 0;
    f.in = data;
    f.left = size;
    uint8_t a = take(&f), b = take(&f);
    to.inline_buffers = 1 + (a & 1);
    to.inline_max = 4096;
    to.grants_max = 1 + (a >> 1 & 3);
    to.r2ts_max = 1 + (a >> 3 & 3);
    to.h2c_max = 4096;
    to.cpda = a >> 5;
    to.transfer_max = DATA;
    to.data_ns = 100000;
    ho.digests = b & 3;
    ho.r2ts_max = 1 + (b >> 2 & 3);
    ho.hpda = b >> 4 & 7;
    ho.flags = b >> 7;
    ho.transfer_max = DATA;
    must(snic_nvmetcp_target_init(&f.t, tmem, sizeof(tmem), &to, 0) == 0);
    must(snic_nvmetcp_host_init(&f.h, hmem, sizeof(hmem), &ho, 0) == 0);
    while (f.left > 0)
        step(&f);
    snic_nvmetcp_host_closed(f.h, f.now);
    snic_nvmetcp_target_closed(f.t, f.now);
    target_events(&f);
    host_events(&f);
    for (uint32_t i = 0; i < COMMANDS; i++)
        must(!f.busy[i]);
    (void)snic_nvmetcp_host_fini(f.h);
    (void)snic_nvmetcp_target_fini(f.t);
    return 0;
}
