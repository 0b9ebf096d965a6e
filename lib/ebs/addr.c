/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Table of the expected read responses and the destinations of their blocks.
 *
 * I1  ring[head ... head + free - 1], modulo slots, are the free slots, each once, in the order
 *     they became free; a free entry's length is its index in ring.
 * I2  The `taken` field of an undamaged entry (its check value matches) equals its bit in the
 *     table's `taken`; the bit is read only if the entry is damaged.
 * I3  A slot's generation rises each time it is freed, so a response to an earlier use does not
 *     match; after 65536 uses the generation repeats, but rpc_id and pkt_id differ.
 */
#include "ebs/ebs_priv.h"

#define SNIC_EBS__SLOTS_MAX 65536u

static uint32_t addr_check_of(const struct ebs_addr_entry *e, uint32_t slot)
{
    return ebs_entry_crc(e, offsetof(struct ebs_addr_entry, check), slot);
}

static int addr_damaged(const struct snic_ebs_addr *a, uint32_t slot)
{
    return a->entry[slot].check != addr_check_of(&a->entry[slot], slot);
}

static int addr_bit(const struct snic_ebs_addr *a, uint32_t slot)
{
    return (int)(a->taken[slot / 64] >> (slot % 64) & 1);
}

static int addr_opts(struct snic_ebs_addr_opts *o, const struct snic_ebs_addr_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0 || !snic_is_pow2(o->slots) ||
        o->slots > SNIC_EBS__SLOTS_MAX || o->flags != 0 || o->pad != 0)
        return SNIC_EINVAL;
    return 0;
}

/* at: the offsets of entry, taken and ring. @return the size of all */
static size_t addr_layout(const struct snic_ebs_addr_opts *o, size_t at[3])
{
    at[0] = (size_t)snic_align_up(sizeof(struct snic_ebs_addr), SNIC_EBS_ALIGN);
    at[1] = at[0] + o->slots * sizeof(struct ebs_addr_entry);
    at[2] = at[1] + ((size_t)o->slots + 63) / 64 * sizeof(uint64_t);
    return at[2] + o->slots * sizeof(uint16_t);
}

size_t snic_ebs_addr_memsize(const struct snic_ebs_addr_opts *opts)
{
    struct snic_ebs_addr_opts o;
    size_t at[3];
    return addr_opts(&o, opts) != 0 ? 0 : addr_layout(&o, at);
}

/* Free the slot; its next use has this generation. */
static void addr_free_slot(struct snic_ebs_addr *a, uint32_t slot, uint16_t gen)
{
    struct ebs_addr_entry *e = &a->entry[slot];

    memset(e, 0, sizeof(*e));
    e->gen = gen;
    e->length = (a->head + a->free) & (a->slots - 1);
    e->check = addr_check_of(e, slot);
    a->taken[slot / 64] &= ~((uint64_t)1 << (slot % 64));
    a->ring[e->length] = (uint16_t)slot;
    a->free++;
}

int snic_ebs_addr_init(struct snic_ebs_addr **out, void *mem, size_t size,
                       const struct snic_ebs_addr_opts *opts)
{
    struct snic_ebs_addr_opts o;
    unsigned char *p = (unsigned char *)mem;
    size_t at[3];

    if (addr_opts(&o, opts) != 0 || (uintptr_t)mem % SNIC_EBS_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < addr_layout(&o, at))
        return SNIC_ENOSPC;
    memset(p, 0, addr_layout(&o, at));
    struct snic_ebs_addr *a = (struct snic_ebs_addr *)mem;
    a->slots = o.slots;
    a->entry = (struct ebs_addr_entry *)(void *)(p + at[0]);
    a->taken = (uint64_t *)(void *)(p + at[1]);
    a->ring = (uint16_t *)(void *)(p + at[2]);
    for (uint32_t i = 0; i < o.slots; i++)
        addr_free_slot(a, i, 0);
    *out = a;
    return 0;
}

void *snic_ebs_addr_fini(struct snic_ebs_addr *a)
{
    return a;
}

int snic_ebs_addr_put(struct snic_ebs_addr *a, const struct snic_ebs_expect *x, uint16_t *slot,
                      uint16_t *gen)
{
    if (a->free == 0)
        return SNIC_EAGAIN;
    uint32_t s = a->ring[a->head] & (a->slots - 1); /* a damaged ring must not index past the end */
    struct ebs_addr_entry *e = &a->entry[s];
    a->head = (a->head + 1) & (a->slots - 1);
    a->free--;
    /* The generation is kept. It may be damaged, but any value works: the caller receives it. */
    e->rpc_id = x->rpc_id;
    e->seg_id = x->seg_id;
    e->lba = x->lba;
    e->dest = x->dest;
    e->length = x->length;
    e->pkt_id = x->pkt_id;
    e->taken = 1;
    e->check = addr_check_of(e, s);
    a->taken[s / 64] |= (uint64_t)1 << (s % 64);
    *slot = (uint16_t)s;
    *gen = e->gen;
    return 0;
}

int snic_ebs_addr_match(const struct snic_ebs_addr *a, const struct snic_ebs_header *h,
                        struct snic_ebs_expect *x)
{
    const struct snic_ebs_block *b = &h->u.block;

    if (h->type != SNIC_EBS_READ_RESP || b->addr_slot >= a->slots)
        return SNIC_ENOENT;
    const struct ebs_addr_entry *e = &a->entry[b->addr_slot];
    if (addr_damaged(a, b->addr_slot))
        return SNIC_ECORRUPT;
    if (!e->taken || e->gen != b->addr_gen || e->rpc_id != h->rpc_id || e->pkt_id != h->pkt_id ||
        e->lba != b->lba || e->seg_id != b->seg_id)
        return SNIC_ENOENT;
    x->rpc_id = e->rpc_id;
    x->seg_id = e->seg_id;
    x->lba = e->lba;
    x->dest = e->dest;
    x->pkt_id = e->pkt_id;
    x->pad = 0;
    x->length = e->length;
    return 0;
}

int snic_ebs_addr_clear(struct snic_ebs_addr *a, uint16_t slot, uint16_t gen)
{
    if (slot >= a->slots)
        return SNIC_EINVAL;
    const struct ebs_addr_entry *e = &a->entry[slot];
    int damaged = addr_damaged(a, slot);
    if (damaged ? !addr_bit(a, slot) : !e->taken || e->gen != gen)
        return SNIC_ENOENT; /* I2 */
    if (a->free == a->slots)
        return SNIC_ECORRUPT;                      /* the ring is full: all slots are free */
    addr_free_slot(a, slot, (uint16_t)(gen + 1u)); /* I3 */
    return damaged ? SNIC_ECORRUPT : 0;
}

uint32_t snic_ebs_addr_free(const struct snic_ebs_addr *a)
{
    return a->free;
}

int snic_ebs_addr_check(const struct snic_ebs_addr *a)
{
    uint32_t taken = 0;

    if (a->free > a->slots || a->head >= a->slots)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < a->slots; i++) {
        if (addr_damaged(a, i) || (int)a->entry[i].taken != addr_bit(a, i))
            return SNIC_ECORRUPT; /* I2 */
        taken += a->entry[i].taken;
    }
    if (taken + a->free != a->slots)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < a->free; i++) { /* I1: one index for each entry, so none is twice */
        uint32_t place = (a->head + i) & (a->slots - 1);
        uint32_t slot = a->ring[place];
        if (slot >= a->slots || a->entry[slot].taken || a->entry[slot].length != place)
            return SNIC_ECORRUPT;
    }
    return 0;
}
