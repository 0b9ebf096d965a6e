/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What transactions need to know of sessions: the fence that guards commits (session.c, S7), the
 * end of this session, and which others are alive.
 */
#include "kvfs/txn_priv.h"

/* ---- The fence ---- */

int kvfs_fence_guard(const struct snic_kvfs *k, struct snic_kvop_guard *g)
{
    const struct kvfs_session *s = &k->session;
    if (s->fence_key.size == 0 || (k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) == 0)
        return 0;
    if (g != NULL) {
        memset(g, 0, sizeof(*g));
        g->key = s->fence_key;
        g->value = s->fence;
        g->size = s->fence_size;
    }
    return 1;
}

void kvfs_session_mark_dead(struct snic_kvfs *k)
{
    k->session.dead = 1;
    k->session.alone = 0;
    kvfs_cache_drop(k);
    kvfs_times_forget_all(k);
    for (uint32_t i = 0; i < k->op_count; i++) {
        struct kvfs_op *op = &k->ops[i];
        if (op->state != KVFS_OP_WAITING || op->req == NULL || op->in_flight != 0)
            continue;
        if (op->asleep) {
            kvfs_wake(op);
            continue;
        }
        kvfs_lock_stop_waiting(op);
        snic_link_remove(&op->wait_link);
        if (kvfs_is_release(op)) { /* it no longer needs a lock or memory */
            kvfs_unlock_all(op);
            op->block_need = 0;
        } else {
            op->ended = 1;
            op->result = SNIC_EIO;
        }
        kvfs_ready(op);
    }
}

void kvfs_session_fenced(struct snic_kvfs *k)
{
    struct kvfs_session *s = &k->session;
    if (s->id == 0 || s->dead)
        return;
    s->next_ns = SNIC_NEVER;
    kvfs_session_mark_dead(k);
}

int kvfs_fence_failed(struct snic_kvfs *k, const struct snic_kvop *commit)
{
    struct kvfs_session *s = &k->session;
    const struct snic_kvop_key *key;
    struct snic_kvop_key own;
    if (commit->failed_guard >= commit->guard_count) /* a store's mistake */
        return 0;
    key = &commit->guards[commit->failed_guard].key;
    snic_kvfs_key_fence(&own, s->id);
    if (key->group != own.group || key->size != own.size || key->bytes[0] != own.bytes[0] ||
        key->bytes[own.size - 1] != own.bytes[own.size - 1])
        return 0;
    if (kvfs_key_equal(key, &own) && !s->dead) { /* else it was begun in an earlier session */
        s->next_ns = SNIC_NEVER;
        kvfs_session_mark_dead(k);
    }
    return 1;
}

/* ---- Others ---- */

/* Note a session that was looked up, or (scans 0) one that has ended. */
void kvfs_session_note_lookup(struct kvfs_session *s, uint64_t id, uint64_t scans)
{
    struct kvfs_session_lookup *a = &s->lookups[s->lookup_next++ % KVFS_SESSION_LOOKUPS];
    a->id = id;
    a->scans = scans;
}

int kvfs_session_alive(const struct snic_kvfs *k, uint64_t session)
{
    /* The lookup is noted: the result "dead" needs a scan that began after it. */
    struct kvfs_session *s = &((struct snic_kvfs *)(uintptr_t)k)->session;
    if (session == s->id)
        return 1;
    for (uint32_t i = 0; i < s->other_count; i++) {
        if (s->others[i].id == session)
            return 1;
    }
    for (uint32_t i = 0; i < KVFS_SESSION_LOOKUPS; i++) {
        if (s->lookups[i].id == session)
            return s->round_begun <= s->lookups[i].scans;
    }
    kvfs_session_note_lookup(s, session, s->scans_begun);
    if (s->next_ns != SNIC_NEVER)
        s->next_ns = k->now.mono_ns;
    return 1;
}

int kvfs_ops_before(const struct snic_kvfs *k, uint64_t era)
{
    int n = 0;
    for (uint32_t i = 0; i < k->op_count; i++) {
        const struct kvfs_op *op = &k->ops[i];
        if (op->asleep && (op->drop || op->reads == NULL))
            continue; /* it has read nothing, or drops it: it waits for an advisory lock */
        n += op->state != KVFS_OP_FREE && op->req != NULL && op->era < era;
    }
    return n;
}
