/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records of any contents: decoding them is safe, and what was accepted is encoded again to the
 * same bytes, checksum included.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/kvfs_format.h"

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void attributes(const uint8_t *record, uint32_t size)
{
    unsigned char again[SNIC_KVFS_ATTR_BYTES];
    struct snic_fsop_attr a;
    if (snic_kvfs_attr_decode(&a, record, size) != 0)
        return;
    snic_kvfs_attr_encode(again, &a);
    REQUIRE(memcmp(again + SNIC_KVFS_HEAD, record + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD) == 0);
}

static void entries(const uint8_t *record, uint32_t size)
{
    unsigned char *again = malloc(size);
    struct snic_kvfs_entry e;
    uint32_t at = 0, last = 0, made = 0;
    int rc;
    REQUIRE(again != NULL);
    while ((rc = snic_kvfs_entry_next(record, size, &at, &e)) == 1) {
        REQUIRE(at > last && at <= size);
        last = at;
        REQUIRE(snic_kvfs_entry_append(again, &made, size, &e) == 0);
    }
    if (rc == 0)
        REQUIRE(made == size && memcmp(again + SNIC_KVFS_HEAD, record + SNIC_KVFS_HEAD,
                                       size - SNIC_KVFS_HEAD) == 0);
    free(again);
}

static void super(const uint8_t *record, uint32_t size)
{
    unsigned char again[SNIC_KVFS_SUPER_BYTES];
    struct snic_kvfs_super s;
    if (snic_kvfs_super_decode(&s, record, size) != 0)
        return;
    snic_kvfs_super_encode(again, &s);
    REQUIRE(memcmp(again + SNIC_KVFS_HEAD, record + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snic_kvop_key key;
    unsigned char *record;
    char text[64];
    uint32_t n;
    if (size < 4 || size > SNIC_KVOP_VALUE_MAX)
        return 0;
    snic_kvop_key_set(&key, data[0], data + 1, 1U + data[1] % 2U);
    snic_kvfs_key_text(&key, text, 1U + data[2] % 64U);
    n = (uint32_t)size - 3;
    record = malloc(n);
    REQUIRE(record != NULL);
    memcpy(record, data + 3, n);
    (void)(snic_kvfs_verify(&key, record, n) < 0);
    attributes(record, n);
    entries(record, n);
    super(record, n);
    if (n >= SNIC_KVFS_HEAD) {
        snic_kvfs_seal(&key, record, n, SNIC_KVFS_RESERVED);
        REQUIRE(snic_kvfs_verify(&key, record, n) == SNIC_KVFS_RESERVED);
    }
    free(record);
    return 0;
}
