/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine on a store in memory. */
#include "test_kvfs_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The engine and its store ---- */

static void kvt_damage(void *ctx, const struct snic_kvfs_damage *d)
{
    struct kvt *t = ctx;
    if (t->damages < KVT_DAMAGES)
        t->damage[t->damages] = *d;
    t->damages++;
}

void kvt_opts(struct snic_kvfs_opts *o)
{
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    o->requests_max = 64;
    o->inodes_max = 256;
    o->locks_max = 256;
    o->cache_bytes = 1U << 20;
    o->times_ns = 1000000000;
    o->stripe_bytes = 4U << 20;
    o->caps = SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_CHECKSUM |
              SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED;
    o->session_id = 1;
}

void kvt_medium(struct snic_kvmem **m, uint32_t caps)
{
    struct snic_kvmem_opts o = {.opts_size = sizeof(o), .caps = caps, .seed = support_seed()};
    assert_int_equal(snic_kvmem_open(m, &o), 0);
}

void kvt_open_on(struct kvt *t, struct snic_kvmem *m, const struct snic_kvfs_opts *o)
{
    size_t size;
    memset(t, 0, sizeof(*t));
    if (o != NULL)
        t->o = *o;
    else
        kvt_opts(&t->o);
    t->m = m;
    t->o.damage = kvt_damage;
    t->o.ctx = t;
    t->now.mono_ns = 1000000000;
    t->now.wall_ns = 1700000000000000000;
    snic_rng_init(&t->rng, support_seed());
    size = snic_kvfs_memsize(&t->o);
    assert_true(size > 0);
    t->mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_kvfs_init(&t->k, t->mem, size, &t->o), 0);
    snic_kvfs_set_sole(t->k, 1);
}

void kvt_open(struct kvt *t, const struct snic_kvfs_opts *o)
{
    struct snic_kvfs_opts mine;
    struct snic_kvmem *m;
    kvt_opts(&mine);
    kvt_medium(&m, o != NULL ? o->caps : mine.caps);
    kvt_open_on(t, m, o);
    t->owns_medium = 1;
    assert_int_equal(kvt_mkfs(t), 0);
    assert_int_equal(kvt_mount(t), 0);
}

void kvt_close(struct kvt *t)
{
    if (t->mounted && !t->quiet)
        assert_int_equal(kvt_unmount(t), 0);
    kvt_settle(t);
    kvt_check(t);
    assert_ptr_equal(snic_kvfs_fini(t->k), t->mem);
    support_guard_free(t->mem);
    if (t->owns_medium) {
        assert_int_equal(snic_kvmem_check(t->m), 0);
        snic_kvmem_close(t->m);
    }
}

void kvt_check(struct kvt *t)
{
    assert_int_equal(snic_kvfs_check(t->k), 0);
}

/* ---- Driving it ---- */

static void kvt_apply(struct kvt *t, struct snic_kvop *op)
{
    if (t->before != NULL)
        t->before(t, op);
    if (t->apply != NULL)
        t->apply(t, op);
    else
        snic_kvmem_apply(t->m, op);
    t->applied++;
}

static void kvt_collect(struct kvt *t)
{
    struct snic_kvfs_io *io;
    while (t->in_flight < KVT_FLIGHT && (io = snic_kvfs_poll_io(t->k)) != NULL) {
        if (t->early)
            kvt_apply(t, &io->op);
        t->flight[t->in_flight++] = io;
    }
}

int kvt_step(struct kvt *t)
{
    struct snic_kvfs_io *io;
    uint32_t at = 0;
    kvt_collect(t);
    if (t->in_flight == 0)
        return 0;
    if (t->random)
        at = (uint32_t)snic_rng_below(&t->rng, t->in_flight);
    io = t->flight[at];
    memmove(&t->flight[at], &t->flight[at + 1], (t->in_flight - at - 1) * sizeof(t->flight[0]));
    t->in_flight--;
    if (!t->early)
        kvt_apply(t, &io->op);
    t->now.mono_ns += 1000;
    t->now.wall_ns += 1000;
    snic_kvfs_complete(t->k, io, t->now);
    return 1;
}

void kvt_settle(struct kvt *t)
{
    while (kvt_step(t))
        continue;
}

void kvt_advance(struct kvt *t, uint64_t ns)
{
    t->now.mono_ns += ns;
    t->now.wall_ns += (int64_t)ns;
    snic_kvfs_advance(t->k, t->now);
}

void kvt_submit(struct kvt *t, struct snic_fsop *req)
{
    assert_int_equal(snic_kvfs_submit(t->k, req, t->now), 0);
}

struct snic_fsop *kvt_wait(struct kvt *t)
{
    struct snic_fsop *req;
    for (uint32_t idle = 0; (req = snic_kvfs_poll_done(t->k)) == NULL;) {
        uint64_t deadline;
        if (kvt_step(t)) {
            idle = 0;
            continue;
        }
        deadline = snic_kvfs_deadline_ns(t->k);
        if (deadline == SNIC_NEVER || idle++ == 100000)
            return NULL;
        kvt_advance(t, deadline > t->now.mono_ns ? deadline - t->now.mono_ns : 0);
    }
    return req;
}

int64_t kvt_call(struct kvt *t, struct snic_fsop *req)
{
    struct snic_fsop *done;
    kvt_submit(t, req);
    done = kvt_wait(t);
    assert_ptr_equal(done, req);
    return req->result;
}

static int kvt_simple(struct kvt *t, enum snic_fsop_kind kind)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, 0, NULL);
    return (int)kvt_call(t, &req);
}

int kvt_mkfs(struct kvt *t)
{
    return kvt_simple(t, SNIC_FSOP_MKFS);
}

int kvt_mount(struct kvt *t)
{
    int rc = kvt_simple(t, SNIC_FSOP_MOUNT);
    t->mounted = t->mounted || rc == 0;
    return rc;
}

int kvt_unmount(struct kvt *t)
{
    t->mounted = 0;
    return kvt_simple(t, SNIC_FSOP_UNMOUNT);
}

/* ---- Calls ---- */

void kvt_req(struct kvt *t, struct snic_fsop *req, enum snic_fsop_kind kind, uint64_t ino,
             const char *name)
{
    memset(req, 0, sizeof(*req));
    req->kind = kind;
    req->flags = t->flags;
    req->cred = t->cred;
    req->ino = ino;
    req->name = name;
    req->name_size = name == NULL ? 0 : (uint32_t)strlen(name);
}

static int64_t kvt_made(struct kvt *t, struct snic_fsop *req)
{
    int64_t rc = kvt_call(t, req);
    return rc < 0 ? rc : (int64_t)req->attr.ino;
}

int64_t kvt_try_lookup(struct kvt *t, uint64_t dir, const char *name)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_LOOKUP, dir, name);
    return kvt_made(t, &req);
}

int64_t kvt_try_resolve(struct kvt *t, uint64_t dir, const char *path)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RESOLVE, dir, path);
    return kvt_made(t, &req);
}

int64_t kvt_try_mkdir(struct kvt *t, uint64_t dir, const char *name, uint32_t mode)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_MKDIR, dir, name);
    req.mode = mode;
    return kvt_made(t, &req);
}

int64_t kvt_try_create(struct kvt *t, uint64_t dir, const char *name, uint32_t mode)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_CREATE, dir, name);
    req.mode = mode;
    req.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    return kvt_made(t, &req);
}

int64_t kvt_try_mknod(struct kvt *t, uint64_t dir, const char *name, uint32_t mode, uint64_t rdev)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_MKNOD, dir, name);
    req.mode = mode;
    req.rdev = rdev;
    return kvt_made(t, &req);
}

int64_t kvt_try_symlink(struct kvt *t, uint64_t dir, const char *name, const char *target)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_SYMLINK, dir, name);
    req.name2 = target;
    req.name2_size = (uint32_t)strlen(target);
    return kvt_made(t, &req);
}

static uint64_t kvt_sure(int64_t rc)
{
    if (rc <= 0)
        print_error("%s\n", snic_errname((int)rc));
    assert_true(rc > 0);
    return (uint64_t)rc;
}

uint64_t kvt_lookup(struct kvt *t, uint64_t dir, const char *name)
{
    return kvt_sure(kvt_try_lookup(t, dir, name));
}

uint64_t kvt_mkdir(struct kvt *t, uint64_t dir, const char *name, uint32_t mode)
{
    return kvt_sure(kvt_try_mkdir(t, dir, name, mode));
}

uint64_t kvt_create(struct kvt *t, uint64_t dir, const char *name, uint32_t mode)
{
    return kvt_sure(kvt_try_create(t, dir, name, mode));
}

uint64_t kvt_file(struct kvt *t, uint64_t dir, const char *name, uint32_t mode)
{
    return kvt_sure(kvt_try_mknod(t, dir, name, 0100000 | mode, 0));
}

int64_t kvt_release(struct kvt *t, uint64_t ino, uint32_t open_flags)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RELEASE, ino, NULL);
    req.handle = (1ULL << 63) | (ino << 2) | ((open_flags >> 10) & 3U);
    return kvt_call(t, &req);
}

int64_t kvt_unlink(struct kvt *t, uint64_t dir, const char *name)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_UNLINK, dir, name);
    return kvt_call(t, &req);
}

int64_t kvt_rmdir(struct kvt *t, uint64_t dir, const char *name)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RMDIR, dir, name);
    return kvt_call(t, &req);
}

int64_t kvt_rename(struct kvt *t, uint64_t dir, const char *name, uint64_t dir2, const char *name2,
                   uint32_t flags)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RENAME, dir, name);
    req.ino2 = dir2;
    req.name2 = name2;
    req.name2_size = (uint32_t)strlen(name2);
    req.flags |= flags;
    return kvt_call(t, &req);
}

int64_t kvt_link(struct kvt *t, uint64_t ino, uint64_t dir, const char *name)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_LINK, ino, NULL);
    req.ino2 = dir;
    req.name2 = name;
    req.name2_size = (uint32_t)strlen(name);
    return kvt_call(t, &req);
}

int64_t kvt_getattr(struct kvt *t, uint64_t ino, struct snic_fsop_attr *out)
{
    struct snic_fsop req;
    int64_t rc;
    kvt_req(t, &req, SNIC_FSOP_GETATTR, ino, NULL);
    rc = kvt_call(t, &req);
    if (rc == 0)
        *out = req.attr;
    return rc;
}

struct snic_fsop_attr kvt_attr(struct kvt *t, uint64_t ino)
{
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(t, ino, &a), 0);
    return a;
}

struct snic_fsop_attr kvt_stored(struct kvt *t, uint64_t ino)
{
    unsigned char value[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get get = {.value = value, .room = sizeof(value)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    struct snic_fsop_attr a;
    snic_kvfs_key(&get.key, ino, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(t->m, &op);
    assert_int_equal(get.result, 0);
    assert_int_equal(snic_kvfs_attr_decode(&a, value, get.size), 0);
    return a;
}

int kvt_time_later(struct snic_fsop_time a, struct snic_fsop_time b)
{
    return a.sec > b.sec || (a.sec == b.sec && a.nsec > b.nsec);
}

int kvt_time_equal(struct snic_fsop_time a, struct snic_fsop_time b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

int64_t kvt_access(struct kvt *t, uint64_t ino, uint32_t want)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_ACCESS, ino, NULL);
    req.mode = want;
    return kvt_call(t, &req);
}

int64_t kvt_setattr(struct kvt *t, uint64_t ino, uint32_t mask, struct snic_fsop_attr *a)
{
    struct snic_fsop req;
    int64_t rc;
    kvt_req(t, &req, SNIC_FSOP_SETATTR, ino, NULL);
    req.set_mask = mask;
    req.attr = *a;
    rc = kvt_call(t, &req);
    if (rc == 0)
        *a = req.attr;
    return rc;
}

int64_t kvt_truncate(struct kvt *t, uint64_t ino, uint64_t size)
{
    struct snic_fsop_attr a = {.size = size};
    return kvt_setattr(t, ino, SNIC_FSOP_SET_SIZE, &a);
}

static int64_t kvt_data(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino, uint64_t offset,
                        void *bytes, size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {.base = bytes, .size = size};
    kvt_req(t, &req, kind, ino, NULL);
    req.offset = offset;
    req.length = size;
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

int64_t kvt_readlink(struct kvt *t, uint64_t ino, char *out, size_t room)
{
    return kvt_data(t, SNIC_FSOP_READLINK, ino, 0, out, room);
}

int64_t kvt_write(struct kvt *t, uint64_t ino, uint64_t offset, const void *bytes, size_t size)
{
    return kvt_data(t, SNIC_FSOP_WRITE, ino, offset, (void *)(uintptr_t)bytes, size);
}

int64_t kvt_read(struct kvt *t, uint64_t ino, uint64_t offset, void *out, size_t room)
{
    return kvt_data(t, SNIC_FSOP_READ, ino, offset, out, room);
}
