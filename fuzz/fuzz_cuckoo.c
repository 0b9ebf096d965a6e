/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cache table driven by an operation string, against a model and its own check.
 *
 * Bytes 0..3: key size (upper bit: SNIC_CUCKOO_EVICT), item size, capacity, seed. Then one
 * operation per two bytes: what and how many, and the key. Keys are 0..255 and the capacity is at
 * most 252 slots, so that tables fill up, displace and refuse.
 */
#include "snicstore/cuckoo.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_KEYS = 256, FUZZ_BATCH = 16 };

struct fuzz {
    struct snic_cuckoo *t;
    struct snic_cuckoo_opts o;
    uint32_t version[FUZZ_KEYS]; /* 0: absent */
    uint32_t next;
    uint64_t count;
    enum snic_cuckoo_verdict verdict;
    uint32_t updating;
};

static void fuzz_key(const struct fuzz *f, unsigned char *key, uint8_t n)
{
    for (uint32_t i = 0; i < f->o.key_size; i++)
        key[i] = i == 0 ? n : (unsigned char)(n & i);
}

static void fuzz_item(const struct fuzz *f, unsigned char *item, uint8_t n, uint32_t version)
{
    for (uint32_t i = 0; i < f->o.item_size; i++)
        item[i] = (unsigned char)(n + version * 3 + i);
}

static void fuzz_expect_item(const struct fuzz *f, const unsigned char *item, uint8_t n)
{
    unsigned char want[SNIC_CUCKOO_ITEM_MAX] = {0};

    fuzz_item(f, want, n, f->version[n]);
    SNIC_ASSERT(memcmp(item, want, f->o.item_size) == 0);
}

/* 0 when refused: the caller stops, since a refusal is the slowest thing a table does. */
static int fuzz_put(struct fuzz *f, uint8_t n)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX] = {0};
    unsigned char item[SNIC_CUCKOO_ITEM_MAX] = {0};
    int r;

    fuzz_item(f, item, n, f->next);
    fuzz_key(f, key, n);
    r = snic_cuckoo_put(f->t, key, item);
    if (f->version[n] != 0)
        SNIC_ASSERT(r == 1);
    else
        SNIC_ASSERT(r == 0 || r == SNIC_ENOSPC);
    if (r == SNIC_ENOSPC)
        return 0;
    f->count += f->version[n] == 0;
    f->version[n] = f->next++;
    return 1;
}

static void fuzz_put_n(struct fuzz *f, uint8_t n, uint32_t many)
{
    unsigned char keys[FUZZ_BATCH * SNIC_CUCKOO_KEY_MAX] = {0};
    unsigned char items[FUZZ_BATCH * SNIC_CUCKOO_ITEM_MAX] = {0};
    uint32_t done;

    for (uint32_t i = 0; i < many; i++) {
        fuzz_key(f, keys + (size_t)i * f->o.key_size, (uint8_t)(n + i));
        fuzz_item(f, items + (size_t)i * f->o.item_size, (uint8_t)(n + i), f->next);
    }
    done = snic_cuckoo_put_n(f->t, keys, items, many);
    SNIC_ASSERT(done <= many);
    for (uint32_t i = 0; i < done; i++) {
        f->count += f->version[(uint8_t)(n + i)] == 0;
        f->version[(uint8_t)(n + i)] = f->next;
    }
    if (done < many)
        SNIC_ASSERT(f->version[(uint8_t)(n + done)] == 0);
    f->next++;
}

static void fuzz_get_n(struct fuzz *f, uint8_t n, uint32_t many)
{
    unsigned char keys[FUZZ_BATCH * SNIC_CUCKOO_KEY_MAX] = {0};
    unsigned char items[FUZZ_BATCH * SNIC_CUCKOO_ITEM_MAX] = {0};
    uint64_t found;

    for (uint32_t i = 0; i < many; i++)
        fuzz_key(f, keys + (size_t)i * f->o.key_size, (uint8_t)(n + i));
    found = snic_cuckoo_get_n(f->t, keys, many, items);
    SNIC_ASSERT(found >> many == 0);
    for (uint32_t i = 0; i < many; i++) {
        SNIC_ASSERT((found >> i & 1) == (f->version[(uint8_t)(n + i)] != 0));
        if (found >> i & 1)
            fuzz_expect_item(f, items + (size_t)i * f->o.item_size, (uint8_t)(n + i));
    }
}

static enum snic_cuckoo_verdict fuzz_decide(void *ctx, void *item, int resident)
{
    struct fuzz *f = ctx;
    uint8_t n = (uint8_t)f->updating;

    SNIC_ASSERT(resident == (f->version[n] != 0));
    if (resident)
        fuzz_expect_item(f, item, n);
    fuzz_item(f, item, n, f->next);
    return f->verdict;
}

static void fuzz_update(struct fuzz *f, uint8_t n, uint32_t verdict)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX] = {0};
    int r;

    fuzz_key(f, key, n);
    f->updating = n;
    f->verdict = (enum snic_cuckoo_verdict)(verdict % 3);
    r = snic_cuckoo_update(f->t, key, f, fuzz_decide);
    if (r != 0) {
        SNIC_ASSERT(r == SNIC_ENOSPC && f->verdict == SNIC_CUCKOO_STORE && f->version[n] == 0);
    } else if (f->verdict == SNIC_CUCKOO_STORE) {
        f->count += f->version[n] == 0;
        f->version[n] = f->next++;
    } else if (f->verdict == SNIC_CUCKOO_REMOVE) {
        f->count -= f->version[n] != 0;
        f->version[n] = 0;
    }
}

static void fuzz_del(struct fuzz *f, uint8_t n)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX] = {0};
    int r;

    fuzz_key(f, key, n);
    r = snic_cuckoo_del(f->t, key);
    SNIC_ASSERT(r == (f->version[n] != 0 ? 0 : SNIC_ENOENT));
    f->count -= f->version[n] != 0;
    f->version[n] = 0;
}

static void fuzz_iterate(struct fuzz *f)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX] = {0};
    unsigned char item[SNIC_CUCKOO_ITEM_MAX] = {0};
    uint64_t cursor = 0;
    uint64_t seen = 0;

    while (snic_cuckoo_next(f->t, &cursor, key, item) == 0) {
        SNIC_ASSERT(f->version[key[0]] != 0);
        fuzz_expect_item(f, item, key[0]);
        seen++;
    }
    SNIC_ASSERT(seen == f->count);
}

static void fuzz_step(struct fuzz *f, uint8_t what, uint8_t n)
{
    uint32_t many = what >> 4;

    switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        for (uint32_t i = 0; i <= many && fuzz_put(f, (uint8_t)(n + i)); i++)
            continue;
        break;
    case 5:
    case 6:
        fuzz_put_n(f, n, many);
        break;
    case 7:
    case 8:
    case 9:
        fuzz_get_n(f, n, many);
        break;
    case 10:
    case 11:
        fuzz_update(f, n, many);
        break;
    case 12:
        fuzz_iterate(f);
        break;
    case 13:
        if (many == 15 && n == 255) {
            snic_cuckoo_clear(f->t);
            memset(f->version, 0, sizeof(f->version));
            f->count = 0;
            break;
        }
        fuzz_del(f, n);
        break;
    default:
        fuzz_del(f, n);
        break;
    }
    SNIC_ASSERT(snic_cuckoo_count(f->t) == f->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    size_t bytes;
    void *mem;

    if (size < 4)
        return 0;
    memset(&f, 0, sizeof(f));
    f.o.opts_size = sizeof(f.o);
    f.o.key_size = (data[0] & 0x7f) % 80; /* some are refused */
    f.o.flags = data[0] & 0x80 ? SNIC_CUCKOO_EVICT : 0;
    f.o.item_size = data[1] >= 253 ? 300 : data[1];
    f.o.capacity_slots = data[2] % 253;
    f.o.seed = data[3];
    f.next = 1;
    bytes = snic_cuckoo_memsize(&f.o);
    if (bytes == 0)
        return 0;
    mem = aligned_alloc(SNIC_CUCKOO_ALIGN, (size_t)snic_align_up(bytes, SNIC_CUCKOO_ALIGN));
    if (mem == NULL)
        return 0;
    SNIC_ASSERT(snic_cuckoo_init(&f.t, mem, bytes - 1, &f.o) == SNIC_ENOSPC);
    SNIC_ASSERT(snic_cuckoo_init(&f.t, mem, bytes, &f.o) == 0);
    for (size_t i = 4; i + 1 < size && i < 804; i += 2)
        fuzz_step(&f, data[i], data[i + 1]);
    fuzz_iterate(&f);
    SNIC_ASSERT(snic_cuckoo_check(f.t) == 0);
    free(snic_cuckoo_fini(f.t));
    return 0;
}
