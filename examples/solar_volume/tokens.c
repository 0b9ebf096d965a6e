/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Signing keys of tokens, and secrets of accounts that no list has. */
#include "tokens.h"

#include "keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ACCOUNTS_KEYS = 2 };

struct account {
    void *secret; /* NULL: free */
    uint64_t used;
    uint32_t key_id;
    uint32_t account;
};

static struct {
    struct key_file file;
    struct key_tokens keys;
} tk;

static struct {
    struct key_file file[ACCOUNTS_KEYS];
    struct key_maker maker[ACCOUNTS_KEYS];
    struct snic_volume_server *server;
    struct account *account; /* twice the server's connections: half of them are used by none */
    uint32_t accounts;
    uint64_t uses;
} ac;

/* ---- Signing keys ---- */

void tokens_begin(const char *path)
{
    key_file_begin(&tk.file, path);
    const char *wrong = key_tokens_open(path, &tk.keys);
    if (wrong != NULL)
        ex_die("key file %s: %s (a token key is needed)", path, wrong);
}

void tokens_end(void)
{
    key_tokens_close(&tk.keys);
}

int tokens_look(void)
{
    struct key_tokens keys;
    if (!key_file_due(&tk.file))
        return 0;
    const char *wrong = key_tokens_open(tk.file.path, &keys);
    if (key_file_result(&tk.file, wrong))
        ex_log(EX_ERROR, "%s: %s; the keys of tokens are unchanged", tk.file.path, wrong);
    if (wrong != NULL)
        return 0;
    key_tokens_close(&tk.keys);
    tk.keys = keys;
    return 1;
}

void *tokens_key(void *ctx, uint32_t key_id)
{
    (void)ctx;
    for (uint32_t i = 0; i < tk.keys.count; i++)
        if (tk.keys.id[i] == key_id)
            return tk.keys.secret[i];
    return NULL;
}

uint64_t tokens_time(void *ctx)
{
    time_t now = time(NULL);
    (void)ctx;
    return now > 0 ? (uint64_t)now : UINT64_MAX; /* without a clock all have expired */
}

static void tokens_line(uint64_t *before, uint64_t now, const char *why)
{
    if (now != *before)
        ex_log(EX_WARNING, "%" PRIu64 " tokens were refused: %s (%s)", now - *before, why,
               tk.file.path);
    *before = now;
}

void tokens_refused(const struct snic_volume_server_stats *s)
{
    static uint64_t expired, no_key, others;
    tokens_line(&expired, s->tokens_expired,
                "they have expired by the clock of this host: the catalog did not renew them, or "
                "its host has another time");
    tokens_line(&no_key, s->tokens_no_key,
                "they are signed with a key that the file does not have: it needs the first key of "
                "the catalog's --token-key");
    tokens_line(&others, s->tokens_refused - s->tokens_expired - s->tokens_no_key,
                "they are not valid, or not the client's that showed them");
}

int tokens_sign(struct snic_ebs_token *t, uint64_t seconds, unsigned char *out)
{
    uint64_t now = tokens_time(NULL);
    if (now == UINT64_MAX)
        return SNIC_EIO;
    t->key_id = tk.keys.id[0];
    t->not_after = now + seconds;
    return snic_ebs_token_sign(out, t, snic_ebs_openssl(), tk.keys.secret[0]);
}

/* ---- Accounts ---- */

void accounts_begin(const char *wire_key, const char *before, uint32_t connections)
{
    ac.accounts = 2 * connections;
    ac.account = calloc(ac.accounts, sizeof(*ac.account));
    if (ac.account == NULL)
        ex_die("out of memory for the rights of clients");
    key_file_begin(&ac.file[0], wire_key);
    key_file_begin(&ac.file[1], before);
    for (uint32_t k = 0; k < ACCOUNTS_KEYS && ac.file[k].path != NULL; k++) {
        const char *wrong = key_maker_open(ac.file[k].path, &ac.maker[k]);
        if (wrong != NULL)
            ex_die("key file %s: %s (a wire key is needed)", ac.file[k].path, wrong);
    }
}

void accounts_serve(struct snic_volume_server *server)
{
    ac.server = server;
}

static void account_free(struct account *a)
{
    snic_ebs_openssl_close(a->secret);
    memset(a, 0, sizeof(*a));
}

void accounts_end(void)
{
    for (uint32_t i = 0; i < ac.accounts; i++)
        account_free(&ac.account[i]);
    free(ac.account);
    for (uint32_t k = 0; k < ACCOUNTS_KEYS; k++)
        key_maker_close(&ac.maker[k]);
}

static const struct key_maker *account_maker(uint32_t key_id)
{
    for (uint32_t k = 0; k < ACCOUNTS_KEYS; k++)
        if (ac.maker[k].secret != NULL && ac.maker[k].id == key_id)
            return &ac.maker[k];
    return NULL;
}

int accounts_look(uint32_t *ended)
{
    struct key_maker maker[ACCOUNTS_KEYS] = {{0}};
    int due = 0;
    const char *wrong = NULL;
    for (uint32_t k = 0; k < ACCOUNTS_KEYS; k++)
        due |= key_file_due(&ac.file[k]);
    for (uint32_t k = 0; due && k < ACCOUNTS_KEYS && wrong == NULL; k++) {
        const char *path = ac.file[k].path;
        wrong = path != NULL ? key_maker_open(path, &maker[k]) : NULL;
        if (key_file_result(&ac.file[k], wrong))
            ex_log(EX_ERROR, "%s: %s; the keys of clients are unchanged", path, wrong);
    }
    if (!due || wrong != NULL) {
        for (uint32_t k = 0; k < ACCOUNTS_KEYS; k++)
            key_maker_close(&maker[k]);
        return 0;
    }
    for (uint32_t k = 0; k < ACCOUNTS_KEYS; k++) {
        key_maker_close(&ac.maker[k]);
        ac.maker[k] = maker[k];
    }
    *ended = snic_volume_server_secrets(ac.server);
    for (uint32_t i = 0; i < ac.accounts; i++)
        if (ac.account[i].secret != NULL && account_maker(ac.account[i].key_id) == NULL)
            account_free(&ac.account[i]);
    return 1;
}

void *accounts_secret(void *ctx, uint32_t key_id, uint32_t account)
{
    const struct key_maker *m = account_maker(key_id);
    struct account *a = NULL;
    (void)ctx;
    if (m == NULL || account == 0)
        return NULL;
    for (uint32_t i = 0; i < ac.accounts; i++) {
        struct account *k = &ac.account[i];
        if (k->secret != NULL && k->key_id == key_id && k->account == account) {
            k->used = ++ac.uses;
            return k->secret;
        }
    }
    for (uint32_t i = 0; i < ac.accounts; i++) {
        struct account *k = &ac.account[i];
        if ((a == NULL || k->used < a->used) &&
            (k->secret == NULL || !snic_volume_server_secret_used(ac.server, k->secret)))
            a = k;
    }
    if (a == NULL)
        return NULL;
    account_free(a);
    a->secret = key_maker_secret(m, account);
    a->key_id = key_id;
    a->account = account;
    a->used = ++ac.uses;
    return a->secret;
}
