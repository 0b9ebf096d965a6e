/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director on real sockets: one on each of several threads, one port, plain clients. */
#include "snicstore.h"
#include "support.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PARTS = 4, CLIENTS = 64, ROUNDS = 20, MESSAGE = 8 };

/* A director and its thread. A message is 8 bytes; the answer is {number of the director, how many
 * the connection has sent}. */
struct part {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_director *d;
    struct snic_loop_msg stop;
    struct snic_director_stats stats;
    void *mem;
    pthread_t thread;
    uint32_t number;
    uint32_t messages; /* no lock, no atomic: only its own thread may come here */
    int done;
};

static int64_t part_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= MESSAGE ? MESSAGE : 0;
}

static void part_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    struct part *p = ctx;
    (void)o;
    (void)msg;
    (void)size;
    p->messages++;
    snic_put_le32((unsigned char *)out->reply, p->number);
    snic_put_le32((unsigned char *)out->reply + 4, (uint32_t)++ * user);
    out->route = SNIC_DIRECTOR_ANSWER;
    out->reply_size = MESSAGE;
}

static uint32_t part_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                           uint32_t max)
{
    (void)ctx;
    (void)error;
    (void)data;
    (void)size;
    memset(out, 0, max);
    return MESSAGE;
}

static uint32_t part_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                          uint32_t max)
{
    return part_error(ctx, 0, msg, size, out, max);
}

static void part_drained(void *ctx)
{
    ((struct part *)ctx)->done = 1;
}

static void part_stop(struct snic_loop_msg *m)
{
    struct part *p = SNIC_CONTAINER(m, struct part, stop);
    snic_director_drain(p->d, part_drained, p);
}

static void *part_main(void *ctx)
{
    struct part *p = ctx;
    while (!p->done)
        (void)snic_loop_once(p->loop, SNIC_NEVER);
    snic_director_get_stats(p->d, &p->stats);
    snic_director_fini(p->d);
    snic_net_shut(p->net);
    return NULL;
}

static void part_open(struct part *p, uint32_t number, struct snic_net_addr *at)
{
    struct snic_director_user u = {.frame = part_frame,
                                   .predicate = part_predicate,
                                   .protocol_error = part_error,
                                   .host_gone = part_gone,
                                   .ctx = p};
    struct snic_director_opts o = {
        .opts_size = sizeof(o), .conns_max = CLIENTS, .message_max = 4096, .pool_bytes = 8u << 20};
    struct snic_net_uring_opts no = {.opts_size = sizeof(no), .pool_buffers = 64};
    memset(p, 0, sizeof(*p));
    p->number = number;
    assert_int_equal(snic_loop_uring_open(&p->loop, NULL), 0);
    assert_int_equal(snic_net_uring_open(&p->net, p->loop, &no), 0);
    size_t n = snic_director_memsize(&o);
    p->mem = support_guard_alloc(n, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&p->d, p->mem, n, p->net, NULL, &u, &o), 0);
    assert_int_equal(snic_director_listen(p->d, at, SNIC_NET_REUSEPORT, at), 0);
    p->stop.fn = part_stop;
    assert_int_equal(pthread_create(&p->thread, NULL, part_main, p), 0);
}

static int client_connect(const struct snic_net_addr *at)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    memcpy(&a.sin_addr, at->ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static void client_read(int fd, void *to, size_t size)
{
    assert_int_equal(recv(fd, to, size, MSG_WAITALL), (ssize_t)size);
}

/** All directors get clients; a client stays with its own, which alone knows what it has sent. */
static void test_director_threads_share_a_port_and_nothing_else(void **state)
{
    static struct part parts[PARTS];
    struct snic_net_addr at;
    int fds[CLIENTS];
    uint32_t owner[CLIENTS];
    uint32_t count[PARTS] = {0};
    (void)state;
    assert_int_equal(snic_net_addr_parse(&at, "127.0.0.1:0"), 0);
    for (uint32_t i = 0; i < PARTS; i++)
        part_open(&parts[i], i, &at);
    for (uint32_t i = 0; i < CLIENTS; i++)
        fds[i] = client_connect(&at);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        unsigned char m[MESSAGE] = {0};
        for (uint32_t i = 0; i < CLIENTS; i++)
            assert_int_equal(send(fds[i], m, MESSAGE, MSG_NOSIGNAL), MESSAGE);
        for (uint32_t i = 0; i < CLIENTS; i++) {
            client_read(fds[i], m, MESSAGE);
            if (round == 1) {
                owner[i] = snic_get_le32(m);
                assert_true(owner[i] < PARTS);
                count[owner[i]]++;
            }
            assert_int_equal(snic_get_le32(m), owner[i]);
            assert_int_equal(snic_get_le32(m + 4), round);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
    for (uint32_t i = 0; i < PARTS; i++)
        snic_loop_post(parts[i].loop, &parts[i].stop);
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_int_equal(pthread_join(parts[i].thread, NULL), 0);
        assert_true(count[i] > 0);
        assert_int_equal(parts[i].stats.accepted, count[i]);
        assert_int_equal(parts[i].messages, ROUNDS * count[i]);
        snic_loop_close(parts[i].loop);
        support_guard_free(parts[i].mem);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_threads_share_a_port_and_nothing_else),
    };
    struct snic_loop *l = NULL;
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip_program("no io_uring");
    snic_loop_close(l);
    return SUPPORT_MAIN(argc, argv, tests);
}
