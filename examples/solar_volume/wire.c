/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A server's own wire keys. */
#include "wire.h"

#include "keys.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_KEYS = 2 };

/* A key that was replaced: open connections still compute their MACs with it. */
struct wire_old {
    struct key_maker key;
    struct wire_old *next;
};

static struct {
    struct key_file file[WIRE_KEYS]; /* the present one, the one before */
    struct key_maker key[WIRE_KEYS];
    struct wire_old *old;
    struct snic_control_auth auth;
} wi;

/* Servers and the catalog are account 0. */
static void *wire_secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    (void)ctx;
    for (uint32_t k = 0; account == 0 && k < WIRE_KEYS; k++)
        if (wi.key[k].secret != NULL && wi.key[k].id == key_id)
            return wi.key[k].secret;
    return NULL;
}

const struct snic_control_auth *wire_begin(const char *wire_key, const char *before, uint64_t seed)
{
    key_file_begin(&wi.file[0], wire_key);
    key_file_begin(&wi.file[1], before);
    for (uint32_t k = 0; k < WIRE_KEYS && wi.file[k].path != NULL; k++) {
        const char *wrong = key_maker_open(wi.file[k].path, &wi.key[k]);
        if (wrong != NULL)
            ex_die("key file %s: %s (a wire key is needed)", wi.file[k].path, wrong);
    }
    wi.auth.sec = snic_ebs_openssl();
    wi.auth.secret = wi.key[0].secret;
    wi.auth.key_id = wi.key[0].id;
    wi.auth.seed = seed;
    wi.auth.secret_of = wire_secret_of;
    return &wi.auth;
}

static void wire_replace(uint32_t k, const struct key_maker *key)
{
    struct wire_old *old = calloc(1, sizeof(*old));
    if (old == NULL)
        ex_die("out of memory for keys");
    old->key = wi.key[k];
    old->next = wi.old;
    wi.old = old;
    wi.key[k] = *key;
}

void wire_look(void)
{
    for (uint32_t k = 0; k < WIRE_KEYS; k++) {
        struct key_maker key;
        if (!key_file_due(&wi.file[k]))
            continue;
        const char *wrong = key_maker_open(wi.file[k].path, &key);
        (void)key_file_result(&wi.file[k], wrong); /* clients.c, which reads it, too, logs it */
        if (wrong == NULL && key.id == wi.key[k].id)
            key_maker_close(&key);
        else if (wrong == NULL)
            wire_replace(k, &key);
    }
    wi.auth.secret = wi.key[0].secret;
    wi.auth.key_id = wi.key[0].id;
}

void wire_end(void)
{
    for (uint32_t k = 0; k < WIRE_KEYS; k++)
        key_maker_close(&wi.key[k]);
    while (wi.old != NULL) {
        struct wire_old *old = wi.old;
        wi.old = old->next;
        key_maker_close(&old->key);
        free(old);
    }
}
