/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One half of an authentication as a process, for nvmeauth_judge.py: lines in, lines out.
 *
 *   init HOSTNQN SUBNQN HASHES GROUPS      keys HOST CTRL ("-": none)      random CHALLENGE DH SEQ
 *   put HEX  ->  STATE FAILURE             get ROOM   ->  STATE FAILURE HEX
 *   start TID -> STATE FAILURE HEX         step HEX   ->  STATE FAILURE HEX
 */
#include "snicstore/nvmeauth.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINE = 8192, WORDS = 6 };

static struct snic_nvmeauth half;
static struct snic_nvmeauth_keys keys;
static struct snic_nvmeauth_random random_bytes;

static size_t from_hex(uint8_t *out, size_t room, const char *hex)
{
    size_t n = 0;
    for (unsigned byte; n < room && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        out[n++] = (uint8_t)byte;
    return n;
}

static void answer(const uint8_t *data, int size)
{
    if (size < 0)
        printf("error %d", size);
    else
        printf("%u %u ", half.state, half.failure);
    for (int i = 0; i < size; i++)
        printf("%02x", data[i]);
    printf("\n");
    fflush(stdout);
    if (snic_nvmeauth_check(&half) != 0)
        exit(2);
}

static int parse(struct snic_nvmeauth_key *out, const char *text)
{
    memset(out, 0, sizeof(*out));
    return text[0] == '-' ? 0 : snic_nvmeauth_key_parse(out, text);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static void run(char *const *w)
{
    const struct snic_nvmeauth_ops *ops = snic_nvmeauth_openssl();
    uint8_t in[LINE / 2], out[4096] = {0};
    size_t n = from_hex(in, sizeof(in), w[1]);
    if (strcmp(w[0], "init") == 0) {
        snic_nvmeauth_init(&half, w[1], w[2], number(w[3]), number(w[4]));
        answer(NULL, 0);
    } else if (strcmp(w[0], "keys") == 0) {
        int r = parse(&keys.host, w[1]);
        answer(NULL, r != 0 ? r : parse(&keys.ctrl, w[2]));
    } else if (strcmp(w[0], "random") == 0) {
        memcpy(random_bytes.challenge, in, snic_min_u64(n, sizeof(random_bytes.challenge)));
        (void)from_hex(random_bytes.dh, sizeof(random_bytes.dh), w[2]);
        random_bytes.sequence = number(w[3]);
        answer(NULL, 0);
    } else if (strcmp(w[0], "put") == 0) {
        (void)snic_nvmeauth_ctrl_put(&half, ops, &keys, &random_bytes, in, n);
        answer(NULL, 0);
    } else if (strcmp(w[0], "get") == 0) {
        answer(out, snic_nvmeauth_ctrl_get(&half, ops, out, number(w[1])));
    } else if (strcmp(w[0], "start") == 0) {
        answer(out, snic_nvmeauth_host_start(&half, (uint16_t)number(w[1]), out, sizeof(out)));
    } else if (strcmp(w[0], "step") == 0) {
        answer(out, snic_nvmeauth_host_step(&half, ops, &keys, &random_bytes, in, n, out));
    } else {
        exit(3);
    }
}

int main(void)
{
    static char line[LINE], none[] = "";
    if (snic_nvmeauth_openssl() == NULL)
        return 77;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *w[WORDS] = {none, none, none, none, none, none}, *at = NULL;
        int i = 0;
        for (char *t = strtok_r(line, " \n", &at); t != NULL && i < WORDS;
             t = strtok_r(NULL, " \n", &at))
            w[i++] = t;
        run(w);
    }
    return 0;
}
