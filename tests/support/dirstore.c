/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The toy store: its records, its offload functions, its host, and the same as a net server. */
#include "dirfix_priv.h"

#include <stdlib.h>

/* ---- Records: magic, crc of the rest, version, key, there, value, hash; the value's bytes ---- */

enum { RECORD = 40, MAGIC = 0x44524543 };

struct item {
    uint64_t file;
    uint64_t offset;
    uint32_t size;
    uint32_t key;
};
SNIC_STATIC_ASSERT(sizeof(struct item) == 24, "size stated in the options");

uint64_t dirfix_hash(const struct dirfix *f, uint16_t key)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (f->o.collide ? key / 2u + 1u : key + 1u);
}

static uint32_t record_make(const struct dirfix *f, unsigned char *to, uint16_t key,
                            uint64_t version, uint32_t value)
{
    uint32_t n = dirfix_value_size(value);
    memset(to, 0, RECORD);
    snic_put_le32(to, MAGIC);
    snic_put_le64(to + 8, version);
    snic_put_le16(to + 16, key);
    snic_put_le32(to + 20, value);
    snic_put_le64(to + 24, dirfix_hash(f, key));
    snic_put_le32(to + 32, n);
    dirfix_value(to + RECORD, value);
    snic_put_le32(to + 4, snic_crc32c(0, to + 8, RECORD - 8 + n));
    return RECORD + n;
}

/* ---- The offload functions ---- */

int dirfix_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct dirfix *f = ctx;
    struct dirfix_msg m;
    struct item it;
    uint64_t version = 0;
    (void)reply;
    dirfix_decode(&m, msg->data);
    uint32_t n = m.op == DIRFIX_GET ? 1 : m.arg;
    uint32_t total = DIRFIX_HEAD;
    if (n == 0 || n > SNIC_OFFLOAD_PARTS_MAX)
        return SNIC_ENOENT;
    for (uint32_t i = out->part == 0 ? 0 : out->part; i < n; i++) {
        uint64_t hash = dirfix_hash(f, (uint16_t)(m.key + i));
        if (snic_offload_get(o, &hash, &it, NULL) != 0)
            return SNIC_ENOENT;
        total += it.size - RECORD + (m.op == DIRFIX_MGET ? 8 : 0);
    }
    uint64_t hash = dirfix_hash(f, (uint16_t)(m.key + out->part));
    assert_int_equal(snic_offload_get(o, &hash, &it, &version), 0);
    out->file = it.file;
    out->offset = it.offset;
    out->size = it.size;
    memcpy(out->context, &version, 8);
    memcpy(out->context + 8, &total, 4);
    return out->part + 1 < n ? 2 : 0;
}

enum snic_offload_verdict dirfix_judge(void *ctx, const struct snic_offload_msg *msg,
                                       const struct snic_offload_read *op,
                                       const unsigned char *data, int64_t result, uint64_t now_ns,
                                       struct snic_offload_reply *out)
{
    struct dirfix *f = ctx;
    struct dirfix_msg m;
    uint64_t version;
    uint32_t total;
    (void)now_ns;
    dirfix_decode(&m, msg->data);
    memcpy(&version, op->context, 8);
    memcpy(&total, op->context + 8, 4);
    f->dpu_reads++;
    if (result < RECORD)
        return SNIC_OFFLOAD_HOST;
    uint32_t n = snic_get_le32(data + 32);
    if (snic_get_le32(data) != MAGIC || n > (uint64_t)result - RECORD)
        n = 0;
    int same = n == op->size - RECORD && snic_get_le16(data + 16) == m.key + op->part &&
               snic_get_le64(data + 8) == version &&
               snic_get_le32(data + 4) == snic_crc32c(0, data + 8, RECORD - 8 + n);
    if (!same)
        f->mismatches++;
    if (!same && !(f->o.broken & DIRFIX_NO_R6)) /* R6 */
        return SNIC_OFFLOAD_HOST;
    struct dirfix_msg r = {.size = total,
                           .op = DIRFIX_OK,
                           .arg = DIRFIX_BY_DPU,
                           .key = m.key,
                           .id = m.id,
                           .value = snic_get_le32(data + 20)};
    if (m.op == DIRFIX_GET) {
        r.size = DIRFIX_HEAD + n;
        dirfix_encode(out->header, &r);
        out->header_size = DIRFIX_HEAD;
    } else {
        if (op->part == 0) {
            r.value = m.arg;
            dirfix_encode(out->header, &r);
            out->header_size = DIRFIX_HEAD;
        }
        snic_put_le32(out->header + out->header_size, snic_get_le32(data + 20));
        snic_put_le32(out->header + out->header_size + 4, n);
        out->header_size += 8;
    }
    out->skip = RECORD;
    out->take = n;
    return SNIC_OFFLOAD_SEND;
}

/* ---- Writing records to the device, as the host does through the file service ---- */

struct flush {
    struct snic_files_req req;
    struct snic_loop_msg at_dpu;
    struct snic_loop_msg at_host;
    struct dirfix *f;
    uint32_t gen;
    uint16_t key;
    uint8_t fails;
    uint64_t version;
    struct item item;
    unsigned char bytes[];
};

static void flush_put(struct flush *fl)
{
    struct dirfix *f = fl->f;
    uint64_t hash = dirfix_hash(f, fl->key);
    if (f->offload == NULL)
        return;
    if (f->o.broken & DIRFIX_NO_R2) { /* whatever was there is replaced */
        snic_offload_forget(f->offload, &hash, UINT64_MAX);
        (void)snic_offload_cache(f->offload, &hash, &fl->item, fl->version);
    } else {
        (void)snic_offload_put(f->offload, &hash, &fl->item, fl->version);
    }
}

static void host_written(struct dirfix *f, uint16_t key, uint64_t version, uint64_t offset,
                         int failed);

static void flush_reported(struct snic_loop_msg *m)
{
    struct flush *fl = SNIC_CONTAINER(m, struct flush, at_host);
    if (fl->gen == fl->f->host_gen)
        host_written(fl->f, fl->key, fl->version, fl->item.offset, fl->fails);
    free(fl);
}

static void flush_done(struct snic_files_req *r)
{
    struct flush *fl = SNIC_CONTAINER(r, struct flush, req);
    struct dirfix *f = fl->f;
    assert_true(r->result > 0);
    if (!fl->fails && !(f->o.broken & DIRFIX_NO_R3))
        flush_put(fl); /* cache-on-write: the hook of the file service */
    fl->at_host.fn = flush_reported;
    snic_loop_post(f->host, &fl->at_host);
}

static void flush_start(struct snic_loop_msg *m)
{
    struct flush *fl = SNIC_CONTAINER(m, struct flush, at_dpu);
    struct snic_files_req *r = &fl->req;
    if (fl->f->o.broken & DIRFIX_NO_R3)
        flush_put(fl);
    r->done = flush_done;
    r->op = SNIC_FILES_WRITE;
    r->file = fl->item.file;
    r->offset = fl->item.offset;
    r->length = fl->item.size;
    r->buf.base = fl->bytes;
    r->buf.size = fl->item.size;
    r->region = SNIC_NO_REGION;
    snic_files_submit(fl->f->files, &r, 1);
}

void dirfix_flush(struct dirfix *f, uint16_t key)
{
    struct dirfix_key *k = &f->keys[key];
    if (k->flushing || !k->there || k->device_version == k->version)
        return;
    struct flush *fl = calloc(1, sizeof(*fl) + RECORD + dirfix_value_size(k->value));
    assert_non_null(fl);
    fl->f = f;
    fl->gen = f->host_gen;
    fl->key = key;
    fl->version = k->version;
    fl->item.file = f->file;
    fl->item.key = key;
    fl->item.size = record_make(f, fl->bytes, key, k->version, k->value);
    fl->fails = f->o.sync && snic_rng_below(&f->rng, 5) == 0;
    if ((f->o.broken & DIRFIX_NO_R5) && f->file_end > 4200)
        f->file_end = 4096; /* space is used again at once */
    fl->item.offset = f->file_end;
    f->file_end += fl->item.size;
    k->flushing = 1;
    fl->at_dpu.fn = flush_start;
    snic_loop_post(f->dpu, &fl->at_dpu);
}

void dirfix_flush_all(struct dirfix *f)
{
    for (uint16_t k = 0; k < DIRFIX_KEYS; k++)
        dirfix_flush(f, k);
    for (int busy = 1; busy;) {
        busy = 0;
        for (uint16_t k = 0; k < DIRFIX_KEYS; k++)
            busy |= f->keys[k].flushing;
        if (busy)
            assert_int_equal(dirfix_step(f), 1);
    }
}

/* ---- The host ---- */

struct dirfix_host_op {
    struct snic_node node;
    struct snic_timer timer;
    struct dirfix *f;
    uint64_t conn;
    uint64_t seq;
    uint32_t gen;
    uint32_t at; /* bytes of the reply that are sent */
    uint32_t size;
    int closes;
    struct dirfix_msg m;
    unsigned char *reply;
};

static void host_free(struct dirfix_host_op *op)
{
    struct dirfix_key *k = &op->f->keys[op->m.key % DIRFIX_KEYS];
    if (k->last_get == op)
        k->last_get = NULL;
    op->f->host_outstanding--;
    free(op->reply);
    free(op);
}

/* The reply goes in one call, or in several with MORE. 0 when it has to wait. */
static int host_send(struct dirfix_host_op *op)
{
    struct dirfix *f = op->f;
    while (op->at < op->size) {
        uint32_t n = op->size - op->at;
        uint32_t flags = op->closes ? SNIC_DIRECTOR_REPLY_CLOSE : 0;
        if (n > 1 && snic_rng_below(&f->rng, 4) == 0) {
            n = 1 + (uint32_t)snic_rng_below(&f->rng, n - 1);
            flags = SNIC_DIRECTOR_REPLY_MORE;
        }
        struct snic_iov v[2] = {{op->reply + op->at, n / 2},
                                {op->reply + op->at + n / 2, n - n / 2}};
        if (op->m.op == DIRFIX_CHANGE)
            flags |= SNIC_DIRECTOR_REPLY_USER;
        int r = snic_director_host_reply(f->h, op->conn, op->seq, v, 2, flags, op->m.value);
        if (r == SNIC_EAGAIN)
            return 0;
        if (r != SNIC_EPEERDEAD)
            assert_int_equal(r, 0);
        op->at += n;
        if ((flags & SNIC_DIRECTOR_REPLY_MORE) != 0 &&
            f->o.host_delay_ns > 0) { /* the rest later */
            snic_loop_arm(f->host, &op->timer,
                          snic_loop_now(f->host) + snic_rng_below(&f->rng, f->o.host_delay_ns));
            return 1;
        }
    }
    host_free(op);
    return 1;
}

static void host_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct dirfix_host_op *op = SNIC_CONTAINER(t, struct dirfix_host_op, timer);
    (void)now_ns;
    if (op->gen != op->f->host_gen)
        host_free(op);
    else if (!snic_queue_empty(&op->f->host_queue) || !host_send(op))
        snic_queue_push(&op->f->host_queue, &op->node);
}

static uint32_t reply_head(unsigned char *to, const struct dirfix_msg *m, uint8_t status,
                           uint32_t value, uint32_t body)
{
    struct dirfix_msg r = {.size = DIRFIX_HEAD + body,
                           .op = status,
                           .arg = DIRFIX_BY_HOST,
                           .key = m->key,
                           .id = m->id,
                           .value = value};
    dirfix_encode(to, &r);
    return r.size;
}

/* Carry @m out; its reply (malloc) and size. */
static unsigned char *host_apply(struct dirfix *f, const struct dirfix_msg *m, uint32_t *size)
{
    struct dirfix_key *k = &f->keys[m->key % DIRFIX_KEYS];
    uint32_t n = 0;
    unsigned char *to = malloc(DIRFIX_HEAD + (m->op == DIRFIX_ECHO ? m->value : 0) + 6000u * 17);
    assert_non_null(to);
    switch (m->op) {
    case DIRFIX_GET:
        n = k->there ? dirfix_value_size(k->value) : 0;
        if (k->there)
            dirfix_value(to + DIRFIX_HEAD, k->value);
        *size = reply_head(to, m, k->there ? DIRFIX_OK : DIRFIX_NONE, k->value, n);
        break;
    case DIRFIX_MGET:
        for (uint32_t i = 0; i < m->arg; i++) {
            k = &f->keys[(m->key + i) % DIRFIX_KEYS];
            uint32_t v = k->there ? dirfix_value_size(k->value) : 0;
            snic_put_le32(to + DIRFIX_HEAD + n, k->there ? k->value : UINT32_MAX);
            snic_put_le32(to + DIRFIX_HEAD + n + 4, v);
            if (k->there)
                dirfix_value(to + DIRFIX_HEAD + n + 8, k->value);
            n += 8 + v;
        }
        *size = reply_head(to, m, DIRFIX_OK, m->arg, n);
        break;
    case DIRFIX_SET:
    case DIRFIX_DEL:
        k->version = ++f->version;
        k->there = m->op == DIRFIX_SET;
        k->value = m->value;
        *size = reply_head(to, m, DIRFIX_OK, m->value, 0);
        break;
    case DIRFIX_ECHO:
        for (uint32_t i = 0; i < m->value; i++)
            to[DIRFIX_HEAD + i] = (unsigned char)(m->id + i);
        *size = reply_head(to, m, DIRFIX_OK, m->value, m->value);
        break;
    default:
        *size = reply_head(to, m, DIRFIX_OK, m->value, 0);
        break;
    }
    return to;
}

/* R1: before any client can see the new version, the table must not serve the old one. */
static int host_invalidate(struct dirfix *f, uint16_t key)
{
    uint64_t hash = dirfix_hash(f, key);
    struct snic_director_entry e = {&hash, NULL, f->version + 1};
    if ((f->o.broken & DIRFIX_NO_R1) ||
        ((f->o.broken & DIRFIX_DROP_SOME) && snic_rng_below(&f->rng, 8) == 0))
        return 1;
    int r = snic_director_host_entries(f->h, &e, 1);
    assert_true(r == 0 || r == SNIC_EAGAIN || r == SNIC_EPEERDEAD);
    return r != SNIC_EAGAIN;
}

/* Send the reply of @op when its time has come. */
static void host_answer(struct dirfix_host_op *op)
{
    struct dirfix *f = op->f;
    uint64_t delay = f->o.host_delay_ns > 0 ? snic_rng_below(&f->rng, f->o.host_delay_ns) : 0;
    if (op->m.op == DIRFIX_HOLD)
        delay = (uint64_t)op->m.value * 1000;
    if (delay > 0)
        snic_loop_arm(f->host, &op->timer, snic_loop_now(f->host) + delay);
    else if (!snic_queue_empty(&f->host_queue) || !host_send(op))
        snic_queue_push(&f->host_queue, &op->node);
}

/* The seeded bug: what was found for @op is sent to the one before, and the other way round. */
static void host_swap(struct dirfix_host_op *op)
{
    struct dirfix_key *k = &op->f->keys[op->m.key % DIRFIX_KEYS];
    struct dirfix_host_op *other = k->last_get;
    if (op->m.op != DIRFIX_GET || op->reply == NULL)
        return;
    k->last_get = op;
    if (other == NULL || other->conn != op->conn || other->at > 0 || other->size == 0)
        return;
    unsigned char *reply = op->reply;
    uint32_t size = op->size;
    op->reply = other->reply;
    op->size = other->size;
    other->reply = reply;
    other->size = size;
    snic_put_le32(op->reply + 8, op->m.id);
    snic_put_le32(other->reply + 8, other->m.id);
}

/* Carry out a message; 0: it has to wait for room, and everything behind it. */
static int host_do(struct dirfix_host_op *op)
{
    struct dirfix *f = op->f;
    struct dirfix_key *k = &f->keys[op->m.key % DIRFIX_KEYS];
    int writes = op->m.op == DIRFIX_SET || op->m.op == DIRFIX_DEL;
    if (f->o.sync && (writes || op->m.op == DIRFIX_GET) && k->writer != NULL) {
        snic_queue_push(&k->waiting, &op->node); /* what depends on it waits until it is durable */
        return 1;
    }
    if (writes && !host_invalidate(f, op->m.key % DIRFIX_KEYS))
        return 0;
    k->old_version = k->version;
    k->old_value = k->value;
    k->old_there = k->there;
    op->reply = host_apply(f, &op->m, &op->size);
    if (f->o.broken & DIRFIX_SWAP_GETS)
        host_swap(op);
    op->closes = op->m.op == DIRFIX_QUIT;
    snic_timer_init(&op->timer, host_fire);
    if (f->o.sync && op->m.op == DIRFIX_SET) {
        k->writer = op;
        dirfix_flush(f, op->m.key % DIRFIX_KEYS);
    } else {
        host_answer(op);
    }
    return 1;
}

/* What waits for room: replies, and messages that are not carried out yet. */
static void host_writable(void *ctx)
{
    struct dirfix *f = ctx;
    while (!snic_queue_empty(&f->host_queue)) {
        struct dirfix_host_op *op =
            SNIC_CONTAINER(f->host_queue.first, struct dirfix_host_op, node);
        struct snic_node *next = op->node.next;
        if (op->reply != NULL) {
            if (!host_send(op))
                return;
            f->host_queue.first = next;
            if (next == NULL)
                f->host_queue.last = NULL;
            continue;
        }
        (void)snic_queue_pop(&f->host_queue);
        struct snic_queue rest = f->host_queue; /* it is the first: nothing is before it */
        memset(&f->host_queue, 0, sizeof(f->host_queue));
        int done = host_do(op);
        if (!done)
            snic_queue_push(&f->host_queue, &op->node);
        for (struct snic_node *n = snic_queue_pop(&rest); n != NULL; n = snic_queue_pop(&rest))
            snic_queue_push(&f->host_queue, n);
        if (!done)
            return;
    }
}

static void host_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t conn_user,
                         const unsigned char *msg, uint32_t size)
{
    struct dirfix *f = ctx;
    struct dirfix_host_op *op = calloc(1, sizeof(*op));
    assert_non_null(op);
    assert_true(size >= DIRFIX_HEAD);
    dirfix_decode(&op->m, msg);
    assert_int_equal(op->m.size, size);
    for (uint32_t i = DIRFIX_HEAD; i < size; i++)
        assert_int_equal(msg[i], 0);
    if ((op->m.op == DIRFIX_ECHO || op->m.op == DIRFIX_GET) && op->m.arg == 'w')
        assert_int_equal(conn_user, op->m.op == DIRFIX_GET ? op->m.value : op->m.key);
    op->f = f;
    op->conn = conn;
    op->seq = seq;
    op->gen = f->host_gen;
    f->host_last_conn = conn;
    f->host_last_seq = seq;
    f->host_messages++;
    f->host_outstanding++;
    if (!snic_queue_empty(&f->host_queue) || !host_do(op))
        snic_queue_push(&f->host_queue, &op->node);
}

static void host_written(struct dirfix *f, uint16_t key, uint64_t version, uint64_t offset,
                         int failed)
{
    struct dirfix_key *k = &f->keys[key];
    struct dirfix_host_op *op = k->writer;
    struct snic_queue waiting = k->waiting;
    k->flushing = 0;
    if (!failed) {
        k->device_version = version;
        k->offset = offset;
    }
    if (op == NULL)
        return;
    k->writer = NULL;
    memset(&k->waiting, 0, sizeof(k->waiting));
    if (failed) { /* it has not happened */
        k->version = k->old_version;
        k->value = k->old_value;
        k->there = k->old_there;
        op->size = reply_head(op->reply, &op->m, DIRFIX_ERROR, 0, 0);
    }
    host_answer(op);
    for (struct snic_node *n = snic_queue_pop(&waiting); n != NULL; n = snic_queue_pop(&waiting)) {
        op = SNIC_CONTAINER(n, struct dirfix_host_op, node);
        if (!snic_queue_empty(&f->host_queue) || !host_do(op))
            snic_queue_push(&f->host_queue, &op->node);
    }
}

static void host_closed(void *ctx, uint64_t conn)
{
    struct dirfix *f = ctx;
    (void)conn;
    f->host_closed++;
}

static void host_death(void *ctx)
{
    ((struct dirfix *)ctx)->host_deaths++;
}

/* A host begins: its version, and what it knows to be on the device. */
void dirfix_host_start(struct dirfix *f)
{
    struct snic_director_host_events ev = {.message = host_message,
                                           .closed = host_closed,
                                           .writable = host_writable,
                                           .death = host_death,
                                           .ctx = f};
    struct snic_director_host_opts o = {.opts_size = sizeof(o),
                                        .message_max = f->o.host_message_max != 0
                                                           ? f->o.host_message_max
                                                           : f->o.director.message_max,
                                        .key_size = 8,
                                        .item_size = 24,
                                        .version = f->version};
    o.ring_bytes = f->o.ring_bytes == 0 ? 256u << 10 : f->o.ring_bytes;
    memset(&f->host_queue, 0, sizeof(f->host_queue));
    assert_int_equal(snic_director_host_open(&f->h, f->hub[0], &ev, &o), 0);
    f->host_alive = 1;
    for (uint16_t i = 0; i < DIRFIX_KEYS; i++) {
        struct dirfix_key *k = &f->keys[i];
        k->flushing = 0;
        if (!k->there || k->device_version != k->version || k->version == 0)
            continue;
        uint64_t hash = dirfix_hash(f, i);
        struct item it = {f->file, k->offset, RECORD + dirfix_value_size(k->value), i};
        struct snic_director_entry e = {&hash, &it, k->version};
        assert_int_equal(snic_director_host_entries(f->h, &e, 1), 0);
    }
}

static void host_queue_free(struct dirfix *f)
{
    struct snic_node *n;
    while ((n = snic_queue_pop(&f->host_queue)) != NULL)
        host_free(SNIC_CONTAINER(n, struct dirfix_host_op, node));
    for (uint32_t k = 0; k < DIRFIX_KEYS; k++) {
        while ((n = snic_queue_pop(&f->keys[k].waiting)) != NULL)
            host_free(SNIC_CONTAINER(n, struct dirfix_host_op, node));
        if (f->keys[k].writer != NULL)
            host_free(f->keys[k].writer);
        f->keys[k].writer = NULL;
    }
}

void dirfix_host_kill(struct dirfix *f)
{
    f->host_gen++;
    f->host_alive = 0;
    host_queue_free(f);
    if (!f->o.local)
        snic_dma_sim_kill(f->dma[0]);
    snic_director_host_close(f->h);
    f->h = NULL;
    if (f->o.local) {
        snic_channel_hub_fini(f->hub[0]);
        support_guard_free(f->hub_mem[0]);
        f->hub[0] = NULL;
    }
}

void dirfix_host_stop(struct dirfix *f)
{
    if (f->h != NULL && f->host_alive) {
        f->host_gen++;
        host_queue_free(f);
        snic_director_host_close(f->h);
        f->h = NULL;
        f->host_alive = 0;
    }
}

/* ---- The same store as an ordinary server ---- */

struct served {
    struct dirfix *f;
    struct snic_net_conn *c;
    unsigned char *in;
    size_t in_size;
    struct snic_queue sends;
};

struct served_send {
    struct snic_node node;
    struct snic_net_send_req req;
    struct snic_iov iov;
    struct served *s;
    int closes;
};

static void server_sent(struct snic_net_send_req *r)
{
    struct served_send *x = SNIC_CONTAINER(r, struct served_send, req);
    if (x->closes && r->result == 0)
        snic_net_close(x->s->c);
    free(x->iov.base);
    free(x);
}

static void server_one(struct served *s, const struct dirfix_msg *m)
{
    struct served_send *x = calloc(1, sizeof(*x));
    uint32_t size = 0;
    assert_non_null(x);
    s->f->host_messages++;
    x->s = s;
    x->iov.base = host_apply(s->f, m, &size);
    x->iov.size = size;
    x->closes = m->op == DIRFIX_QUIT;
    x->req = (struct snic_net_send_req){
        .done = server_sent, .iov = &x->iov, .iov_count = 1, .region = SNIC_NO_REGION};
    int sent = snic_net_send(s->c, &x->req);
    assert_true(sent == 1 || sent == SNIC_EPIPE);
    if (sent != 1) {
        free(x->iov.base);
        free(x);
    }
}

static void server_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct served *s = ctx;
    struct dirfix_msg m;
    size_t at = 0;
    s->in = realloc(s->in, s->in_size + b->size);
    assert_non_null(s->in);
    memcpy(s->in + s->in_size, b->data, b->size);
    s->in_size += b->size;
    snic_net_put(s->f->server_net, b);
    while (s->in_size - at >= DIRFIX_HEAD) {
        dirfix_decode(&m, s->in + at);
        if (s->in_size - at < m.size)
            break;
        if (s->f->server_mode == 1) {
            snic_net_close(c);
            return;
        }
        if (s->f->server_mode == 2) {
            snic_net_abort(c);
            return;
        }
        server_one(s, &m);
        at += m.size;
    }
    memmove(s->in, s->in + at, s->in_size - at);
    s->in_size -= at;
}

static void server_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_close(c);
}

static void server_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct served *s = ctx;
    (void)c;
    (void)reason;
    s->f->host_closed++;
    free(s->in);
    free(s);
}

static void server_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {
        .recv = server_recv, .eof = server_eof, .closed = server_closed};
    struct served *s = calloc(1, sizeof(*s));
    (void)peer;
    assert_non_null(s);
    s->f = ctx;
    s->c = c;
    snic_net_bind(c, &ev, s);
}

void dirfix_server_start(struct dirfix *f)
{
    struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = DIRFIX_SERVER, .port = 200};
    assert_int_equal(snic_net_listen(f->server_net, &at, 0, server_accept, f, &f->server_listener),
                     0);
    snic_director_upstream_net(f->d, &at);
}
