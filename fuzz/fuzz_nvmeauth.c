/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both halves of an authentication, driven by an operation string: messages passed on, damaged, cut
 * or made of the input; secrets as text. A controller is never DONE without the key of the host.
 */
#include "snicstore/nvmeauth.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

/* Cipher functions without strength, but of all input. */
static int f_hmac(uint32_t hash, const void *key, size_t key_size, const void *in, size_t size,
                  uint8_t *out)
{
    unsigned char k[16] = {0};
    for (uint32_t i = 0; i < snic_nvmeauth_digest_size(hash) / 8; i++) {
        snic_put_le64(k, i + 8 * hash);
        snic_put_le64(k + 8, key_size == 0 ? 0 : snic_siphash(k, key, key_size));
        snic_put_le64(out + (size_t)8 * i, snic_siphash(k, in, size));
    }
    return 0;
}

static int f_digest(uint32_t hash, const void *in, size_t size, uint8_t *out)
{
    return f_hmac(hash, NULL, 0, in, size, out);
}

/* The group of addition: g^x is x. */
static int f_public(uint32_t group, const uint8_t x[64], uint8_t *out)
{
    memset(out, 0, snic_nvmeauth_dh_size(group));
    memcpy(out, x, 64);
    return 0;
}

static int f_shared(uint32_t group, const uint8_t x[64], const uint8_t *y, uint8_t *out)
{
    memset(out, 0, snic_nvmeauth_dh_size(group));
    for (int i = 0; i < 64; i++)
        out[i] = (uint8_t)(x[i] * y[i]);
    return y[0] == 0xff ? SNIC_EPROTO : 0;
}

static const struct snic_nvmeauth_ops f_ops = {.ops_size = sizeof(f_ops),
                                               .digest = f_digest,
                                               .hmac = f_hmac,
                                               .dh_public = f_public,
                                               .dh_shared = f_shared};

struct input {
    const uint8_t *at;
    size_t left;
};

static uint8_t next(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static void secret(struct input *in)
{
    char text[128];
    struct snic_nvmeauth_key k;
    size_t n = next(in) % sizeof(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)next(in);
    text[n] = 0;
    if (snic_nvmeauth_key_parse(&k, text) == 0)
        must((k.size == 32 || k.size == 48 || k.size == 64) && k.hash <= 3);
}

struct f {
    struct snic_nvmeauth host, ctrl;
    struct snic_nvmeauth_keys keys, wrong;
    struct snic_nvmeauth_random random;
    uint8_t message[SNIC_NVMEAUTH_MESSAGE_BYTES];
    size_t size;
    int honest; /* the host has the key, and its last Reply was passed on unchanged */
};

static void damage(struct f *f, struct input *in)
{
    uint8_t how = next(in);
    size_t at = ((size_t)next(in) << 8 | next(in)) % sizeof(f->message);
    if (how % 4 == 0)
        f->message[at] ^= next(in);
    else if (how % 4 == 1)
        f->size = at;
    else if (how % 4 == 2)
        for (size_t i = at % 16, n = i + next(in) % 32; i < n; i++)
            f->message[i] = next(in);
}

static void pass(struct f *f, int to_host, int with_key)
{
    uint8_t *copy = malloc(f->size + 1);
    must(copy != NULL);
    memcpy(copy, f->message, f->size);
    for (size_t i = 0; i < sizeof(f->random.challenge); i++)
        f->random.challenge[i] = (uint8_t)(f->random.challenge[i] + i + 1);
    f->random.dh[0]++;
    if (to_host) {
        f->size = (size_t)snic_nvmeauth_host_step(&f->host, &f_ops, with_key ? &f->keys : &f->wrong,
                                                  &f->random, copy, f->size, f->message);
        must(f->size <= sizeof(f->message));
        f->honest |= with_key;
    } else {
        (void)snic_nvmeauth_ctrl_put(&f->ctrl, &f_ops, &f->keys, &f->random, copy, f->size);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct f f;
    memset(&f, 0, sizeof(f));
    uint8_t what = next(&in);
    if (what == 255) {
        secret(&in);
        return 0;
    }
    f.keys.host.size = 32;
    f.keys.host.hash = what % 4;
    f.keys.ctrl.size = (what & 4) != 0 ? 48 : 0;
    memset(f.keys.host.bytes, 7, 32);
    f.wrong = f.keys;
    f.wrong.host.bytes[5] ^= 1;
    f.random.sequence = next(&in);
    snic_nvmeauth_init(&f.host, "host", "sub", SNIC_NVMEAUTH_HASHES, SNIC_NVMEAUTH_GROUPS);
    snic_nvmeauth_init(&f.ctrl, "host", "sub", next(&in) | 2u, next(&in) | 1u);
    for (int i = 0; i < 200 && in.left > 0; i++) {
        uint8_t op = next(&in);
        int n = 0;
        switch (op % 8) {
        case 0:
            n = snic_nvmeauth_host_start(&f.host, next(&in), f.message, sizeof(f.message));
            f.size = n > 0 ? (size_t)n : f.size;
            break;
        case 1:
        case 2:
            n = snic_nvmeauth_ctrl_get(&f.ctrl, &f_ops, f.message,
                                       (op & 8) != 0 ? next(&in) : sizeof(f.message));
            must(n > 0 || n == SNIC_ENOSPC);
            f.size = n > 0 ? (size_t)n : f.size;
            break;
        case 3:
        case 4:
            pass(&f, 0, 1);
            break;
        case 5:
        case 6:
            pass(&f, 1, (op & 8) == 0);
            break;
        default:
            damage(&f, &in);
            break;
        }
        must(snic_nvmeauth_check(&f.host) == 0 && snic_nvmeauth_check(&f.ctrl) == 0);
        if (f.ctrl.state == SNIC_NVMEAUTH_DONE)
            must(f.honest);
    }
    snic_nvmeauth_fini(&f.host);
    snic_nvmeauth_fini(&f.ctrl);
    return 0;
}
