/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inode numbers.
 *
 * N2  Numbers are taken from ranges that the session has reserved in the store by a commit of its
 *     own; the rest of a range when a session ends is never used.
 */
#include "kvfs/session_priv.h"

enum { KVFS_NUMBERS_RANGE = 16384 };

SNIC_STATIC_ASSERT(KVFS_NUMBERS_RANGE <= SNIC_KVFS_SESSION_RANGE_MAX,
                   "as a session's record has it");

/* The engine's own: reserves a range (N2) for a session. */
int kvfs_run_numbers(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct snic_kvop_key key;
    unsigned char next[8];
    const void *body = NULL;
    uint32_t size = 0;
    uint64_t first;
    int rc;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    rc = kvfs_get(op, &key, &body, &size);
    if (rc == KVFS_PENDING)
        return rc;
    if (rc == SNIC_ENOENT || (rc == 0 && size != sizeof(next))) {
        kvfs_report_damage(k, &key, "next inode number missing or malformed");
        rc = SNIC_ECORRUPT;
    }
    first = rc == 0 ? snic_get_le64(body) : 0;
    if (rc == 0 && (first < 2 || first > SNIC_KVFS_INO_MAX - KVFS_NUMBERS_RANGE))
        rc = SNIC_ENOSPC;
    if (rc == 0) {
        snic_put_le64(next, first + KVFS_NUMBERS_RANGE);
        rc = kvfs_put(op, &key, next, sizeof(next));
    }
    if (rc == 0)
        rc = kvfs_session_range(op, first, KVFS_NUMBERS_RANGE);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (rc == KVFS_PENDING || op->again)
        return KVFS_PENDING;
    SNIC_ASSERT(k->ino_fetching);
    k->ino_fetching = 0;
    if (op->s[KVFS_OWN_S_ARGUMENT] !=
        k->session.id) { /* recorded for an earlier session: fetch another range */
        k->ino_error = 0;
    } else {
        k->ino_error = rc;
        if (rc == 0) {
            k->ino_next = first;
            k->ino_end = first + KVFS_NUMBERS_RANGE;
        }
    }
    kvfs_wake_all(&k->ino_waiters);
    return rc;
}

int kvfs_new_ino(struct kvfs_op *op, uint64_t *ino)
{
    struct snic_kvfs *k = op->k;
    if (op->number_at < op->number_count) { /* the same as in earlier runs */
        *ino = op->numbers[op->number_at++];
        return 0;
    }
    SNIC_ASSERT(op->number_count < KVFS_NUMBERS_MAX);
    if (k->ino_next < k->ino_end) {
        SNIC_ASSERT(k->ino_end <= SNIC_KVFS_INO_MAX);
        op->numbers[op->number_count++] = k->ino_next++;
        op->number_wait = 0;
        *ino = op->numbers[op->number_at++];
        return 0;
    }
    if (op->number_wait && !k->ino_fetching && k->ino_error != 0)
        return k->ino_error;
    if (!k->ino_fetching && kvfs_spawn(k, KVFS_OWN_NUMBERS, k->session.id) != NULL)
        k->ino_fetching = 1;
    op->number_wait = k->ino_fetching;
    return kvfs_wait(op, &k->ino_waiters, SNIC_NEVER, 0);
}
