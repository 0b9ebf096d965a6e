/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes on the director's channel, as lib/director/FORMAT.md has them. */
#include "director/wire.h"
#include "golden.h"
#include "support.h"

static void test_director_format_vectors(void **state)
{
    static struct director_stage s;
    struct director_wire w = {.conn = 0x0102030405060708,
                              .seq = 0x1112131415161718,
                              .word = 0x2122232425262728,
                              .size = 3,
                              .kind = DIRECTOR_MESSAGE,
                              .flags = 0x3132,
                              .offset = 5,
                              .total = 8};
    unsigned char head[SNIC_DIRECTOR__LONG_HEAD];
    (void)state;
    memcpy(director_stage_put(&s, &w), "abc", 3);
    golden_bytes("director", "entry", s.bytes, s.used);
    director_wire_put_long(head, &w);
    golden_bytes("director", "piece", head, sizeof(head));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_format_vectors),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
