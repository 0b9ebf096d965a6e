/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The writer: the thread that makes a batch one LMDB transaction. mdb_txn_commit() returns when
 * pages, their sync and the meta page are on the medium.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <signal.h>

void lmdb_writer_run(struct lmdb_kv *s, struct lmdb_batch *b)
{
    MDB_txn *txn = NULL;
    (void)pthread_mutex_lock(&s->writer.txn);
    int e = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (e == 0) {
        e = lmdb_txn_batch(s, txn, b);
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

void lmdb_writer_init(struct lmdb_kv *s, snic_loop_msg_fn over)
{
    struct lmdb_writer *w = &s->writer;
    w->msg.fn = over;
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
