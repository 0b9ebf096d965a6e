/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** dma shm: peers that lie, from raw sockets against a listener. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "golden.h"
#include "dma/shm_priv.h"
#include "test_dma_shm_util.h"

/* ---- Liars: raw sockets against a listener ---- */

struct liar {
    struct snic_loop *loop;
    struct snic_dma_listener *listener;
    struct snic_dma_shm_opts opts;
    struct snic_dma *d;
    struct snic_dma_events events;
    uint32_t accepted;
    uint32_t messages;
    uint32_t bells;
    uint32_t deaths;
    int fd;
    int fds[3];
};

static void liar_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct liar *x = ctx;
    (void)d;
    (void)msg;
    (void)size;
    x->messages++;
}

static void liar_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct liar *x = ctx;
    (void)d;
    (void)cause;
    x->deaths++;
}

static void liar_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct liar *x = ctx;
    (void)pid;
    x->accepted++;
    x->d = d;
    d->events = x->events;
}

static void liar_spin(struct liar *x)
{
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(x->loop, 0);
}

static void liar_dial(struct liar *x)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, x->opts.path, strlen(x->opts.path));
    x->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(x->fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

static void liar_open(struct liar *x)
{
    memset(x, 0, sizeof(*x));
    x->loop = loop_open();
    x->opts = (struct snic_dma_shm_opts){
        .opts_size = sizeof(x->opts), .path = socket_path(), .size_max = 1 << 20};
    x->events = (struct snic_dma_events){.recv = liar_recv, .death = liar_death, .ctx = x};
    assert_int_equal(snic_dma_shm_listen(&x->listener, x->loop, &x->opts, liar_accept, x), 0);
}

static void liar_close(struct liar *x)
{
    snic_dma_close(x->d);
    snic_dma_shm_unlisten(x->listener);
    liar_spin(x);
    snic_loop_close(x->loop);
}

/** A well-behaved handshake. */
static void liar_welcome(struct liar *x)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_HELLO);
    struct dma_shm_in in;
    uint32_t had = x->accepted;
    liar_dial(x);
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, NULL, 0), 1);
    for (int i = 0; x->accepted == had && i < 100000; i++)
        (void)snic_loop_once(x->loop, 1000000);
    assert_int_equal(x->accepted, had + 1);
    assert_int_equal(dma_shm_receive(x->fd, &in), 1);
    assert_int_equal(in.wire.type, DMA_SHM_WELCOME);
    assert_int_equal(in.fd_count, 3);
    memcpy(x->fds, in.fds, sizeof(x->fds));
}

static void liar_hang_up(struct liar *x)
{
    for (int i = 0; i < 3; i++)
        (void)close(x->fds[i]);
    (void)close(x->fd);
}

/** 1 when the listener has hung up on us. */
static int liar_cut(struct liar *x)
{
    char buf[512];
    for (int i = 0; i < 10000; i++) {
        (void)snic_loop_once(x->loop, 100000);
        ssize_t n = recv(x->fd, buf, sizeof(buf), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 1;
        if (n > 0)
            continue;
        if (i > 200 && x->d != NULL && !((struct dma_shm *)(void *)x->d)->torn)
            return 0;
    }
    return 0;
}

/** Handshakes that are none: the listener hangs up, accepts none, and continues. */
static void test_dma_shm_bad_hello_dropped(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 6; n++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_HELLO);
        char junk[1000] = "junk";
        liar_dial(&x);
        if (n == 0)
            assert_int_equal(send(x.fd, junk, 4, 0), 4);
        else if (n == 1)
            assert_int_equal(send(x.fd, junk, sizeof(junk), 0), sizeof(junk));
        else if (n == 2)
            w.type = DMA_SHM_MSG;
        else if (n == 3)
            w.magic ^= 1;
        else if (n == 4)
            w.size = 7; /* and no bytes */
        else
            w.version++;
        if (n >= 2) {
            uint32_t size = w.size;
            w.size = 0;
            struct iovec iov = {&w, sizeof(w)};
            struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
            w.size = size;
            assert_int_equal(sendmsg(x.fd, &m, 0), sizeof(w));
        }
        if (n == 5) {
            struct dma_shm_in in;
            int r = 0;
            for (int i = 0; r == 0 && i < 10000; i++) {
                (void)snic_loop_once(x.loop, 100000);
                r = dma_shm_receive(x.fd, &in);
            }
            assert_int_equal(r, 1);
            assert_int_equal(in.wire.type, DMA_SHM_REFUSE);
            assert_int_equal((int64_t)in.wire.a, SNIC_EVERSION);
        }
        assert_int_equal(liar_cut(&x), 1);
        (void)close(x.fd);
        assert_int_equal(x.accepted, 0);
    }
    /* More silent connections than the listener keeps: the oldest go, the newest is served. */
    int silent[100];
    for (int i = 0; i < 100; i++) {
        liar_dial(&x);
        silent[i] = x.fd;
        liar_spin(&x);
    }
    liar_welcome(&x);
    liar_hang_up(&x);
    for (int i = 0; i < 100; i++)
        (void)close(silent[i]);
    liar_close(&x);
    assert_int_equal(conf_dma_fds(), before);
}

static int memfd_of(size_t size, unsigned flags, int seals)
{
    int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return -1;
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/** What is sent after a good handshake; 1 when the link must survive it. */
static int liar_lie(struct liar *x, int n)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    int fd = -1;
    int survives = 0;
    w.a = 5;
    w.b = 8192;
    switch (n) {
    case 0: /* good */
        fd = memfd_of(8192, 0, sealed);
        survives = 1;
        break;
    case 1: /* not sealed: could be truncated under us */
        fd = memfd_of(8192, 0, 0);
        break;
    case 2: /* sealed against growing only */
        fd = memfd_of(8192, 0, F_SEAL_GROW);
        break;
    case 3: /* shorter than it states */
        fd = memfd_of(4096, 0, sealed);
        break;
    case 4: /* more than we take */
        w.b = 2 << 20;
        fd = memfd_of(2 << 20, 0, sealed);
        break;
    case 5: /* no whole pages */
        w.b = 100;
        fd = memfd_of(8192, 0, sealed);
        break;
    case 6: /* nothing */
        w.b = 0;
        fd = memfd_of(8192, 0, sealed);
        break;
    case 7: /* no descriptor */
        break;
    case 8: /* something else */
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case 9: /* huge pages that may not be there */
        fd = memfd_of(2 << 20, MFD_HUGETLB, sealed);
        break;
    case 16:
        w.version++;
        break;
    default: { /* a region of no block, ...; an empty message; a second HELLO */
        static const uint16_t types[] = {DMA_SHM_REGION, DMA_SHM_UNREG, DMA_SHM_DROP, 999,
                                         DMA_SHM_MSG,    DMA_SHM_HELLO};
        w.type = types[n - 10];
        w.a = (1 << 16) | 3;
        break;
    }
    }
    if (n == 9 && fd < 0)
        w.type = 999; /* no huge pages in this kernel: lie otherwise */
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, &fd, fd >= 0 ? 1 : 0), 1);
    if (fd >= 0)
        (void)close(fd);
    return survives;
}

/**
 * A peer that offers memory which could fault, or talks nonsense, loses the link; the process
 * continues. It is not dead, though: its death is not reported while it lives.
 */
static void test_dma_shm_lying_peer_torn(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 17; n++) {
        liar_welcome(&x);
        int survives = liar_lie(&x, n);
        liar_spin(&x);
        assert_int_equal(liar_cut(&x), !survives);
        assert_int_equal(snic_dma_send(x.d, "x", 1), survives ? 1 : SNIC_EPEERDEAD);
        struct snic_dma_batch b = {.count = 0};
        struct snic_dma_batch *list = &b;
        if (!survives)
            assert_int_equal(snic_dma_submit(x.d, &list, 1), SNIC_EPEERDEAD);
        assert_int_equal(x.deaths, 0);
        assert_int_equal(x.messages, 0);
        snic_dma_close(x.d);
        x.d = NULL;
        liar_hang_up(&x);
    }
    liar_close(&x);
    assert_int_equal(conf_dma_fds(), before);
}

/** Regions outside their block, keys twice, too many descriptors: refused one by one. */
static void test_dma_shm_lying_regions_torn(void **state)
{
    (void)state;
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 8; n++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
        int fd = memfd_of(8192, 0, F_SEAL_SHRINK);
        liar_welcome(&x);
        w.a = 5;
        w.b = 8192;
        assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, &fd, 1), 1);
        w = dma_shm_wire_make(DMA_SHM_REGION);
        w.a = (1 << 16) | 3;
        w.b = 5;
        w.c = 4096;
        w.d = 4096;
        w.rights = 7;
        switch (n) {
        case 1:
            w.c = 4097;
            break;
        case 2:
            w.c = UINT64_MAX;
            break;
        case 3:
            w.d = UINT64_MAX;
            break;
        case 4:
            w.rights = 0;
            break;
        case 5:
            w.rights = 8;
            break;
        case 6:
            w.a = 0xffff;
            break;
        default:
            break;
        }
        assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
        if (n == 7) /* the same key again */
            assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
        assert_int_equal(liar_cut(&x), n != 0);
        if (n == 0) {
            void *p = NULL;
            assert_int_equal(snic_dma_map(x.d, w.a, 0, 4096, &p), 0);
            assert_int_equal(ftruncate(fd, 0), -1); /* what the seal is for */
            ((volatile char *)p)[4095] = 1;
            w = dma_shm_wire_make(DMA_SHM_DROP);
            w.a = 5;
            assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
            liar_spin(&x);
            ((volatile char *)p)[4095] = 2; /* ours until unmapped */
            snic_dma_unmap(x.d, p);
            assert_int_equal(((struct dma_shm *)(void *)x.d)->imported, 0);
        }
        (void)close(fd);
        snic_dma_close(x.d);
        x.d = NULL;
        liar_hang_up(&x);
    }
    liar_close(&x);
}

/** One block of @p size bytes and a region over all of it, both under the number @p n. */
static void liar_block(struct liar *x, uint64_t n, size_t size)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
    int fd = memfd_of(size, 0, F_SEAL_SHRINK);
    w.a = n;
    w.b = size;
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, &fd, 1), 1);
    (void)close(fd);
    w = dma_shm_wire_make(DMA_SHM_REGION);
    w.a = (1 << 16) | n;
    w.b = n;
    w.d = size;
    w.rights = 7;
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, NULL, 0), 1);
    liar_spin(x);
}

/**
 * Blocks that the system maps side by side, in an order of the peer's making: a pointer to the
 * start of one is not taken for the end of another, whose memory would go instead.
 */
static void test_dma_shm_adjacent_blocks_told_apart(void **state)
{
    (void)state;
    struct liar x;
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_DROP);
    void *low = NULL;
    void *high = NULL;
    liar_open(&x);
    liar_welcome(&x);
    liar_block(&x, 1, 8192);
    liar_block(&x, 2, 4096);
    w.a = 1; /* leaves a hole above the second, where the next two go */
    assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
    liar_spin(&x);
    liar_block(&x, 3, 4096);
    liar_block(&x, 4, 4096);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 2, 0, 4096, &low), 0);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 4, 0, 4096, &high), 0);
    w.a = 2; /* its memory stays until unmapped */
    assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
    liar_spin(&x);
    snic_dma_unmap(x.d, high);
    ((volatile char *)low)[4095] = 1;
    snic_dma_unmap(x.d, low);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 4, 4096, 0, &high), SNIC_EFAULT);
    liar_hang_up(&x);
    liar_close(&x);
}

/** A peer that makes the eventfd block must not block us: the owner rings through the ring. */
static void test_dma_shm_saturated_bell_does_not_block(void **state)
{
    (void)state;
    struct liar x;
    liar_open(&x);
    liar_welcome(&x);
    struct dma_shm_page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, x.fds[0], 0);
    assert_true(page != MAP_FAILED);
    uint64_t full = UINT64_MAX - 1;
    assert_int_equal(write(x.fds[1], &full, 8), 8);
    assert_int_equal(fcntl(x.fds[1], F_SETFL, 0), 0); /* blocking from now on */
    for (int i = 0; i < 100; i++) {
        atomic_store_explicit(&page->lanes[0].bells, 0, memory_order_relaxed);
        assert_int_equal(snic_dma_ring(x.d, (uint32_t)i % 64), 0);
        (void)snic_loop_once(x.loop, 0);
    }
    assert_int_equal(munmap(page, 4096), 0);
    liar_hang_up(&x);
    liar_close(&x);
}

/** A peer that sends nothing after it has connected holds a place for five seconds. */
static void test_dma_shm_silent_peer_turned_away(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    struct liar x;
    char byte;
    ssize_t n = -1;
    liar_open(&x);
    liar_dial(&x);
    for (int i = 0; n < 0 && i < 10000; i++) {
        (void)snic_loop_once(x.loop, 100000000);
        n = recv(x.fd, &byte, 1, MSG_DONTWAIT);
    }
    assert_int_equal(n, 0); /* closed by the listener */
    assert_int_equal(x.accepted, 0);
    (void)close(x.fd);
    liar_welcome(&x);
    liar_hang_up(&x);
    liar_close(&x);
    assert_int_equal(conf_dma_fds(), before);
}

/** One listener, many peers at once, each with its own death. */
static void test_dma_shm_many_peers_served(void **state)
{
    (void)state;
    enum { PEERS = 20 };
    struct liar x;
    liar_open(&x);
    struct snic_dma *d[PEERS];
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++) {
        liar_welcome(&x);
        d[i] = x.d;
        fds[i] = x.fd;
        for (int k = 0; k < 3; k++)
            (void)close(x.fds[k]);
    }
    for (int i = 0; i < PEERS; i++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_MSG);
        w.size = 2;
        assert_int_equal(dma_shm_transmit(fds[i], &w, "hi", NULL, 0), 1);
    }
    for (int i = 0; x.messages < PEERS && i < 100000; i++)
        (void)snic_loop_once(x.loop, 1000000);
    assert_int_equal(x.messages, PEERS);
    for (int i = 0; i < PEERS; i++) {
        (void)close(fds[i]);
        snic_dma_close(d[i]);
    }
    x.d = NULL;
    liar_close(&x);
}

/* lib/dma/FORMAT.md. */
static void test_dma_shm_format_vector(void **state)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_REGION);
    struct dma_shm_wire in;
    int fds[2];
    (void)state;
    w.rights = 3;
    w.a = 0x10002;
    w.b = 4;
    w.c = 0x5000;
    w.d = 0x6000;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    assert_int_equal(dma_shm_transmit(fds[0], &w, NULL, NULL, 0), 1);
    assert_int_equal(recv(fds[1], &in, sizeof(in), 0), sizeof(in));
    golden_bytes("dma", "region", &in, sizeof(in));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dma_shm_bad_hello_dropped),
        cmocka_unit_test(test_dma_shm_lying_peer_torn),
        cmocka_unit_test(test_dma_shm_lying_regions_torn),
        cmocka_unit_test(test_dma_shm_adjacent_blocks_told_apart),
        cmocka_unit_test(test_dma_shm_saturated_bell_does_not_block),
        cmocka_unit_test(test_dma_shm_silent_peer_turned_away),
        cmocka_unit_test(test_dma_shm_many_peers_served),
        cmocka_unit_test(test_dma_shm_format_vector),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
