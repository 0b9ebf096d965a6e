/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director on real sockets: replies of all sizes out of the offload engine's memory, copied, as
 * they lie there, and with zero copy. */
#include "snicstore.h"
#include "support.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, READ_MAX = 128 << 10, MESSAGE = 8, HEAD = 8, TAIL = 3, WINDOW = 24 };

/* A message is {offset, size}; its reply is the same, those bytes of the file, and "end". */
struct node {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *io;
    struct snic_files *files;
    struct snic_offload *offload;
    struct snic_director *d;
    void *files_mem, *offload_mem, *director_mem;
    uint64_t file;
    struct snic_net_addr at;
    char path[64];
    int drained;
};

static unsigned char content(uint64_t at)
{
    return (unsigned char)(at * 131 + (at >> 9) * 7);
}

static int64_t node_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= MESSAGE ? MESSAGE : 0;
}

static void node_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    (void)user;
    (void)msg;
    (void)size;
    out->route = SNIC_DIRECTOR_DPU;
}

static uint32_t node_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                           uint32_t max)
{
    (void)ctx;
    (void)error;
    (void)data;
    (void)size;
    memset(out, 'E', max);
    return HEAD;
}

/* No context or buffer is free: the client will ask again. */
static uint32_t node_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                          uint32_t max)
{
    return node_error(ctx, 0, msg, size, out, max);
}

static int node_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                     struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct node *n = ctx;
    (void)o;
    (void)reply;
    out->file = n->file;
    out->offset = snic_get_le32(msg->data);
    out->size = snic_get_le32(msg->data + 4);
    return 0;
}

static enum snic_offload_verdict node_reply(void *ctx, const struct snic_offload_msg *msg,
                                            const struct snic_offload_read *op,
                                            const unsigned char *data, int64_t result, uint64_t now,
                                            struct snic_offload_reply *out)
{
    (void)ctx;
    (void)data;
    (void)now;
    assert_int_equal(result, op->size);
    memcpy(out->header, msg->data, HEAD);
    memcpy(out->trailer, "end", TAIL);
    out->header_size = HEAD;
    out->trailer_size = TAIL;
    out->take = op->size;
    return SNIC_OFFLOAD_SEND;
}

static void node_open_files(struct node *n)
{
    struct snic_io_uring_opts io = {.opts_size = sizeof(io), .flags = SNIC_IO_OPEN_CREATE};
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo), .segment_bytes = 65536};
    struct snic_files_req r = {.op = SNIC_FILES_CREATE, .name = "f", .name_size = 1};
    struct snic_files_info info;
    unsigned char *bytes = malloc(FILE_BYTES);
    int os = 0;
    (void)snprintf(n->path, sizeof(n->path), "/tmp/snic_large.XXXXXX");
    int fd = mkstemp(n->path);
    assert_true(fd >= 0 && bytes != NULL);
    (void)close(fd);
    io.path = n->path;
    io.size = 8u << 20;
    assert_int_equal(snic_io_uring_open(&n->io, n->loop, &io, &os), 0);
    assert_int_equal(snic_files_format(n->io, &fo), 0);
    assert_int_equal(snic_files_probe(n->io, &info), 0);
    size_t size = snic_files_memsize(&info, NULL);
    n->files_mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
    assert_int_equal(snic_files_mount(&n->files, n->files_mem, size, n->io, NULL), 0);
    assert_int_equal(snic_files_run(n->files, &r), 0);
    n->file = r.id;
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = content(i);
    struct snic_files_req w = {.op = SNIC_FILES_WRITE,
                               .file = n->file,
                               .length = FILE_BYTES,
                               .buf = {bytes, FILE_BYTES},
                               .region = SNIC_NO_REGION};
    assert_int_equal(snic_files_run(n->files, &w), FILE_BYTES);
    free(bytes);
}

static void node_open(struct node *n, uint32_t zc_bytes_min)
{
    struct snic_net_uring_opts no = {.opts_size = sizeof(no), .zc_bytes_min = zc_bytes_min};
    struct snic_offload_user ou = {.func = node_func, .reply = node_reply, .ctx = n};
    struct snic_offload_opts oo = {.opts_size = sizeof(oo),
                                   .key_size = 8,
                                   .item_size = 8,
                                   .cache_capacity = 16,
                                   .contexts = 64,
                                   .read_max = READ_MAX,
                                   .pool_bytes = 1u << 20}; /* few: used again at once */
    struct snic_director_user u = {.frame = node_frame,
                                   .predicate = node_predicate,
                                   .protocol_error = node_error,
                                   .host_gone = node_gone,
                                   .ctx = n};
    struct snic_director_opts o = {.opts_size = sizeof(o),
                                   .flags = SNIC_DIRECTOR_IN_ORDER,
                                   .conns_max = 8,
                                   .message_max = 4096,
                                   .pool_bytes = 8u << 20};
    memset(n, 0, sizeof(*n));
    assert_int_equal(snic_loop_uring_open(&n->loop, NULL), 0);
    assert_int_equal(snic_net_uring_open(&n->net, n->loop, &no), 0);
    node_open_files(n);
    size_t size = snic_offload_memsize(&oo);
    n->offload_mem = support_guard_alloc(size, SNIC_OFFLOAD_ALIGN);
    assert_int_equal(
        snic_offload_init(&n->offload, n->offload_mem, size, n->loop, n->files, &ou, &oo), 0);
    size = snic_director_memsize(&o);
    n->director_mem = support_guard_alloc(size, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&n->d, n->director_mem, size, n->net, n->offload, &u, &o),
                     0);
    assert_int_equal(snic_net_addr_parse(&n->at, "127.0.0.1:0"), 0);
    assert_int_equal(snic_director_listen(n->d, &n->at, 0, &n->at), 0);
}

static void node_drained(void *ctx)
{
    ((struct node *)ctx)->drained = 1;
}

static void node_close(struct node *n)
{
    snic_director_drain(n->d, node_drained, n);
    while (!n->drained)
        (void)snic_loop_once(n->loop, SNIC_NEVER);
    assert_int_equal(snic_director_check(n->d), 0);
    snic_director_fini(n->d);
    assert_int_equal(snic_offload_active(n->offload), 0);
    snic_offload_fini(n->offload);
    assert_int_equal(snic_files_unmount(n->files), 0);
    snic_io_close(n->io);
    snic_net_shut(n->net);
    snic_loop_close(n->loop);
    support_guard_free(n->files_mem);
    support_guard_free(n->offload_mem);
    support_guard_free(n->director_mem);
    (void)unlink(n->path);
}

/* ---- A client in the same thread: its socket never blocks ---- */

struct client {
    struct snic_rng rng;
    int fd;
    uint32_t sent, answered, refused;
    unsigned char want[WINDOW][MESSAGE];
    unsigned char in[MESSAGE + READ_MAX + TAIL];
    size_t in_size;
};

static void client_request(struct client *c)
{
    static const uint32_t sizes[] = {1, 100, 1000, 1013, 5000, 16000, 16384, 40000, 65536, 131072};
    unsigned char *m = c->want[c->sent % WINDOW];
    uint32_t size = sizes[snic_rng_below(&c->rng, SNIC_COUNTOF(sizes))];
    snic_put_le32(m, (uint32_t)snic_rng_below(&c->rng, FILE_BYTES - size + 1));
    snic_put_le32(m + 4, size);
    assert_int_equal(send(c->fd, m, MESSAGE, MSG_NOSIGNAL), MESSAGE);
    c->sent++;
}

/* Bytes of the answer at hand, when its head is there. */
static size_t client_due(const struct client *c)
{
    const unsigned char *m = c->want[c->answered % WINDOW];
    if (c->in_size < HEAD)
        return HEAD;
    if (c->in[0] == 'E' && memcmp(c->in, "EEEEEEEE", HEAD) == 0)
        return HEAD;
    assert_memory_equal(c->in, m, HEAD);
    return HEAD + snic_get_le32(m + 4) + TAIL;
}

static void client_check(struct client *c)
{
    size_t size = c->in_size - HEAD;
    uint64_t at = snic_get_le32(c->in);
    c->answered++;
    c->in_size = 0;
    if (size == 0) {
        c->refused++;
        return;
    }
    for (size_t i = 0; i < size - TAIL; i++)
        if (c->in[HEAD + i] != content(at + i))
            fail_msg("answer %u of %zu bytes: byte %zu is wrong", c->answered, size, i);
    assert_memory_equal(c->in + HEAD + size - TAIL, "end", TAIL);
}

/* Read what there is, at most @bytes. */
static void client_read(struct client *c, size_t bytes)
{
    while (bytes > 0) {
        size_t due = client_due(c) - c->in_size;
        if (due == 0) {
            client_check(c);
            continue;
        }
        ssize_t r = recv(c->fd, c->in + c->in_size, due < bytes ? due : bytes, MSG_DONTWAIT);
        if (r <= 0)
            return;
        c->in_size += (size_t)r;
        bytes -= (size_t)r;
    }
}

static void serve(uint32_t zc_bytes_min, int expect_zc)
{
    static struct node n;
    static struct client clients[3];
    uint32_t total = (uint32_t)support_scale(150, 3000);
    node_open(&n, zc_bytes_min);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(n.at.port)};
    memcpy(&a.sin_addr, n.at.ip, 4);
    uint32_t left = SNIC_COUNTOF(clients);
    for (uint32_t i = 0; i < SNIC_COUNTOF(clients); i++) {
        struct client *c = &clients[i];
        memset(c, 0, sizeof(*c));
        snic_rng_init(&c->rng, support_seed() * 10 + i);
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(c->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    }
    while (left > 0) {
        left = 0;
        for (uint32_t i = 0; i < SNIC_COUNTOF(clients); i++) {
            struct client *c = &clients[i];
            while (c->sent < total && c->sent - c->answered < WINDOW)
                client_request(c);
            client_read(c, 1 + snic_rng_below(&c->rng, i == 0 ? 3000 : 300000)); /* one is slow */
            left += c->answered < total;
        }
        (void)snic_loop_once(n.loop, 100000);
    }
    struct snic_director_stats st;
    snic_director_get_stats(n.d, &st);
    assert_true(st.offloaded > total);
    if (expect_zc && (n.net->caps & SNIC_NET_CAP_ZC) != 0)
        assert_true(n.net->stats.zc_sends > 0);
    if (!expect_zc)
        assert_int_equal(n.net->stats.zc_sends, 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(clients); i++) {
        if (i == 1)
            client_request(&clients[i]); /* and goes with its answer under way */
        (void)close(clients[i].fd);
    }
    node_close(&n);
}

/** Every byte of every reply is the file's, whatever its size, while buffers are used again. */
static void test_director_large_replies_without_zero_copy_arrive(void **state)
{
    (void)state;
    serve(UINT32_MAX, 0);
}

/** The same when the kernel sends out of the buffers: they must not be used again before it is
 *  finished with them. */
static void test_director_large_replies_with_zero_copy_arrive(void **state)
{
    (void)state;
    serve(16384, 1);
    serve(1, 1);
}

/** As it is by default: zero copy until the kernel reports that it copies all the same. */
static void test_director_large_replies_by_default_arrive(void **state)
{
    (void)state;
    serve(0, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_large_replies_without_zero_copy_arrive),
        cmocka_unit_test(test_director_large_replies_with_zero_copy_arrive),
        cmocka_unit_test(test_director_large_replies_by_default_arrive),
    };
    struct snic_loop *l = NULL;
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip_program("no io_uring");
    snic_loop_close(l);
    return SUPPORT_MAIN(argc, argv, tests);
}
