/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records of the catalog as bytes: FORMAT.md.
 */
#include "control/control_priv.h"

SNIC_STATIC_ASSERT(56 + SNIC_CONTROL_NAME + 16 + 8 <= SNIC_CONTROL__RECORD, "a disk's record");
SNIC_STATIC_ASSERT(8 + sizeof(((struct snic_net_addr *)0)->ip) == 24, "an address in a record");

static void control_record_begin(unsigned char *p)
{
    memset(p, 0, SNIC_CONTROL__RECORD);
    snic_put_le32(p, SNIC_CONTROL__FORMAT);
}

static void control_record_addr(unsigned char *p, const struct snic_net_addr *a)
{
    snic_put_le16(p, a->family);
    snic_put_le16(p + 2, a->port);
    snic_put_le32(p + 4, a->node);
    memcpy(p + 8, a->ip, sizeof(a->ip));
}

uint32_t control_record_head(unsigned char *p, const struct snic_control *c)
{
    control_record_begin(p);
    snic_put_le64(p + 8, c->incarnation);
    snic_put_le64(p + 16, c->uuid[0]);
    snic_put_le64(p + 24, c->uuid[1]);
    snic_put_le32(p + 32, c->vd);
    return 36;
}

uint32_t control_record_server(unsigned char *p, const struct control_server *n)
{
    control_record_begin(p);
    control_record_addr(p + 8, &n->addr);
    control_record_addr(p + 32, &n->peer);
    snic_put_le64(p + 56, n->serial);
    return 64;
}

uint32_t control_record_disk(unsigned char *p, const struct control_disk *d)
{
    control_record_begin(p);
    snic_put_le64(p + 8, d->bytes);
    snic_put_le64(p + 16, d->qos.bytes_per_second);
    snic_put_le64(p + 24, d->qos.burst_bytes);
    snic_put_le64(p + 32, d->qos.ios_per_second);
    snic_put_le64(p + 40, d->qos.burst_ios);
    snic_put_le32(p + 48, d->lease);
    snic_put_le32(p + 52, d->held);
    memcpy(p + 56, d->name, SNIC_CONTROL_NAME);
    snic_put_le64(p + 120, d->key[0]);
    snic_put_le64(p + 128, d->key[1]);
    snic_put_le32(p + 136, d->account);
    snic_put_le32(p + 140, d->rights);
    return 144;
}

uint32_t control_record_seg(unsigned char *p, const struct control_seg *g)
{
    control_record_begin(p);
    snic_put_le32(p + 8, g->server);
    snic_put_le32(p + 12, g->gen);
    return 16;
}
