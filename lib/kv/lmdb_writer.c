/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The writer: the thread that makes a batch one LMDB transaction. mdb_txn_commit() returns when
 * pages, their sync and the meta page are on the medium.
 */
#include "snicstore/kv.h"

#if defined(SNIC_WITH_LMDB)
#include <lmdb.h>
#include <pthread.h>
#endif

#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <signal.h>

int lmdb_txn_put(MDB_txn *txn, MDB_dbi dbi, const void *key, uint32_t key_size, const void *value,
                 uint32_t size)
{
    unsigned char head[LMDB_KEY_MAX];
    SNIC_ASSERT(key_size <= sizeof(head));
    memcpy(head, key, key_size);
    MDB_val k = {.mv_size = key_size, .mv_data = head};
    MDB_val v = {.mv_size = size + LMDB_RECORD_TAIL};
    int e = mdb_put(txn, dbi, &k, &v, MDB_RESERVE);
    if (e != 0)
        return e;
    unsigned char *to = v.mv_data;
    memcpy(to, value, size);
    snic_put_le32(to + size, snic_crc32c(snic_crc32c(0, head, key_size), value, size));
    return 0;
}

static int lmdb_writer_table(struct lmdb_kv *s, MDB_txn *txn, const struct lmdb_table *t)
{
    SNIC_DASSERT(lmdb_table_check(t) == 0);
    for (const struct lmdb_entry *e = t->head[0]; e != NULL; e = e->next[0]) {
        int r;
        if (e->size == SNIC_LMDB__DELETED) {
            unsigned char head[LMDB_KEY_MAX];
            memcpy(head, e->key, e->key_size);
            MDB_val k = {.mv_size = e->key_size, .mv_data = head};
            r = mdb_del(txn, s->dbi, &k, NULL);
            r = r == MDB_NOTFOUND ? 0 : r;
        } else {
            r = lmdb_txn_put(txn, s->dbi, e->key, e->key_size, e->value, e->size);
        }
        if (r != 0)
            return r;
    }
    return 0;
}

static int lmdb_writer_body(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b)
{
    for (struct snic_node *n = b->commits.first; n != NULL; n = n->next) {
        int e = lmdb_commit_inside(s, txn, SNIC_CONTAINER(n, struct snic_kv_req, node)->op);
        if (e != 0)
            return e;
    }
    int e = lmdb_writer_table(s, txn, &b->table);
    return e != 0 ? e : lmdb_shared_body(s, txn, b);
}

void lmdb_writer_run(struct lmdb_kv *s, struct lmdb_batch *b)
{
    MDB_txn *txn = NULL;
    (void)pthread_mutex_lock(&s->writer.txn);
    int e = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (e == 0) {
        e = lmdb_writer_body(s, txn, b);
        if (e == 0)
            e = mdb_txn_commit(txn); /* aborts it on failure */
        else
            mdb_txn_abort(txn);
    }
    (void)pthread_mutex_unlock(&s->writer.txn);
    b->os_error = e;
    b->result = e == MDB_MAP_RESIZED ? SNIC_EAGAIN : lmdb_error(e);
}

static void *lmdb_writer_main(void *arg)
{
    struct lmdb_kv *s = arg;
    struct lmdb_writer *w = &s->writer;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->work == NULL && !w->stop)
            (void)pthread_cond_wait(&w->wake, &w->lock);
        struct lmdb_batch *b = w->work;
        if (b == NULL)
            break;
        w->work = NULL;
        (void)pthread_mutex_unlock(&w->lock);
        lmdb_writer_run(s, b);
        snic_loop_post(s->kv.loop, &w->msg);
        (void)pthread_mutex_lock(&w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

void lmdb_writer_post(struct lmdb_kv *s, struct lmdb_batch *b)
{
    struct lmdb_writer *w = &s->writer;
    (void)pthread_mutex_lock(&w->lock);
    SNIC_ASSERT(w->work == NULL);
    w->work = b;
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
}

void lmdb_writer_init(struct lmdb_kv *s)
{
    struct lmdb_writer *w = &s->writer;
    w->msg.fn = lmdb_batch_over;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_mutex_init(&w->txn, NULL);
    (void)pthread_cond_init(&w->wake, NULL);
}

int lmdb_writer_open(struct lmdb_kv *s)
{
    /* The program's signals are for its own threads. */
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    s->writer.running = pthread_create(&s->writer.thread, NULL, lmdb_writer_main, s) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s->writer.running ? 0 : SNIC_ENOMEM;
}

void lmdb_writer_close(struct lmdb_kv *s)
{
    struct lmdb_writer *w = &s->writer;
    if (w->running) {
        (void)pthread_mutex_lock(&w->lock);
        w->stop = 1;
        (void)pthread_cond_signal(&w->wake);
        (void)pthread_mutex_unlock(&w->lock);
        (void)pthread_join(w->thread, NULL);
        w->running = 0;
    }
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->txn);
    (void)pthread_mutex_destroy(&w->lock);
}

#endif /* SNIC_WITH_LMDB */
