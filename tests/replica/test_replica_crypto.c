/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A cluster under a shared key, with libcrypto's ciphers; and a node that has another key. */
#include "cluster.h"

#include "support.h"

#include <string.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static const unsigned char key[32] = "the key that all nodes share";

static void open_keys(struct cluster_opts *o)
{
    o->sec = snic_ebs_openssl();
    assert_non_null(o->sec);
    assert_int_equal(snic_ebs_openssl_secret_open(&o->secret, key, sizeof(key)), 0);
    for (uint32_t i = 0; i < CLUSTER_NODES; i++)
        assert_int_equal(snic_ebs_openssl_gcm_open(&o->gcm[i], key, 16), 0);
}

static void close_keys(struct cluster_opts *o)
{
    snic_ebs_openssl_close(o->secret);
    for (uint32_t i = 0; i < CLUSTER_NODES; i++)
        snic_ebs_openssl_close(o->gcm[i]);
}

static void test_replica_crypto_cluster_serves(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16, .value_max = 60000};
    (void)state;
    o.segment_bytes = 2 << 20;
    open_keys(&o);
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    assert_true(cluster_settle(c, 10 * SECOND));
    for (uint32_t i = 0; i < 30; i++) {
        struct cluster_op *w, *g;
        assert_int_equal(cluster_do(c, i % 3, SNIC_REPLICA_PUT, i % 4, &w), 0);
        assert_int_equal(cluster_do(c, (i + 1) % 3, SNIC_REPLICA_GET, i % 4, &g), 0);
        assert_int_equal(g->content, w->content);
        if (i == 15) {
            cluster_down(c, 2, CLUSTER_POWER);
            cluster_run(c, SECOND);
            cluster_up(c, 2, 0);
            assert_true(cluster_settle(c, 20 * SECOND));
        }
    }
    cluster_judge(c, 1);
    assert_null(c->failure);
    cluster_free(c);
    close_keys(&o);
}

/* It is refused by name at both ends, and the others serve without it. */
static void test_replica_crypto_other_key_stays_outside(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16};
    struct snic_replica_peer_stats p;
    unsigned char other[32];
    void *wrong, *right;
    (void)state;
    open_keys(&o);
    memcpy(other, key, sizeof(other));
    other[0] ^= 1;
    assert_int_equal(snic_ebs_openssl_secret_open(&wrong, other, sizeof(other)), 0);
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++) {
        right = c->o.secret;
        c->o.secret = i == 2 ? wrong : right;
        cluster_up(c, i, 1);
        c->o.secret = right;
    }
    cluster_run(c, 5 * SECOND);
    assert_int_equal(cluster_serves(c, 2), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct snic_replica_stats s;
        snic_replica_get_stats(c->node[i].r, &s);
        assert_true(s.wrong_key > 0);
        assert_int_equal(snic_replica_get_peer(c->node[i].r, i == 2 ? 0 : 2, &p), 0);
        assert_true(p.state != SNIC_REPLICA_PEER_UP && p.refusal != NULL);
        assert_int_equal(strncmp(p.refusal, "key: ", 5), 0);
    }
    cluster_free(c);
    snic_ebs_openssl_close(wrong);
    close_keys(&o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_crypto_cluster_serves),
        cmocka_unit_test(test_replica_crypto_other_key_stays_outside),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
