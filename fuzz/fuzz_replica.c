/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The wire's parsers. The input is a datagram, a block's header, the frames of either, a membership
 * file; what is understood is written again and must be the same bytes.
 */
#include "replica/replica_priv.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void fuzz_part(const struct replica_part *part)
{
    unsigned char again[SNIC_REPLICA__MEMBER + SNIC_REPLICA__VIEW_MAX];
    struct snic_ddp_msg d;
    struct snic_member_msg m;
    struct replica_hello h;
    struct replica_credit c;
    struct replica_times t;
    size_t size = 0;
    if (part->kind == REPLICA_DDP && part->size == SNIC_REPLICA__DDP &&
        replica_get_ddp(part->data, 3, 4096, &d) == 0) {
        must(!replica_carries(&d) || d.length <= 4096);
        must(replica_channel_of(&d) < REPLICA_CHANNELS);
        replica_put_ddp(again, 3, &d);
        size = SNIC_REPLICA__DDP;
    } else if (part->kind == REPLICA_MEMBER &&
               replica_get_member(part->data, part->size, &m) == 0) {
        replica_put_member(again, &m);
        size = SNIC_REPLICA__MEMBER;
    } else if (part->kind == REPLICA_HELLO && replica_get_hello(part->data, part->size, &h) == 0) {
        replica_put_hello(again, &h);
        size = SNIC_REPLICA__HELLO;
    } else if (part->kind == REPLICA_CREDIT &&
               replica_get_credit(part->data, part->size, &c) == 0) {
        replica_put_credit(again, &c);
        size = SNIC_REPLICA__CREDIT;
    } else if (part->kind == REPLICA_TIMES && replica_get_times(part->data, part->size, &t) == 0) {
        replica_put_times(again, &t);
        size = SNIC_REPLICA__TIMES;
    }
    must(size == 0 || memcmp(again, part->data, size) == 0);
}

static void fuzz_parts(const unsigned char *p, size_t size)
{
    struct replica_part part;
    size_t at = 0;
    while (replica_get_part(p, size, &at, &part) == 1) {
        must(part.data + part.size == p + at);
        must((part.kind == REPLICA_BYTES) == (part.channel != 0));
        fuzz_part(&part);
    }
    must(at <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char p[8192];
    struct snic_member_record r;
    struct replica_packet h, same;
    uint32_t body, flags;
    if (size == 0 || size > sizeof(p) - SNIC_REPLICA__PACKET)
        return 0;
    if (replica_get_packet(data, size, &h) == 0)
        must(h.src < SNIC_DDP_NODES_MAX && h.lowest <= h.highest);
    if (size >= SNIC_REPLICA__BLOCK && replica_get_block(data, &body, &flags) == 0)
        must(body <= SNIC_REPLICA__BODY);
    memset(&h, 0, sizeof(h));
    h.src = data[0] % SNIC_DDP_NODES_MAX;
    h.version = h.lowest = h.highest = 3;
    h.session = (uint32_t)size;
    memcpy(p + SNIC_REPLICA__PACKET, data, size);
    size += SNIC_REPLICA__PACKET;
    replica_put_packet(p, &h);
    replica_put_packet_crc(p, (uint32_t)size);
    must(replica_get_packet(p, size, &same) == 0 && memcmp(&h, &same, sizeof(h)) == 0);
    fuzz_parts(p + SNIC_REPLICA__PACKET, size - SNIC_REPLICA__PACKET);
    if (replica_get_record(data, size - SNIC_REPLICA__PACKET, &r) == 0) {
        unsigned char again[SNIC_REPLICA__RECORD];
        uint32_t length = replica_put_record(again, &r);
        must(length <= size - SNIC_REPLICA__PACKET && memcmp(again, data, length) == 0);
    }
    return 0;
}
