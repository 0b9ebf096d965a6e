/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The tokens that clients have shown a block server: a table of bounded size, in which a connection
 * and a disk have one of SNIC_VOLUME__WAYS places. If all of these are in use the least recently
 * used entry is evicted; its client shows its token again.
 *
 * I1  An entry's token was verified under a key that the server has; it is removed with that key.
 * I2  The entry of a connection and disk has the latest lease that was shown.
 * I3  An entry grants rights to its connection alone: another client with the same key shows a
 *     token of its own.
 */
#include "volume/volume_priv.h"

#define SNIC_VOLUME__WAYS 8u

size_t volume_grants_layout(struct snic_arena *a, struct snic_volume_server *s)
{
    struct volume_grants *g = &s->grants;
    g->mask = (uint32_t)snic_pow2_up(s->o.tokens_max) - 1;
    g->grant = snic_arena_take(a, (size_t)g->mask + 1, sizeof(*g->grant), 64);
    if (a->base != NULL && a->used != SIZE_MAX)
        memset(g->grant, 0, ((size_t)g->mask + 1) * sizeof(*g->grant));
    return 1;
}

/* The places that a connection's disk may have; keyed, so that no client can target another's. */
static struct volume_grant *grants_set(struct snic_volume_server *s, uint64_t who, uint64_t vd_id)
{
    unsigned char words[16];
    snic_put_le64(words, who);
    snic_put_le64(words + 8, vd_id);
    uint32_t at = (uint32_t)snic_siphash(s->key, words, sizeof(words)) & s->grants.mask;
    return &s->grants.grant[at & ~(SNIC_VOLUME__WAYS - 1)];
}

static struct volume_grant *grants_find(struct snic_volume_server *s, uint64_t who, uint64_t vd_id)
{
    struct volume_grant *set = grants_set(s, who, vd_id);
    for (uint32_t i = 0; i < SNIC_VOLUME__WAYS; i++)
        if (set[i].used != 0 && set[i].who == who && set[i].t.vd_id == vd_id)
            return &set[i];
    return NULL;
}

static struct volume_grant *grants_place(struct snic_volume_server *s, uint64_t who, uint64_t vd_id)
{
    struct volume_grant *set = grants_set(s, who, vd_id), *g = grants_find(s, who, vd_id);
    if (g != NULL)
        return g;
    g = &set[0];
    for (uint32_t i = 1; i < SNIC_VOLUME__WAYS; i++)
        if (set[i].used < g->used)
            g = &set[i];
    s->stats.tokens_evicted += g->used != 0;
    g->used = 0;
    return g;
}

/* The connection's account; LUNA's connections have none: the token's. */
static uint32_t grants_account(const struct volume_req *q, const struct snic_ebs_token *t)
{
    return q->front->accounts ? q->r.account : t->account;
}

/* A number that no other connection has. */
static uint64_t grants_who(const struct volume_req *q)
{
    return q->front->accounts ? q->r.conn_id : UINT64_C(1) << 32 | q->r.conn_id;
}

static uint64_t grants_now(const struct snic_volume_server *s)
{
    return s->o.unix_time(s->o.token_ctx);
}

static uint32_t grants_verify(struct snic_volume_server *s, const struct volume_req *q,
                              struct snic_ebs_token *t)
{
    struct snic_ebs_token claims;
    if (snic_ebs_token_read(&claims, q->r.data) != 0)
        return SNIC_EBS_FORBIDDEN;
    void *key = s->o.token_key(s->o.token_ctx, claims.key_id);
    s->stats.tokens_no_key += key == NULL;
    if (key == NULL)
        return SNIC_EBS_NO_TOKEN; /* not yet known, or revoked: another token may be valid */
    if (snic_ebs_token_verify(t, q->r.data, s->o.sec, key) != 0 ||
        t->account != grants_account(q, t))
        return SNIC_EBS_FORBIDDEN;
    if (grants_now(s) <= t->not_after)
        return SNIC_EBS_OK;
    s->stats.tokens_expired++;
    return SNIC_EBS_NO_TOKEN;
}

uint32_t volume_grants_show(struct snic_volume_server *s, const struct volume_req *q)
{
    struct snic_ebs_token t;
    if (s->o.token_key == NULL)
        return SNIC_EBS_OK; /* none is needed here */
    uint32_t status = grants_verify(s, q, &t);
    if (status != SNIC_EBS_OK) {
        s->stats.tokens_refused++;
        return status;
    }
    uint64_t who = grants_who(q);
    struct volume_grant *g = grants_place(s, who, t.vd_id);
    if (g->used != 0 && g->t.gen >> 16 > t.gen >> 16 && grants_now(s) <= g->t.not_after)
        return SNIC_EBS_OK; /* I2; requests under the older lease are refused as such */
    g->who = who;
    g->t = t;
    g->used = ++s->grants.uses;
    s->stats.tokens++;
    return SNIC_EBS_OK;
}

/* The latest lease that a request names. A fence is one above the version that it ends. */
static uint32_t grants_lease(const struct volume_req *q)
{
    uint64_t wver = q->r.wver - (q->r.op == SNIC_EBS_DO_FENCE && q->r.wver != 0);
    uint32_t lease = q->r.op == SNIC_EBS_DO_READ ? 0 : snic_ebs_id_epoch(wver);
    return (uint32_t)snic_max_u64(lease, q->r.seg_gen >> 16);
}

uint32_t volume_grants_check(struct snic_volume_server *s, const struct volume_req *q)
{
    struct volume_grant *g = grants_find(s, grants_who(q), q->r.vd_id);
    struct snic_segments_stat seg;
    if (g == NULL)
        return SNIC_EBS_NO_TOKEN;
    struct snic_ebs_token_use u = {.vd_id = q->r.vd_id,
                                   .now = grants_now(s),
                                   .account = grants_account(q, &g->t),
                                   .lease = grants_lease(q)};
    u.rights = q->r.op == SNIC_EBS_DO_READ    ? SNIC_EBS_MAY_READ
               : q->r.op == SNIC_EBS_DO_FENCE ? SNIC_EBS_MAY_FENCE
                                              : SNIC_EBS_MAY_WRITE;
    if (snic_segments_find(s->store, q->r.seg_id, &seg) == 0 && seg.vd_id == q->r.vd_id)
        u.stored = seg.gen >> 16;
    int r = snic_ebs_token_permits(&g->t, &u);
    if (r == 0) {
        g->used = ++s->grants.uses;
        return SNIC_EBS_OK;
    }
    if (r == SNIC_ETIMEDOUT)
        g->used = 0;
    return r == SNIC_EPERM    ? SNIC_EBS_FORBIDDEN
           : r == SNIC_ESTALE ? SNIC_EBS_NO_LEASE
                              : SNIC_EBS_NO_TOKEN;
}

uint32_t volume_grants_rights(struct snic_volume_server *s, const struct volume_req *q)
{
    const struct volume_grant *g = grants_find(s, grants_who(q), q->r.vd_id);
    return g != NULL ? g->t.rights : 0;
}

uint32_t snic_volume_server_tokens(struct snic_volume_server *s)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; s->o.token_key != NULL && i <= s->grants.mask; i++) {
        struct volume_grant *g = &s->grants.grant[i];
        if (g->used == 0 || s->o.token_key(s->o.token_ctx, g->t.key_id) != NULL)
            continue;
        g->used = 0; /* I1 */
        ended++;
    }
    return ended;
}
