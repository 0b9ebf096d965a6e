/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The bytes of a record: what they are for ever, and what is refused. */
#include "golden.h"
#include "store/store_priv.h"
#include "support.h"

#include <string.h>

static size_t example(unsigned char *p, int deleted)
{
    static const struct store_session own = {.client = UINT64_C(0x1112131415161718),
                                             .sequence = 3,
                                             .ts = UINT64_C(0x2122232425262728),
                                             .result = SNIC_EEXIST,
                                             .answer = 77};
    static unsigned char list[SNIC_STORE__SESSION];
    struct store_envelope e;
    memset(&e, 0, sizeof(e));
    store_session_put(list, 0, &own);
    e.key = (const unsigned char *)"key";
    e.key_size = 3;
    e.list = list;
    e.sessions = 1;
    e.ttl_ns = 1000000000;
    e.removed = UINT64_C(0x3132333435363738);
    e.flags = deleted ? SNIC_STORE__DELETED | SNIC_STORE__EXPIRED : 0;
    e.origin = deleted ? 0 : UINT64_C(0x4142434445464748);
    store_envelope_put(p, &e);
    size_t front = store_envelope_front(&e);
    if (deleted)
        return front;
    memcpy(p + front, "value", 5);
    return front + 5;
}

/* Another version of the library reads these records: their bytes do not change. */
static void test_store_envelope_bytes_are_the_format(void **state)
{
    unsigned char p[128], key[16], name[16];
    uint64_t hash[2];
    (void)state;
    for (unsigned i = 0; i < 16; i++)
        key[i] = (unsigned char)i;
    snic_siphash128(key, "key", 3, hash);
    snic_put_le64(name, hash[0]);
    snic_put_le64(name + 8, hash[1]);
    golden_bytes("store", "name", name, 16);
    golden_bytes("store", "record", p, example(p, 0));
    golden_bytes("store", "deleted", p, example(p, 1));
}

/* What is put is what is got; each byte that makes no sense, and each size that is too small, is
 * refused. */
static void test_store_envelope_without_sense_refused(void **state)
{
    static const struct {
        uint32_t at;
        unsigned char byte;
        int result;
    } bad[] = {
        {0, 0, SNIC_ECORRUPT},  {0, 2, SNIC_EVERSION}, {1, 4, SNIC_ECORRUPT},
        {1, 2, SNIC_ECORRUPT},  {1, 1, SNIC_ECORRUPT}, {3, 5, SNIC_ECORRUPT},
        {4, 65, SNIC_ECORRUPT}, {4, 2, SNIC_ECORRUPT}, {5, 1, SNIC_ECORRUPT},
        {6, 1, SNIC_ECORRUPT},  {7, 1, SNIC_ECORRUPT}, {71, 1, SNIC_ECORRUPT},
    };
    unsigned char p[128];
    struct store_envelope e;
    struct store_session x;
    (void)state;
    size_t size = example(p, 0);
    assert_int_equal(store_envelope_get(p, size, &e), 0);
    assert_int_equal(e.key_size, 3);
    assert_memory_equal(e.key, "key", 3);
    assert_int_equal(e.size, 5);
    assert_memory_equal(e.data, "value", 5);
    assert_int_equal(e.sessions, 1);
    store_session_get(&e, 0, &x);
    assert_true(x.client == UINT64_C(0x1112131415161718) && x.sequence == 3);
    assert_int_equal(x.result, SNIC_EEXIST);
    assert_int_equal(x.answer, 77);
    for (size_t n = 0; n < size - 5; n++)
        assert_int_equal(store_envelope_get(p, n, &e), SNIC_ECORRUPT);
    assert_int_equal(store_envelope_get(NULL, 0, &e), SNIC_ECORRUPT);
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        (void)example(p, 0);
        p[bad[i].at] = bad[i].byte;
        assert_int_equal(store_envelope_get(p, size, &e), bad[i].result);
    }
    (void)example(p, 0);
    memset(p + 8, 0, 8); /* continues a TTL that it does not have */
    assert_int_equal(store_envelope_get(p, size, &e), SNIC_ECORRUPT);
    (void)example(p, 0);
    memset(p + 35, 0, 8); /* a session of no client */
    assert_int_equal(store_envelope_get(p, size, &e), SNIC_ECORRUPT);
    (void)example(p, 0);
    memset(p + 43, 0, 8); /* or without a sequence */
    assert_int_equal(store_envelope_get(p, size, &e), SNIC_ECORRUPT);
    size = example(p, 1);
    assert_int_equal(store_envelope_get(p, size, &e), 0);
    assert_int_equal(store_envelope_get(p, size + 1, &e), SNIC_ECORRUPT);
    memset(p + 8, 0, 8); /* a deletion that would stay for ever */
    assert_int_equal(store_envelope_get(p, size, &e), SNIC_ECORRUPT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_envelope_bytes_are_the_format),
        cmocka_unit_test(test_store_envelope_without_sense_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
