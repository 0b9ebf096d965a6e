/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The file system in this process: its thread owns the loop, and may be the reader, too. */
#include "mount.h"

#include "../common.h"

static uint64_t local_valid(const struct km *m)
{
    return snic_kvfs_valid_until_ns(snic_fs_engine(m->store.fs));
}

static void local_done(struct snic_fs_req *r)
{
    struct km_call *c = SNIC_CONTAINER(r, struct km_call, r);
    struct km *m = c->m;

    (void)km_valid_set(m, atomic_load_explicit(&m->alone, memory_order_relaxed), local_valid(m));
    km_call_done(c);
}

/* By this and not by snic_fs_post(): a cancellation reads the request, which only the loop's thread
   uses once it has arrived here. */
static void local_posted(struct snic_loop_msg *msg)
{
    struct km_call *c = SNIC_CONTAINER(msg, struct km_call, post);

    snic_fs_submit(c->m->store.fs, &c->r);
}

static void local_submit(struct km *m, struct km_call *c)
{
    c->r.done = local_done;
    if (pthread_equal(pthread_self(), m->owner)) {
        snic_fs_submit(m->store.fs, &c->r);
    } else {
        c->post.fn = local_posted;
        snic_loop_post(m->loop, &c->post);
    }
}

static int local_cancel(struct km *m, struct km_call *c)
{
    if (c->r.msg.fn == NULL) /* fs.h's while it has the request */
        return 0;
    snic_fs_cancel(m->store.fs, &c->r);
    return 1;
}

static const struct km_carrier local_carrier = {.submit = local_submit, .cancel = local_cancel};

/* Other sessions have arrived, and wait until we acknowledge that, or have left. */
static void local_alone(struct kvfs_store *s, int alone)
{
    struct km *m = SNIC_CONTAINER(s, struct km, store);

    (void)km_valid_set(m, alone, local_valid(m));
    if (m->se != NULL)
        km_notify_expire(m);
}

/* Is the session alive? */
static void local_look(struct snic_timer *t, uint64_t now)
{
    struct km *m = SNIC_CONTAINER(t, struct km, look);
    struct snic_kvfs_stats s;

    snic_kvfs_get_stats(snic_fs_engine(m->store.fs), &s);
    km_store_judge(&m->store, &s, &m->dead);
    (void)km_valid_set(m, s.alone != 0, local_valid(m));
    km_valid_look(m);
    snic_loop_arm(m->loop, t, now + 100000000u);
}

int km_local_open(struct km *m)
{
    const struct km_config *c = m->config;
    int mem;
    int rc;

    m->carrier = &local_carrier;
    m->store.spec = c->store;
    m->store.loop = m->loop;
    m->store.alone = local_alone;
    m->store.cache_bytes = c->cache_bytes; /* of records: 0 is 16 */
    m->store.requests = KM_REQUESTS;
    m->store.inodes = km_inodes(c);
    m->store.create = c->mkfs;
    m->store.sole = c->exclusive;
    m->store.read_only = c->read_only;
    m->store.flags = c->atime | c->diratime;
    rc = kvfs_store_open(&m->store);
    if (rc != 0)
        return rc;
    mem = m->store.medium != NULL; /* it is empty at each start */
    rc = kvfs_store_mount(&m->store, c->mkfs || mem);
    if (rc != 0)
        return rc;
    m->mounted = 1;
    snic_timer_init(&m->look, local_look);
    snic_loop_arm(m->loop, &m->look, snic_loop_now(m->loop) + 100000000u);
    return 0;
}

int km_local_close(struct km *m)
{
    int rc = 0;

    if (m->mounted) {
        snic_loop_cancel(m->loop, &m->look);
        rc = snic_fs_unmount(m->store.fs);
        if (rc != 0)
            ex_log(EX_ERROR, "cannot unmount store %s: %s", m->store.spec, snic_strerror(rc));
    }
    kvfs_store_close(&m->store);
    return rc;
}
