/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "solar_device.h"

static void device_flip(void *bytes, size_t size, uint32_t bit)
{
    uint64_t at = bit % (size * 8);
    ((unsigned char *)bytes)[at / 8] ^= (unsigned char)(1u << at % 8);
}

/* Is this operation one that the fault hits? */
static int device_lies(struct device *d, enum device_point point)
{
    if (d->fault.point != point)
        return 0;
    uint64_t n = d->seen++;
    if (n < d->fault.skip || (d->fault.count != 0 && n >= d->fault.skip + d->fault.count))
        return 0;
    d->hits++;
    return 1;
}

void device_init(struct device *d)
{
    memset(d, 0, sizeof(*d));
    d->key = d;
}

void device_lie(struct device *d, const struct device_fault *f)
{
    d->fault = *f;
    d->seen = 0;
    d->hits = 0;
}

/* ---- Checksums ---- */

/* What of @p data was flipped when the device read it last: forgotten, or kept for the sending. */
static void device_remember(struct device *d, const void *data, int flipped)
{
    for (uint32_t i = 0; i < DEVICE_FETCHED; i++) {
        if (d->fetched[i].at == data)
            d->fetched[i].at = NULL;
    }
    if (!flipped)
        return;
    d->fetched[d->fetched_next % DEVICE_FETCHED].at = data;
    d->fetched[d->fetched_next % DEVICE_FETCHED].bit = d->fault.bit;
    d->fetched_next++;
}

uint32_t device_crc(void *device, const void *data, size_t size)
{
    struct device *d = device;
    unsigned char copy[SNIC_EBS_BLOCK_BYTES];
    uint32_t honest = snic_crc32c(0, data, size);
    if (d->quarantined) {
        device_remember(d, data, 0);
        return honest;
    }
    memcpy(copy, data, size);
    int flipped = device_lies(d, DEVICE_FETCH);
    if (flipped)
        device_flip(copy, size, d->fault.bit);
    device_remember(d, data, flipped);
    uint32_t crc = snic_crc32c(0, copy, size);
    if (device_lies(d, DEVICE_CRC))
        device_flip(&crc, sizeof(crc), d->fault.bit);
    if (d->sample != 0 && d->crc_number++ % d->sample == 0) {
        d->sampled++;
        if (crc != honest) {
            d->caught++;
            device_blame(d, 1);
            return honest; /* what is sent is not that, and will be refused */
        }
    }
    return crc;
}

void device_blame(struct device *d, int wrong)
{
    d->wrong = wrong ? d->wrong + 1 : 0;
    if (d->distrust != 0 && d->wrong >= d->distrust)
        d->quarantined = 1;
}

/* ---- Ciphers: a stream of the unit's number, which no cipher is ---- */

static int device_xts(void *key, uint64_t unit, void *out, const void *in, size_t size,
                      enum device_point point)
{
    struct device *d = key;
    struct snic_rng r;
    snic_rng_init(&r, unit);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)in + i, 8);
        word ^= snic_rng_next(&r);
        memcpy((unsigned char *)out + i, &word, 8);
    }
    if (!d->quarantined && device_lies(d, point))
        device_flip(out, size, d->fault.bit);
    return 0;
}

static int device_encrypt(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    return device_xts(key, unit, out, in, size, DEVICE_ENCRYPT);
}

static int device_decrypt(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    return device_xts(key, unit, out, in, size, DEVICE_DECRYPT);
}

const struct snic_ebs_sec_ops device_sec = {.ops_size = sizeof(struct snic_ebs_sec_ops),
                                            .xts_encrypt = device_encrypt,
                                            .xts_decrypt = device_decrypt};

/* ---- Packets ---- */

/* The copy that was summed is what is sent, if this piece was read with a flip. */
static void device_fetched(struct device *d, const struct snic_iov *v, void *copy)
{
    for (uint32_t i = 0; i < DEVICE_FETCHED; i++) {
        if (d->fetched[i].at != v->base || v->size != SNIC_EBS_BLOCK_BYTES)
            continue;
        device_flip(copy, v->size, d->fetched[i].bit);
        d->fetched[i].at = NULL; /* sent again it is read again */
    }
}

uint32_t device_send(struct device *d, const struct snic_solar_train *t, uint32_t i, void *out)
{
    unsigned char *bytes = out;
    uint32_t size = 0, at = 0;
    for (uint32_t k = 0; k < t->iov_count; k++) { /* no piece is of two datagrams */
        const struct snic_iov *v = &t->iov[k];
        if (at / t->segment == i && v->size > 0) {
            memcpy(bytes + size, v->base, v->size);
            device_fetched(d, v, bytes + size);
            size += (uint32_t)v->size;
        }
        at += (uint32_t)v->size;
    }
    uint32_t type = bytes[1], body = (bytes[0] & 15u) * 16;
    if (d->fault.type != 0 && d->fault.type != type)
        return size;
    if (size == body + SNIC_EBS_BLOCK_BYTES && device_lies(d, DEVICE_DATA))
        device_flip(bytes + body, SNIC_EBS_BLOCK_BYTES, d->fault.bit);
    if (device_lies(d, DEVICE_HEADER))
        device_flip(bytes, snic_min_u64(size, SNIC_EBS_HEADER_BYTES), d->fault.bit);
    return size;
}

/* ---- DMA ---- */

int device_put(struct device *d, unsigned char *memory, uint32_t blocks, uint32_t to,
               uint32_t window, uint32_t count, const void *block)
{
    uint32_t used = to;
    if (device_lies(d, DEVICE_ADDRESS))
        used ^= 1u << d->fault.bit % 32;
    if (used >= window && used < window + count && used < blocks)
        memcpy(memory + (size_t)used * SNIC_EBS_BLOCK_BYTES, block, SNIC_EBS_BLOCK_BYTES);
    else
        d->blocked++;
    if (used == to)
        return 0;
    d->misplaced++;
    memcpy(memory + (size_t)to * SNIC_EBS_BLOCK_BYTES, block, SNIC_EBS_BLOCK_BYTES);
    return 1;
}
