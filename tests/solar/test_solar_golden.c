/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SOLAR by example: an agent, a block server and every packet between them, compared with
 * tests/golden/solar_*.txt.
 */
#include "golden.h"
#include "support.h"
#include "test_solar_util.h"

#include <stdio.h>
#include <string.h>

struct trace {
    struct golden *g;
    uint64_t began;
    uint32_t done;
};

static const char *const trace_type[] = {"?",         "WRITE", "WACK",      "READ_REQ", "READ_RESP",
                                         "ACKV",      "PROBE", "PROBE_ACK", "RESET",    "HELLO",
                                         "HELLO_ACK", "FENCE", "FENCE_ACK", "NAK",      "TOKEN"};
static const char *const trace_op[] = {"data", "zeros", "trim", "states"};

/* What matters of a packet that names blocks. */
static void trace_block(const struct snic_ebs_header *h, char out[160])
{
    const struct snic_ebs_block *b = &h->u.block;
    int n =
        snprintf(out, 160, " RPC %u, lba %u", (unsigned)(h->rpc_id & UINT32_MAX), (unsigned)b->lba);
    if (h->type == SNIC_EBS_READ_REQ)
        n += snprintf(out + n, 160 - (size_t)n, ", %u blocks, needs mask %x", b->blk_cnt,
                      (unsigned)b->need_mask);
    else if (h->type != SNIC_EBS_FENCE && h->type != SNIC_EBS_FENCE_ACK)
        n += snprintf(out + n, 160 - (size_t)n, ", block %u of %u", h->pkt_id + 1u, h->pkt_cnt);
    if (h->type == SNIC_EBS_WRITE)
        n += snprintf(out + n, 160 - (size_t)n, ", %s, version %u.%u", trace_op[b->op],
                      (unsigned)(b->wver >> 48), (unsigned)(b->wver & UINT32_MAX));
    if (h->type == SNIC_EBS_READ_RESP)
        n += snprintf(out + n, 160 - (size_t)n, ", version %u.%u", (unsigned)(b->wver >> 48),
                      (unsigned)(b->wver & UINT32_MAX));
    if (h->attempt != 0)
        (void)snprintf(out + n, 160 - (size_t)n, ", attempt %u", h->attempt + 1u);
}

/* Which blocks a packet acknowledges. */
static void trace_acks(const struct snic_ebs_header *h, const unsigned char *body, char out[160])
{
    int n = 0;
    for (uint32_t i = 0; i < h->pkt_cnt; i++) {
        struct snic_ebs_ack a;
        snic_ebs_ack_get(&a, body, i);
        assert_int_equal(a.status, SNIC_EBS_OK);
        if (i == 0)
            n = snprintf(out, 160, " RPC %u, blocks", (unsigned)(a.rpc_id & UINT32_MAX));
        n += snprintf(out + n, 160 - (size_t)n, " %u", a.pkt_id + 1u);
    }
}

static void trace_packet(struct trace *t, const struct letter *l, const char *what)
{
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    char detail[160] = "";
    unsigned direction = l->to_target ? SNIC_EBS_TO_SERVER : SNIC_EBS_TO_CLIENT;
    assert_int_equal(snic_ebs_decode(&h, &place, direction, l->bytes, l->size), 0);
    switch (h.type) {
    case SNIC_EBS_WRITE:
    case SNIC_EBS_WACK:
    case SNIC_EBS_READ_REQ:
    case SNIC_EBS_READ_RESP:
    case SNIC_EBS_FENCE:
    case SNIC_EBS_FENCE_ACK:
        trace_block(&h, detail);
        break;
    case SNIC_EBS_ACKV:
        trace_acks(&h, l->bytes + place.body_at, detail);
        break;
    default:
        break;
    }
    golden_line(t->g, "%8.3f ms  %s, path %u: %s%s, %u bytes%s", (double)(duo.now - t->began) / 1e6,
                l->to_target ? "agent -> server" : "agent <- server", l->path, trace_type[h.type],
                detail, l->size, what);
}

/* Packets of the bag arrive, but for those of @p lost, a mask by place; all act. */
static void trace_turn(struct trace *t, uint32_t lost)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < duo.letters; i++) {
        int drop = i < 32 && (lost >> i & 1) != 0;
        trace_packet(t, &duo.bag[i], drop ? " (lost)" : "");
        if (!drop)
            duo.bag[kept++] = duo.bag[i];
    }
    duo.letters = kept;
    duo_turn(&duo, 0);
    if (duo_done(&duo) != t->done) {
        t->done = duo_done(&duo);
        golden_line(t->g, "             agent: I/O %u is done", t->done);
    }
}

static void trace_until(struct trace *t, uint32_t done)
{
    for (int i = 0; i < 100 && t->done < done; i++)
        trace_turn(t, 0);
    assert_int_equal(t->done, done);
}

static void trace_io(struct trace *t, struct snic_ebs_io *io, uint8_t op, uint64_t lba,
                     uint32_t blocks, struct snic_iov *iov)
{
    golden_line(t->g, "             client: %s %u blocks at lba %u",
                op == SNIC_EBS_IO_WRITE ? "write" : "read", blocks, (unsigned)lba);
    duo_io(&duo, io, op, lba, blocks, iov);
}

static void trace_open(struct trace *t, const char *name, const char *title)
{
    memset(t, 0, sizeof(*t));
    memset(&duo, 0, sizeof(duo));
    t->g = golden_begin(name);
    golden_note(t->g, title);
    golden_note(t->g, "One agent, one block server, blocks of 4096 bytes. Each line is a packet. "
                      "Written by tests/solar/test_solar_golden.c, see include/snicstore/solar.h "
                      "and include/snicstore/ebs.h.");
    duo.o.paths = 2;
    duo_open(&duo);
    t->began = duo.now;
}

static void trace_close(struct trace *t)
{
    duo_close(&duo);
    golden_end(t->g);
}

static unsigned char data[2][4 * SNIC_EBS_BLOCK_BYTES];

static void test_solar_golden_write_and_read(void **state)
{
    struct trace t;
    struct snic_ebs_io io;
    struct snic_iov iov[2] = {{data[0], sizeof(data[0])}, {data[1], sizeof(data[1])}};
    (void)state;
    for (size_t i = 0; i < sizeof(data[0]); i++)
        data[0][i] = (unsigned char)(i / SNIC_EBS_BLOCK_BYTES + 1);
    trace_open(&t, "solar_write_read", "A connection, a write and a read.");
    golden_note(
        t.g,
        "The first I/O makes the agent connect: a HELLO on each path, which is a UDP port of its "
        "own. HELLO and HELLO_ACK are as large as packets with data, so a path on which large "
        "packets are lost never carries data. The PROBE of each path sends back the proof of the "
        "address that HELLO_ACK had; data does not wait for it. One block is one packet: each is "
        "stored by itself, in any order, over any path. ACKV acknowledges several packets at once. "
        "A version names the write: the server keeps a block with the highest.");
    trace_io(&t, &io, SNIC_EBS_IO_WRITE, 8, 4, &iov[0]);
    trace_until(&t, 1);
    assert_int_equal(io.result, 0);
    golden_note(t.g, "A read is one request for all blocks, with a bit for each that is needed, "
                     "and one response for each block.");
    trace_io(&t, &io, SNIC_EBS_IO_READ, 8, 4, &iov[1]);
    trace_until(&t, 2);
    assert_int_equal(io.result, 0);
    assert_memory_equal(data[0], data[1], sizeof(data[0]));
    trace_close(&t);
}

static void test_solar_golden_loss(void **state)
{
    struct trace t;
    struct snic_ebs_io io;
    struct snic_iov iov[2] = {{data[0], sizeof(data[0])}, {data[1], sizeof(data[1])}};
    (void)state;
    trace_open(&t, "solar_loss", "Packets are lost.");
    trace_io(&t, &io, SNIC_EBS_IO_WRITE, 8, 4, &iov[0]);
    trace_until(&t, 1);
    golden_note(t.g,
                "Of four blocks the second is lost. The others are acknowledged. A small PROBE is "
                "answered with the requests that the server has and has not answered yet: the lost "
                "one is none of them, so it is sent again, by itself and over another path.");
    trace_io(&t, &io, SNIC_EBS_IO_WRITE, 8, 4, &iov[0]);
    trace_turn(&t, 0);
    trace_turn(&t, 2);
    trace_until(&t, 2);
    golden_note(t.g,
                "Of a read two responses are lost: the agent requests again what it still needs.");
    trace_io(&t, &io, SNIC_EBS_IO_READ, 8, 4, &iov[1]);
    trace_turn(&t, 0);
    trace_turn(&t, 0);
    trace_turn(&t, 6);
    trace_until(&t, 3);
    assert_int_equal(io.result, 0);
    trace_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_golden_write_and_read),
        cmocka_unit_test(test_solar_golden_loss),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
