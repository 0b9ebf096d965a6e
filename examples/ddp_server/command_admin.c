/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ADMIN: what an operator does, for clients that have proved the cluster's key:
 *     ADMIN CHALLENGE            32 hexadecimal digits, for this connection
 *     ADMIN PROVE proof          HMAC-SHA-256 under the key of "ddp_server admin", 0, the challenge
 *     ADMIN DRAIN                as SIGTERM
 * A proof answers one challenge, so one that was overheard is of no use.
 */
#include "cluster.h"
#include "commands.h"

#include <string.h>

static void admin_challenge(struct ds_call *k)
{
    char text[2 * DS_NONCE + 1];

    ds_random(k->client->nonce, DS_NONCE);
    k->client->challenged = 1;
    ds_hex_write(k->client->nonce, DS_NONCE, text);
    ds_put_text(k->reply, text);
}

static void admin_prove(struct ds_call *k)
{
    unsigned char want[DS_PROOF];
    unsigned char proof[DS_PROOF];
    unsigned char differs = 0;
    int challenged = k->client->challenged;

    k->client->challenged = 0;
    if (k->shard->secret == NULL) {
        ds_error(k->reply, "ERR the node was started without --cluster-key");
        return;
    }
    if (challenged && k->argv[2].size == 2 * DS_PROOF &&
        ds_hex_read((const char *)k->argv[2].data, 2 * DS_PROOF, proof) == 0) {
        ds_cluster_prove(k->shard->secret, k->client->nonce, want);
        for (uint32_t i = 0; i < DS_PROOF; i++)
            differs |= want[i] ^ proof[i];
        if (differs == 0) {
            k->client->admin = k->client->auth = 1;
            resp_put_text(k->reply, "+OK\r\n");
            return;
        }
    }
    k->shard->auth_failures++;
    ds_error(k->reply, "WRONGPASS it is not the cluster's key, or the challenge was another");
}

void ds_cmd_admin(struct ds_call *k)
{
    if (k->argc == 2 && resp_arg_is(&k->argv[1], "challenge")) {
        admin_challenge(k);
    } else if (k->argc == 3 && resp_arg_is(&k->argv[1], "prove")) {
        admin_prove(k);
    } else if (!k->client->admin) {
        ds_error(k->reply, "NOPERM ADMIN needs the cluster's key: ADMIN CHALLENGE, then PROVE");
    } else if (k->argc == 2 && resp_arg_is(&k->argv[1], "drain")) {
        ds_node_drain(k->shard->node);
        resp_put_text(k->reply, "+OK\r\n");
    } else {
        ds_error(k->reply, "ERR unknown subcommand or wrong number of arguments for 'admin'");
    }
}
