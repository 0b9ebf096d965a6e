/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A conversation with every kind of PDU, its streams cut in two at every byte, and into pieces of
 * every size.
 */
#include "test_nvmetcp_util.h"

static struct duo duo;
static unsigned char out[2000], in[2000];

/* @return bytes of both streams, in `bytes` */
static void talk(struct duo *d, uint32_t digests, uint64_t bytes[2])
{
    struct snic_nvmetcp_command c[4];
    struct snic_iov a = {out, 300}, b[2] = {{out + 300, 1}, {out + 301, 999}};
    struct snic_iov v[3] = {{in, 5}, {in + 5, 640}, {in + 645, 655}};
    struct snic_nvmetcp_stats st;
    d->ho.digests = digests;
    d->ho.r2ts_max = 2;
    d->ho.hpda = digests;
    d->to.cpda = digests;
    d->grant_bytes = 600;
    d->host_inline = 300;
    duo_open(d);
    duo_connect(d);
    duo_command(&c[0], 1, 0, &a, 1);
    duo_command(&c[1], 1, 300, b, 2);
    duo_command(&c[2], 0, 0, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        duo_submit(d, &c[i]);
    duo_run(d);
    duo_command(&c[3], 2, 0, v, 3);
    memset(in, 0, 1300);
    duo_submit(d, &c[3]);
    duo_run(d);
    assert_true(duo_idle(d));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(c[i].state == 1 && c[i].error == 0 && c[i].status == 0);
    assert_memory_equal(in, out, 1300);
    snic_nvmetcp_target_stats(d->t, &st);
    assert_true(st.r2ts == 2 && st.commands == 5 && st.responses == 5 && st.refused == 0);
    bytes[0] = st.bytes_in;
    bytes[1] = st.bytes_out;
    assert_int_equal(d->t_term + d->t_ended + d->h_term + d->h_ended, 0);
    duo_close(d);
}

static void test_nvmetcp_stream_cut_at_every_byte(void **state)
{
    struct duo *d = &duo;
    uint64_t all[2], bytes[2];
    (void)state;
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 13 + 5);
    for (uint32_t digests = 0; digests < 4; digests += 3) {
        duo_opts(d);
        talk(d, digests, all);
        for (uint32_t zero_copy = 0; zero_copy < 2; zero_copy++) {
            for (uint32_t way = 0; way < 2; way++) {
                uint64_t step = support_stride(zero_copy ? 3 : 1, 5);
                for (uint64_t at = 1 + support_turn(step); at < all[way]; at += step) {
                    duo_opts(d);
                    d->split[way] = at;
                    d->zero_copy = (int)zero_copy;
                    talk(d, digests, bytes);
                    assert_true(bytes[0] == all[0] && bytes[1] == all[1]);
                }
            }
        }
    }
}

static void test_nvmetcp_stream_in_pieces_of_every_size(void **state)
{
    struct duo *d = &duo;
    uint64_t bytes[2];
    (void)state;
    for (uint32_t cut = 1; cut < 300; cut++) {
        duo_opts(d);
        d->cut = cut;
        d->zero_copy = (int)(cut & 1);
        d->output_iovs = 1 + cut % 4;
        talk(d, cut & 3, bytes);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_stream_cut_at_every_byte),
        cmocka_unit_test(test_nvmetcp_stream_in_pieces_of_every_size),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
