/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sole and shared: marks, and the change from one mode to the other.
 */
#include "snicstore/kv.h"

#if defined(SNIC_WITH_LMDB)

#include <lmdb.h>
#include <pthread.h>

#include "kv/lmdb_priv.h"

void lmdb_marks_clean(struct lmdb_kv *s)
{
    lmdb_chunks_harden(s);
    lmdb_space_unmark(s);
    s->overwrite_ns = snic_loop_now(s->kv.loop);
}

int lmdb_mode_settle(struct lmdb_kv *s)
{
    if (s->mode == LMDB_SOLE)
        lmdb_marks_clean(s);
    return lmdb_batch_drain(s);
}

void lmdb_mode_look(struct lmdb_kv *s)
{
    (void)s;
}

void lmdb_mode_step(struct lmdb_kv *s)
{
    (void)s;
}

void lmdb_mode_claim(struct lmdb_kv *s, uint64_t now_ns)
{
    (void)s;
    (void)now_ns;
}

int lmdb_recover(struct lmdb_kv *s, char *text)
{
    (void)s;
    (void)text;
    return 0;
}

#endif /* SNIC_WITH_LMDB */
