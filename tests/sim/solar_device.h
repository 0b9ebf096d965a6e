/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A storage device that computes what SOLAR offloads (checksum, cipher, DMA) and may lie: it flips
 * bits on demand, in each of the places where hardware can. It sits behind the engine's function
 * pointers (crc, the ciphers' ops) and between its trains and the network, so the engine does not
 * know that it is there.
 *
 * With it come the checks that the owner of such a device makes in software, for what the engine
 * cannot see: one block in `sample` is summed again from the client's memory, an engine that lies
 * too often is put out of use, the address that a block went to is compared with the one that was
 * meant.
 */
#ifndef SNIC_TESTS_SIM_SOLAR_DEVICE_H
#define SNIC_TESTS_SIM_SOLAR_DEVICE_H

#include "snicstore/solar.h"

/* Where a bit flips. */
enum device_point {
    DEVICE_NONE,
    DEVICE_FETCH,   /* in the block as the device has read it: before its checksum; what it sums is
                       what it sends */
    DEVICE_CRC,     /* in the checksum */
    DEVICE_ENCRYPT, /* in what the cipher gives */
    DEVICE_DECRYPT,
    DEVICE_DATA,   /* in a packet's block, after its checksum: in the device or on the wire */
    DEVICE_HEADER, /* in a packet's headers */
    DEVICE_ADDRESS /* in the address that a block is put to */
};

struct device_fault {
    enum device_point point;
    uint32_t type;  /* DATA, HEADER: packets of this type; 0: any */
    uint32_t bit;   /* which, modulo what there is */
    uint32_t skip;  /* operations of that kind that are spared first */
    uint32_t count; /* and then so many are hit; 0: all */
};

#define DEVICE_FETCHED 64

struct device {
    struct device_fault fault;
    uint64_t seen;
    uint64_t hits; /* bits flipped */
    /* -- the owner's checks -- */
    uint32_t sample;     /* one block in so many is summed by software, too; 0: none */
    uint32_t distrust;   /* wrong checksums in a row until the engine is put out of use; 0: never */
    uint32_t wrong;      /* in a row */
    int quarantined;     /* checksums are software's now */
    uint64_t sampled;    /* blocks */
    uint64_t caught;     /* of them wrong */
    uint64_t misplaced;  /* blocks that went elsewhere, as the comparison found */
    uint64_t blocked;    /* of them, that the window denied */
    uint64_t crc_number; /* checksums so far */
    struct {
        const void *at; /* a block of the client's */
        uint32_t bit;   /* flipped in the device's copy */
    } fetched[DEVICE_FETCHED];
    uint32_t fetched_next;
    void *key; /* of the ciphers: the device itself */
};

/* Honest, until a fault is set. */
void device_init(struct device *d);
/* From now on. */
void device_lie(struct device *d, const struct device_fault *f);

/* The engine's crc. Context: the device. */
uint32_t device_crc(void *device, const void *data, size_t size);
/* The engine's ciphers, of a toy; xts_key is the device. */
extern const struct snic_ebs_sec_ops device_sec;

/* The bytes of datagram @i of a train, as the device sends them. @return their number */
uint32_t device_send(struct device *d, const struct snic_solar_train *t, uint32_t i, void *out);
/* The owner hears that what was sent had a wrong checksum (a NAK), or that all is well. */
void device_blame(struct device *d, int wrong);
/*
 * Put a block that was read from where the engine wanted it to @p to, of a client's memory
 * of @p blocks blocks from @p memory; the owner compares, and does it again. @p window: the device
 * may write to [@p window, @p window + @p count blocks) only. @return 0; 1 it was misplaced first
 */
int device_put(struct device *d, unsigned char *memory, uint32_t blocks, uint32_t to,
               uint32_t window, uint32_t count, const void *block);

#endif
