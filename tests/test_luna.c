/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both sides, by hand: one agent, one target, pipes in memory (test_luna_util.h).
 */
#include "test_luna_util.h"

#include <stdlib.h>

static struct duo duo;

enum { MANY = 300 };
static unsigned char out[MANY * SNIC_EBS_BLOCK_BYTES], in[MANY * SNIC_EBS_BLOCK_BYTES];

/* Writes, zeros, flushes and reads over several RPCs and a segment's edge give back what was
   written, and what never was reads as zeros. */
static void test_luna_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_luna_io w, r, f;
    struct snic_iov wi[3] = {{out, 7 * SNIC_EBS_BLOCK_BYTES},
                             {out + 7 * SNIC_EBS_BLOCK_BYTES, SNIC_EBS_BLOCK_BYTES},
                             {out + 8 * SNIC_EBS_BLOCK_BYTES, 192 * SNIC_EBS_BLOCK_BYTES}};
    struct snic_iov ri = {in, sizeof(in)};
    (void)state;
    duo_open(d);
    duo_fill(out, sizeof(out), 1);
    memset(in, 0xff, sizeof(in));
    duo_io(d, &w, SNIC_LUNA_WRITE, 400, 200, wi, 3);
    duo_io(d, &f, SNIC_LUNA_FLUSH, 0, 0, NULL, 0);
    assert_true(duo_until(d, 2, 200));
    assert_int_equal(w.result, 0);
    assert_true(f.result == 0 && w.done_ns <= f.done_ns);
    duo_io(d, &r, SNIC_LUNA_READ, 350, MANY, &ri, 1);
    assert_true(duo_until(d, 3, 200));
    assert_int_equal(r.result, 0);
    for (uint32_t i = 0; i < 50 * SNIC_EBS_BLOCK_BYTES; i++)
        assert_true(in[i] == 0 && in[250 * SNIC_EBS_BLOCK_BYTES + i] == 0);
    assert_memory_equal(in + 50 * SNIC_EBS_BLOCK_BYTES, out, 200 * SNIC_EBS_BLOCK_BYTES);
    assert_int_equal(r.retries + w.retries, 0);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_luna_write_then_read_same_bytes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
