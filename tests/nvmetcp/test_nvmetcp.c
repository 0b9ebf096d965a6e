/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both halves, by hand.
 */
#include "test_nvmetcp_util.h"

#include <stdlib.h>

static struct duo duo;
static unsigned char out[DUO_DISK], in[DUO_DISK];

static void fill(unsigned char *p, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)((i * 31) ^ (i >> 9) ^ seed);
}

/* Writes in the capsule and by R2T, and reads, give back what was written; with every mix of
   digests and alignments. */
static void test_nvmetcp_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command w[3], r;
    struct snic_iov a = {out, 4096}, b[2] = {{out + 4096, 1000}, {out + 5096, 50000}};
    struct snic_iov c = {out + 60000, 512}, all = {in, 55096};
    (void)state;
    fill(out, sizeof(out), 1);
    for (uint32_t i = 0; i < 48; i++) {
        duo_opts(d);
        d->ho.digests = i & 3;
        d->ho.hpda = (i & 4) != 0 ? 31 : 0;
        d->to.cpda = (i & 8) != 0 ? 31 : 0;
        d->host_inline = 4096;
        d->ho.r2ts_max = i % 3 + 1;
        d->grant_bytes = i >= 16 ? 10000 : 0;
        d->zero_copy = i >= 32;
        duo_open(d);
        duo_connect(d);
        duo_command(&w[0], 1, 0, &a, 1);
        duo_command(&w[1], 1, 4096, b, 2);
        duo_command(&w[2], 1, 100000, &c, 1);
        for (uint32_t k = 0; k < 3; k++)
            duo_submit(d, &w[k]);
        duo_run(d);
        assert_int_equal(d->done, 3);
        for (uint32_t k = 0; k < 3; k++)
            assert_true(w[k].error == 0 && w[k].status == 0);
        memset(in, 0, sizeof(in));
        duo_command(&r, 2, 0, &all, 1);
        duo_submit(d, &r);
        duo_run(d);
        assert_true(r.error == 0 && r.status == 0 && r.received == r.size);
        assert_memory_equal(in, out, 55096);
        assert_memory_equal(d->disk + 100000, out + 60000, 512);
        assert_int_equal(d->t_term + d->h_term + d->t_ended + d->h_ended, 0);
        duo_close(d);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_write_then_read_same_bytes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
