/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A file system of one file, mounted by this system's kernel: a child process uses it. */
#include "test_fusedev_served.h"

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned char served_byte(uint64_t i)
{
    return (unsigned char)(i * 7 + (i >> 8));
}

/* ---- The file system ---- */

static void attr_of(const struct served *s, uint64_t node, struct snic_fuse_attr *a)
{
    a->ino = node;
    a->mode = node == SNIC_FUSE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0666;
    a->nlink = 1;
    a->size = node == SNIC_FUSE_ROOT ? 0 : s->size;
    a->blksize = 4096;
}

static void serve_lookup(struct served *s, struct snic_fusedev_call *c, struct snic_fuse_answer *a)
{
    const struct snic_fuse_request *r = &c->request;

    if (r->name_size == 3 && memcmp(r->name, "odd", 3) == 0) {
        a->head.error = -600; /* no error of the kernel's */
        assert_int_equal(snic_fusedev_reply(c, a), SNIC_EINVAL);
        return;
    }
    if (r->head.nodeid != SNIC_FUSE_ROOT || r->name_size != 4 || memcmp(r->name, "data", 4) != 0) {
        (void)snic_fusedev_reply_error(c, SNIC_ENOENT);
        return;
    }
    a->out.entry.nodeid = NODE;
    a->out.entry.entry_valid = 1000;
    a->out.entry.attr_valid = 1000;
    attr_of(s, NODE, &a->out.entry.attr);
    s->looked_up++;
    (void)snic_fusedev_reply(c, a);
}

static void serve_readdir(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_request *r = &c->request;
    struct snic_fuse_dirent d = {NODE, 1, 4, S_IFREG >> 12};
    struct snic_fuse_entry_out plus;
    unsigned char space[512];
    struct snic_iov iov = {space, 0};
    int n = 0;

    memset(&plus, 0, sizeof(plus));
    plus.nodeid = NODE;
    attr_of(s, NODE, &plus.attr);
    if (r->in.read.offset == 0)
        n = snic_fuse_dirent_put(space, sizeof(space), &d, "data",
                                 r->head.opcode == SNIC_FUSE_READDIRPLUS ? &plus : NULL);
    s->looked_up += n > 0 && r->head.opcode == SNIC_FUSE_READDIRPLUS;
    iov.size = n > 0 ? (size_t)n : 0;
    (void)snic_fusedev_reply_data(c, &iov, 1);
}

static void serve_read(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_read_in *in = &c->request.in.read;
    uint64_t at = snic_min_u64(in->offset, s->size);
    uint64_t n = snic_min_u64(in->size, s->size - at);
    struct snic_iov iov[2] = {{s->bytes + at, (size_t)n / 2},
                              {s->bytes + at + n / 2, (size_t)(n - n / 2)}};

    (void)snic_fusedev_reply_data(c, iov, 2);
}

static void serve_write(struct served *s, struct snic_fusedev_call *c, struct snic_fuse_answer *a)
{
    const struct snic_fuse_request *r = &c->request;

    if (r->in.write.offset > SIZE || r->data_size > SIZE - r->in.write.offset) {
        (void)snic_fusedev_reply_error(c, SNIC_EFBIG);
        return;
    }
    if ((uintptr_t)r->data % 4096 != 0)
        s->result = -1; /* promised */
    memcpy(s->bytes + r->in.write.offset, r->data, r->data_size);
    a->out.write.size = r->data_size;
    (void)snic_fusedev_reply(c, a);
}

static void serve_wait(struct served *s, struct snic_fusedev_call *c)
{
    s->waits[s->waits_count++] = c;
    s->waits_most = (uint32_t)snic_max_u64(s->waits_most, s->waits_count);
}

static void served_answer(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_request *r = &c->request;
    struct snic_fuse_answer a;

    snic_fuse_answer_begin(&a, r);
    switch (r->head.opcode) {
    case SNIC_FUSE_LOOKUP:
        serve_lookup(s, c, &a);
        break;
    case SNIC_FUSE_GETATTR:
        a.out.attr.attr_valid = 1000;
        attr_of(s, r->head.nodeid, &a.out.attr.attr);
        (void)snic_fusedev_reply(c, &a);
        break;
    case SNIC_FUSE_READDIR:
    case SNIC_FUSE_READDIRPLUS:
        serve_readdir(s, c);
        break;
    case SNIC_FUSE_READ:
        serve_read(s, c);
        break;
    case SNIC_FUSE_WRITE:
        serve_write(s, c, &a);
        break;
    case SNIC_FUSE_STATFS:
        a.out.statfs.bsize = 4096;
        a.out.statfs.namelen = SNIC_FUSE_NAME_MAX;
        (void)snic_fusedev_reply(c, &a);
        break;
    case SNIC_FUSE_SETLKW:
        if (r->in.lk.lk.type != SNIC_FUSE_UNLCK && !c->interrupted)
            serve_wait(s, c);
        else
            (void)snic_fusedev_reply_error(c, c->interrupted ? SNIC_EINTR : 0);
        break;
    case SNIC_FUSE_IOCTL:
    case SNIC_FUSE_STATX: /* the kernel does without */
    case SNIC_FUSE_GETXATTR:
        a.head.len = sizeof(a.head);
        a.head.error = snic_fuse_refusal(SNIC_ENOTSUP, r->head.opcode);
        (void)snic_fusedev_reply(c, &a);
        break;
    default:
        (void)snic_fusedev_reply(c, &a);
        break;
    }
}

static void on_request(void *ctx, struct snic_fusedev_call *c)
{
    struct served *s = ctx;

    s->requests++;
    s->most = (uint32_t)snic_max_u64(s->most, snic_fusedev_calls(s->dev));
    if (s->hold && s->held_count < HELD)
        s->held[s->held_count++] = c;
    else
        served_answer(s, c);
}

static void on_forget(void *ctx, uint64_t nodeid, uint64_t nlookup)
{
    struct served *s = ctx;

    if (nodeid == NODE)
        s->forgotten += nlookup;
}

static void on_interrupt(void *ctx, struct snic_fusedev_call *c)
{
    struct served *s = ctx;

    s->interrupts++;
    for (uint32_t i = 0; i < s->waits_count; i++)
        if (c == s->waits[i]) {
            s->waits[i] = s->waits[--s->waits_count];
            (void)snic_fusedev_reply_error(c, SNIC_EINTR);
            return;
        }
}

static void on_closed(void *ctx, int result)
{
    struct served *s = ctx;

    s->closed++;
    s->result = s->result != 0 ? s->result : result;
}

/* ---- Serving ---- */

void served_begin(struct served *s, uint32_t calls_max, uint32_t flags)
{
    static const struct snic_fusedev_ops ops = {sizeof(ops),  0,        on_request, on_forget,
                                                on_interrupt, on_closed};
    struct snic_fusedev_opts o = {
        .opts_size = sizeof(o), .calls_max = calls_max, .ops = &ops, .flags = flags};
    size_t size;
    int rc;

    memset(s, 0, sizeof(*s));
    s->flags = flags;
    s->size = SIZE;
    s->bytes = malloc(SIZE);
    assert_non_null(s->bytes);
    for (uint64_t i = 0; i < SIZE; i++)
        s->bytes[i] = served_byte(i);
    if (snic_loop_uring_open(&s->loop, NULL) != 0)
        support_skip("no io_uring");
    snprintf(s->dir, sizeof(s->dir), "%s/mnt", support_tmpdir());
    (void)mkdir(s->dir, 0700);
    rc = snic_fusedev_mount(s->dir, "snic_test", NULL, &s->fd);
    if (rc == SNIC_EPERM || rc == SNIC_EACCES || rc == SNIC_ENOENT || rc == SNIC_ENXIO) {
        snic_loop_close(s->loop);
        free(s->bytes);
        support_skip("no permission to mount /dev/fuse");
    }
    assert_int_equal(rc, 0);
    o.loop = s->loop;
    o.ctx = s;
    o.fd = s->fd;
    o.offer.offer_size = sizeof(o.offer);
    o.offer.max_write = 256 << 10;
    o.offer.flags = SNIC_FUSE_POSIX_LOCKS | SNIC_FUSE_ASYNC_READ | SNIC_FUSE_DO_READDIRPLUS |
                    SNIC_FUSE_PARALLEL_DIROPS | SNIC_FUSE_HAS_EXPIRE_ONLY;
    size = snic_fusedev_memsize(&o);
    assert_true(size > 0);
    s->mem = support_guard_alloc(size, SNIC_FUSEDEV_ALIGN);
    assert_int_equal(snic_fusedev_init(&s->dev, s->mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_fusedev_init(&s->dev, s->mem, size, &o), 0);
    assert_int_equal(pipe(s->to_parent), 0);
    assert_int_equal(pipe(s->to_child), 0);
    assert_int_equal(fcntl(s->to_parent[0], F_SETFL, O_NONBLOCK), 0);
}

void served_turn(struct served *s)
{
    uint32_t before = s->requests;

    if (s->flags == 0) {
        (void)snic_loop_once(s->loop, 2000000);
        return;
    }
    assert_int_equal(snic_fusedev_arm(s->dev), 0);
    (void)snic_loop_once(s->loop, 2000000);
    assert_int_equal(s->requests, before);
    while (snic_fusedev_poll(s->dev) > 0)
        ;
}

void served_run(struct served *s, body_fn body)
{
    pid_t pid = fork();
    int status = 0;
    char byte;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(s->fd);
        _exit(body(s));
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        served_turn(s);
        while (s->held_count > 0)
            served_answer(s, s->held[--s->held_count]);
        if (read(s->to_parent[0], &byte, 1) == 1) {
            struct snic_fuse_answer a;

            s->size = 777;
            snic_fuse_notify_inode(&a, NODE, 0, 0);
            assert_int_equal(snic_fusedev_notify(s->dev, &a, NULL, 0), 0);
            assert_int_equal(write(s->to_child[1], &byte, 1), 1);
        }
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        printf("the child failed at check %d\n", WEXITSTATUS(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int body_unmount(struct served *s)
{
    return snic_fusedev_unmount(s->dir) == 0 ? 0 : 1;
}

void served_release(struct served *s)
{
    assert_int_equal(snic_fusedev_calls(s->dev), 0);
    assert_ptr_equal(snic_fusedev_fini(s->dev), s->mem);
    support_guard_free(s->mem);
    (void)close(s->fd);
    for (int i = 0; i < 2; i++) {
        (void)close(s->to_parent[i]);
        (void)close(s->to_child[i]);
    }
    snic_loop_close(s->loop);
    free(s->bytes);
}

void served_end(struct served *s)
{
    served_run(s, body_unmount);
    for (int i = 0; i < 1000 && !s->closed; i++)
        served_turn(s);
    assert_int_equal(s->closed, 1);
    assert_int_equal(s->result, 0);
    served_release(s);
}

void served_path(const struct served *s, char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", s->dir, name);
}
