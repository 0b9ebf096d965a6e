/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmeauth_util.h"

#include <stdlib.h>
#include <string.h>

uint32_t na_fail_at, na_calls;

static int na_call(void)
{
    na_calls++;
    return na_fail_at != 0 && na_calls >= na_fail_at ? SNIC_EIO : 0;
}

static uint64_t na_hash(uint64_t a, uint64_t b, const void *in, size_t size)
{
    unsigned char key[16];
    snic_put_le64(key, a);
    snic_put_le64(key + 8, b);
    return snic_siphash(key, in, size);
}

static int na_hmac(uint32_t hash, const void *key, size_t key_size, const void *in, size_t size,
                   uint8_t *out)
{
    uint8_t padded[64] = {0}; /* as HMAC does: an empty key is the same as one of zeros */
    memcpy(padded, key, snic_min_u64(key_size, sizeof(padded)));
    for (uint32_t i = 0; i < snic_nvmeauth_digest_size(hash) / 8; i++)
        snic_put_le64(out + (size_t)8 * i,
                      na_hash(na_hash(hash, i, padded, sizeof(padded)), i, in, size));
    return na_call();
}

static int na_digest(uint32_t hash, const void *in, size_t size, uint8_t *out)
{
    return na_hmac(hash, "", 0, in, size, out);
}

/* Modulo 2^31 - 1; the value is in the last 8 bytes. */
static uint64_t na_power(uint64_t base, uint64_t x)
{
    uint64_t p = (UINT64_C(1) << 31) - 1, r = 1;
    for (; x != 0; x >>= 1, base = base * base % p)
        if ((x & 1) != 0)
            r = r * base % p;
    return r;
}

static uint64_t na_exponent(const uint8_t x[64])
{
    return na_hash(1, 2, x, 64) | 1;
}

static void na_value(uint32_t group, uint64_t v, uint8_t *out)
{
    uint32_t size = snic_nvmeauth_dh_size(group);
    memset(out, 0, size);
    snic_put_le64(out + size - 8, v);
}

static int na_public(uint32_t group, const uint8_t x[64], uint8_t *out)
{
    na_value(group, na_power(7, na_exponent(x)), out);
    return na_call();
}

static int na_shared(uint32_t group, const uint8_t x[64], const uint8_t *y, uint8_t *out)
{
    uint32_t size = snic_nvmeauth_dh_size(group);
    uint64_t v = snic_get_le64(y + size - 8);
    for (uint32_t i = 0; i < size - 8; i++)
        if (y[i] != 0)
            return SNIC_EPROTO;
    if (v < 2 || v > (UINT64_C(1) << 31) - 3)
        return SNIC_EPROTO;
    na_value(group, na_power(v, na_exponent(x)), out);
    return na_call();
}

const struct snic_nvmeauth_ops *na_ops(void)
{
    static const struct snic_nvmeauth_ops ops = {.ops_size = sizeof(ops),
                                                 .digest = na_digest,
                                                 .hmac = na_hmac,
                                                 .dh_public = na_public,
                                                 .dh_shared = na_shared};
    return &ops;
}

static void na_fill(void *out, size_t size, uint64_t seed)
{
    uint8_t *p = out;
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)na_hash(seed, i, "", 0);
}

void na_init(struct na_pair *p, uint32_t hash, uint32_t group, int both, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    snic_nvmeauth_init(&p->host, NA_HOST, NA_SUB, SNIC_NVMEAUTH_HASHES, SNIC_NVMEAUTH_GROUPS);
    snic_nvmeauth_init(&p->ctrl, NA_HOST, NA_SUB, UINT32_C(1) << hash, UINT32_C(1) << group);
    p->host_keys.host.size = 32;
    p->host_keys.host.hash = (uint8_t)(seed % 4);
    na_fill(p->host_keys.host.bytes, 32, seed + 1);
    if (both) {
        p->host_keys.ctrl.size = 48;
        p->host_keys.ctrl.hash = (uint8_t)((seed + 1) % 4);
        na_fill(p->host_keys.ctrl.bytes, 48, seed + 2);
    }
    p->ctrl_keys = p->host_keys;
    na_fill(&p->host_random, sizeof(p->host_random), seed + 3);
    na_fill(&p->ctrl_random, sizeof(p->ctrl_random), seed + 4);
    na_calls = na_fail_at = 0;
}

uint32_t na_steps(const struct na_pair *p)
{
    return p->host_keys.ctrl.size != 0 ? 5 : 4;
}

size_t na_make(struct na_pair *p, uint32_t step)
{
    int n = 0;
    if (step == 0)
        n = snic_nvmeauth_host_start(&p->host, 77, p->message[0], sizeof(p->message[0]));
    else if (step % 2 == 1)
        n = snic_nvmeauth_ctrl_get(&p->ctrl, na_ops(), p->message[step], sizeof(p->message[step]));
    else /* the host has made it when it was passed the one before */
        return p->size[step];
    p->size[step] = n > 0 ? (size_t)n : 0;
    return p->size[step];
}

void na_pass(struct na_pair *p, uint32_t step, const void *data, size_t size)
{
    /* Of its exact size: reads beyond are found. */
    uint8_t *copy = malloc(size + 1);
    uint8_t *exact = copy != NULL ? copy + 1 : NULL;
    if (copy == NULL)
        abort();
    memcpy(exact, data, size);
    if (step % 2 == 0) {
        (void)snic_nvmeauth_ctrl_put(&p->ctrl, na_ops(), &p->ctrl_keys, &p->ctrl_random, exact,
                                     size);
    } else {
        uint32_t next = step < 4 ? step + 1 : step;
        int n = snic_nvmeauth_host_step(&p->host, na_ops(), &p->host_keys, &p->host_random, exact,
                                        size, p->message[next]);
        p->size[next] = (size_t)n;
    }
    free(copy);
}

void na_finish(struct na_pair *p, uint32_t from)
{
    for (uint32_t step = from; step < 5; step++) {
        size_t n = na_make(p, step);
        if (n == 0)
            return;
        na_pass(p, step, p->message[step], n);
    }
}

int na_intact(const struct na_pair *p)
{
    return snic_nvmeauth_check(&p->host) == 0 && snic_nvmeauth_check(&p->ctrl) == 0;
}
