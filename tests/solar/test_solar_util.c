/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_solar_util.h"
#include "support.h"

struct duo duo;

void duo_open(struct duo *d)
{
    struct snic_solar_opts o = d->o;
    struct snic_solar_target_opts k = d->k;
    struct snic_ebs_disk_opts disk = {.opts_size = sizeof(disk), .sa_epoch = 1, .blocks = 512};
    void *secret = d->secret;
    uint32_t key_id = d->key_id, account = d->account;
    uint64_t store_ns = d->store_ns;
    memset(d, 0, sizeof(*d));
    d->secret = secret;
    d->store_ns = store_ns;
    d->now = 1000;
    o.opts_size = sizeof(o);
    o.client_epoch = 3;
    o.servers_max = 1;
    o.rpcs_max = 16;
    if (o.deadline_ns == 0)
        o.deadline_ns = UINT64_C(50000000);
    k.opts_size = sizeof(k);
    k.srv_epoch = 9;
    d->o = o;
    d->k = k;
    size_t size = snic_solar_memsize(&o), ksize = snic_solar_target_memsize(&k);
    d->cmem = support_guard_alloc(size, SNIC_SOLAR_ALIGN);
    d->tmem = support_guard_alloc(ksize, SNIC_SOLAR_ALIGN);
    assert_int_equal(snic_solar_init(&d->c, d->cmem, size - 1, &o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_solar_init(&d->c, d->cmem, size, &o, d->now), 0);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, ksize - 1, &k, 0), SNIC_ENOSPC);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, ksize, &k, d->now), 0);
    assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
    if (secret != NULL)
        assert_int_equal(snic_solar_server_auth(d->c, 0, secret, key_id, account), 0);
    assert_int_equal(snic_solar_attach(d->c, 0, &disk, d->now), 0);
}

void duo_close(struct duo *d)
{
    assert_ptr_equal(snic_solar_fini(d->c), d->cmem);
    assert_ptr_equal(snic_solar_target_fini(d->t), d->tmem);
    support_guard_free(d->cmem);
    support_guard_free(d->tmem);
}

static void duo_post(struct duo *d, const struct snic_solar_train *t, uint32_t to_target)
{
    uint32_t piece = 0;
    for (uint32_t i = 0; i < t->packets; i++) {
        struct letter *l = &d->bag[d->letters++];
        assert_true(d->letters < BAG);
        l->size = 0;
        l->to_target = to_target;
        l->path = to_target ? t->path : (uint32_t)t->peer.word[0];
        l->gen = to_target ? t->gen : (uint32_t)t->peer.word[1];
        while (l->size < t->segment && piece < t->iov_count) {
            memcpy(l->bytes + l->size, t->iov[piece].base, t->iov[piece].size);
            l->size += (uint32_t)t->iov[piece++].size;
        }
    }
}

static void duo_serve(struct duo *d, const struct snic_ebs_request *q)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    uint32_t n = 0;
    int all = d->status != 0 && d->refuse == 0;
    if (all || q->op == SNIC_EBS_DO_FENCE) {
        snic_solar_target_answer(d->t, q, q->op == SNIC_EBS_DO_FENCE ? d->promise : d->status, 0, 0,
                                 d->now);
        return;
    }
    if (q->op == SNIC_EBS_DO_WRITE) {
        if (q->wver > d->version[q->block]) {
            d->version[q->block] = q->wver;
            d->crc[q->block] = q->data_crc;
            d->block_tag[q->block] = q->block_tag;
            if (q->data != NULL)
                memcpy(d->store[q->block], q->data, SNIC_EBS_BLOCK_BYTES);
        }
        snic_solar_target_answer(d->t, q, SNIC_EBS_OK, q->data_crc, 0, d->now);
        return;
    }
    memset(blocks, 0, sizeof(blocks));
    for (uint64_t left = q->need; left != 0; left &= left - 1, n++) {
        uint32_t b = q->block + (uint32_t)__builtin_ctzll(left);
        blocks[n].wver = d->version[b];
        blocks[n].data_crc = d->crc[b];
        blocks[n].block_tag = d->block_tag[b];
        blocks[n].data = d->version[b] != 0 ? d->store[b] : NULL;
    }
    assert_true(snic_solar_target_read_done(d->t, q, blocks, 1, d->now) > 0);
}

static void duo_act(struct duo *d, struct snic_ebs_action *a)
{
    d->acts[a->type]++;
    if (a->type == SNIC_EBS_ACT_SEND) {
        duo_post(d, a->train, 1);
        snic_solar_sent(d->c, a->train, d->now);
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        uint16_t port = (uint16_t)(50000 + d->opened++);
        assert_int_equal(snic_solar_path_opened(d->c, 0, a->path, a->gen, port, d->now), 0);
    } else if (a->type == SNIC_EBS_ACT_MAP && !d->mute) {
        d->maps++;
        assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, d->maps, d->now), 0);
    }
}

void duo_deliver(struct duo *d, const struct letter *l)
{
    struct snic_ebs_peer peer = {{l->path, l->gen, d->nat}};
    struct snic_ebs_request q;
    if (!l->to_target) {
        (void)snic_solar_recv(d->c, 0, l->path, l->gen, l->bytes, l->size, 0, d->now);
        return;
    }
    if (snic_solar_target_recv(d->t, &peer, l->bytes, l->size, 0, &q, d->now) != 1)
        return;
    d->account_seen = q.account;
    int write = q.op == SNIC_EBS_DO_WRITE;
    int held = write && d->hold == q.lba + 1;
    d->fences += q.op == SNIC_EBS_DO_FENCE;
    if (write && d->refuse == q.lba + 1) {
        snic_solar_target_answer(d->t, &q, d->status, 0, 0, d->now);
        return;
    }
    if (d->store_ns == 0 && !held) {
        duo_serve(d, &q);
        return;
    }
    assert_true(d->requests < BAG); /* a slow store writes the same bytes for each request */
    if (q.op == SNIC_EBS_DO_WRITE && q.data != NULL && q.wver > d->version[q.block])
        memcpy(d->store[q.block], q.data, SNIC_EBS_BLOCK_BYTES);
    if (q.data != NULL)
        q.data = d->store[q.block];
    d->ready[d->requests] = held ? SNIC_NEVER : d->now + d->store_ns;
    d->request[d->requests++] = q;
}

/* What a slow store has finished. */
static void duo_stored(struct duo *d)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->requests; i++) {
        struct snic_ebs_request q = d->request[i];
        if (d->ready[i] <= d->now || (d->ready[i] == SNIC_NEVER && d->hold == 0)) {
            duo_serve(d, &q);
            continue;
        }
        d->ready[kept] = d->ready[i];
        d->request[kept++] = q;
    }
    d->requests = kept;
}

static void duo_step(struct duo *d, int lost, int check)
{
    struct snic_ebs_action a;
    struct snic_solar_train *t;
    uint32_t n = d->letters;
    d->now += 20000;
    for (uint32_t i = 0; i < n && !lost; i++)
        duo_deliver(d, &d->bag[i]);
    d->letters = 0;
    duo_stored(d);
    while (snic_solar_target_poll(d->t, &t, 1, d->now) == 1) {
        duo_post(d, t, 0);
        snic_solar_target_sent(d->t, t);
    }
    while (snic_solar_poll(d->c, &a, 1, d->now) == 1)
        duo_act(d, &a);
    if (check) {
        assert_int_equal(snic_solar_check(d->c), 0);
        assert_int_equal(snic_solar_target_check(d->t), 0);
    }
    uint64_t due = snic_solar_deadline_ns(d->c);
    for (uint32_t i = 0; i < d->requests; i++)
        due = snic_min_u64(due, d->ready[i]);
    if (d->letters == 0 && due != SNIC_NEVER)
        d->now = snic_max_u64(d->now, due);
}

void duo_turn(struct duo *d, int lost)
{
    duo_step(d, lost, 1);
}

void duo_turn_unchecked(struct duo *d)
{
    duo_step(d, 0, 0);
}

void duo_until(struct duo *d, uint32_t done)
{
    for (int i = 0; i < 1000 && d->acts[SNIC_EBS_ACT_DONE] < done; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done);
}

uint32_t duo_done(const struct duo *d)
{
    return d->acts[SNIC_EBS_ACT_DONE];
}

void duo_io(struct duo *d, struct snic_ebs_io *io, uint8_t op, uint64_t lba, uint32_t blocks,
            struct snic_iov *iov)
{
    memset(io, 0, sizeof(*io));
    io->op = op;
    io->lba = lba;
    io->blocks = blocks;
    io->iov = iov;
    io->iov_count = iov != NULL;
    assert_int_equal(snic_solar_submit(d->c, io, d->now), 0);
}
