/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The wire's parsers. The input is a packet, with or without a right checksum; what is understood
 * is written again and must be the same bytes. Then the same bytes as a membership file.
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
    unsigned char again[SNIC_REPLICA__MEMBER];
    const unsigned char *value;
    struct snic_ddp_msg d;
    struct snic_member_msg m;
    struct replica_cut c;
    if (part->kind == REPLICA_DDP &&
        replica_get_ddp(part->data, part->size, 4096, &d, &value) == 0) {
        must(value + (replica_carries(&d) ? d.length : 0) == part->data + part->size);
        replica_put_ddp(again, &d);
        must(memcmp(again, part->data, SNIC_REPLICA__DDP) == 0);
    } else if (part->kind == REPLICA_MEMBER &&
               replica_get_member(part->data, part->size, &m) == 0) {
        replica_put_member(again, &m);
        must(memcmp(again, part->data, SNIC_REPLICA__MEMBER) == 0);
    } else if (part->kind == REPLICA_PIECE &&
               replica_get_cut(part->data, part->size, 4096, &c) == 0) {
        must(c.total <= 4096 && c.offset < c.total);
        must(part->size - SNIC_REPLICA__PIECE <= c.total - c.offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char p[8192];
    struct snic_member_record r;
    struct replica_part part;
    uint32_t src = 0;
    size_t at = SNIC_REPLICA__PACKET;
    if (size == 0 || size > sizeof(p) - SNIC_REPLICA__PACKET)
        return 0;
    if (replica_get_packet(data, size, 7, &src) == 0)
        must(src < SNIC_DDP_NODES_MAX);
    memcpy(p + SNIC_REPLICA__PACKET, data, size);
    size += SNIC_REPLICA__PACKET;
    replica_put_packet(p, (uint32_t)size, data[0] % SNIC_DDP_NODES_MAX, 7);
    must(replica_get_packet(p, size, 7, &src) == 0 && src == data[0] % SNIC_DDP_NODES_MAX);
    while (replica_get_part(p, size, &at, &part) == 1) {
        must(part.data + part.size == p + at);
        fuzz_part(&part);
    }
    must(at <= size);
    if (replica_get_record(data, size - SNIC_REPLICA__PACKET, &r) == 0) {
        unsigned char again[SNIC_REPLICA__RECORD];
        replica_put_record(again, &r);
        must(memcmp(again, data, sizeof(again)) == 0);
    }
    return 0;
}
