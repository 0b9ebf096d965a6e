/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients' rights and secrets.
 *
 * A table is made whole, from all files, before it takes the place of the one before; that one is
 * kept until no connection uses its secrets.
 */
#include "clients.h"

#include "keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLIENTS_FILES = 3, CLIENTS_KEYS = 2 };

struct client_grant {
    uint32_t account;
    uint32_t may;
    uint64_t disk;
};
struct client_secret {
    uint32_t account;
    uint32_t pad;
    void *secret[CLIENTS_KEYS];
};
struct client_table {
    struct client_grant grant[CLIENTS_MAX]; /* by account and disk */
    struct client_secret client[CLIENTS_MAX];
    uint32_t grants;
    uint32_t clients;
    uint32_t key_id[CLIENTS_KEYS];
    void *own[CLIENTS_KEYS]; /* the wire key's: account 0 */
    uint32_t keys;
};

static struct {
    struct key_file file[CLIENTS_FILES]; /* the list, then wire keys */
    struct client_table *now;
    struct client_table *old;
} ct;

/* ---- A table ---- */

static void table_free(struct client_table *t)
{
    for (uint32_t i = 0; t != NULL && i < t->clients; i++)
        for (uint32_t k = 0; k < CLIENTS_KEYS; k++)
            snic_ebs_openssl_close(t->client[i].secret[k]);
    for (uint32_t k = 0; t != NULL && k < CLIENTS_KEYS; k++)
        snic_ebs_openssl_close(t->own[k]);
    free(t);
}

static int grant_order(const void *a, const void *b)
{
    const struct client_grant *x = a, *y = b;
    if (x->account != y->account)
        return x->account < y->account ? -1 : 1;
    return x->disk < y->disk ? -1 : x->disk > y->disk;
}

static int secret_order(const void *a, const void *b)
{
    const struct client_secret *x = a, *y = b;
    return x->account < y->account ? -1 : x->account > y->account;
}

/* A number; *text is advanced behind it. */
static int take_number(char **text, uint64_t most, uint64_t *out)
{
    char *end;
    while (**text == ' ' || **text == '\t')
        (*text)++;
    if (**text < '0' || **text > '9')
        return -1;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return errno != 0 || *out > most ? -1 : 0;
}

/* 0; 1 nothing stands there; -1 */
static int take_line(char *line, struct client_grant *g)
{
    uint64_t account, disk;
    char *text = line + strspn(line, " \t");
    text[strcspn(text, "#\r\n")] = 0;
    if (*text == 0)
        return 1;
    if (take_number(&text, UINT32_MAX, &account) != 0 || account == 0 ||
        take_number(&text, UINT64_MAX, &disk) != 0)
        return -1;
    char *may = text + strspn(text, " \t");
    may[strcspn(may, " \t")] = 0;
    g->account = (uint32_t)account;
    g->disk = disk;
    g->may = 0;
    if (strcmp(may, "r") == 0 || strcmp(may, "rw") == 0)
        g->may |= SNIC_VOLUME_MAY_READ;
    if (strcmp(may, "w") == 0 || strcmp(may, "rw") == 0)
        g->may |= SNIC_VOLUME_MAY_WRITE;
    return may != text && g->may != 0 ? 0 : -1;
}

/* What is wrong with the list, in @p why, or NULL. */
static const char *table_list(struct client_table *t, char *why, size_t size)
{
    char line[256];
    struct stat st;
    FILE *f = fopen(ct.file[0].path, "re");
    const char *wrong = NULL;
    if (f == NULL || fstat(fileno(f), &st) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        wrong = "not a regular file";
    else if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        wrong = "writable by other users: chmod 644 it, and let this user or root own it";
    for (uint32_t n = 1; wrong == NULL && fgets(line, sizeof(line), f) != NULL; n++) {
        struct client_grant g;
        int r = strchr(line, '\n') == NULL && !feof(f) ? -1 : take_line(line, &g);
        if (r == 0 && t->grants == CLIENTS_MAX) {
            snprintf(why, size, "line %u: more than %d entries", n, CLIENTS_MAX);
            wrong = why;
        } else if (r == 0) {
            t->grant[t->grants++] = g;
        } else if (r < 0) {
            snprintf(why, size, "line %u: not NUMBER DISK r|w|rw", n);
            wrong = why;
        }
    }
    if (wrong == NULL && ferror(f))
        wrong = strerror(errno);
    if (f != NULL)
        fclose(f);
    if (wrong != NULL)
        return wrong;
    qsort(t->grant, t->grants, sizeof(t->grant[0]), grant_order);
    for (uint32_t i = 1; i < t->grants; i++)
        if (grant_order(&t->grant[i - 1], &t->grant[i]) == 0) {
            snprintf(why, size, "client %u and disk %" PRIu64 " are listed twice",
                     t->grant[i].account, t->grant[i].disk);
            return why;
        }
    return NULL;
}

/* The clients' secrets, of one more wire key. */
static const char *table_key(struct client_table *t, const char *path)
{
    struct key_maker m;
    uint32_t k = t->keys;
    const char *wrong = key_maker_open(path, &m);
    if (wrong != NULL)
        return wrong;
    t->clients = 0;
    for (uint32_t i = 0; i < t->grants && wrong == NULL; i++) {
        if (i > 0 && t->grant[i].account == t->grant[i - 1].account)
            continue;
        struct client_secret *s = &t->client[t->clients++];
        s->account = t->grant[i].account;
        s->secret[k] = key_maker_secret(&m, s->account);
        if (s->secret[k] == NULL)
            wrong = "cannot derive the clients' keys from it";
    }
    t->key_id[k] = m.id;
    t->own[k] = m.secret;
    t->keys++;
    return wrong;
}

/* NULL: a file is wrong, or cannot be read, which is logged; with @p die it exits instead. */
static struct client_table *table_read(int die)
{
    char why[96];
    const char *wrong = NULL;
    struct client_table *t = calloc(1, sizeof(*t));
    if (t == NULL)
        ex_die("out of memory for the list of clients");
    for (uint32_t i = 0; wrong == NULL && i < CLIENTS_FILES; i++) {
        struct key_file *f = &ct.file[i];
        if (f->path == NULL)
            continue;
        wrong = i == 0 ? table_list(t, why, sizeof(why)) : table_key(t, f->path);
        if (wrong != NULL && die)
            ex_die("%s: %s", f->path, wrong);
        if (key_file_result(f, wrong))
            ex_log(EX_ERROR, "%s: %s; the rights of clients are unchanged", f->path, wrong);
    }
    if (wrong == NULL)
        return t;
    table_free(t);
    return NULL;
}

/* ---- Beginning, changes, end ---- */

void clients_begin(const char *list, const char *wire_key, const char *before)
{
    key_file_begin(&ct.file[0], list);
    key_file_begin(&ct.file[1], wire_key);
    key_file_begin(&ct.file[2], before);
    ct.now = table_read(1);
}

int clients_look(void)
{
    int due = 0;
    for (uint32_t i = 0; i < CLIENTS_FILES; i++)
        due |= key_file_due(&ct.file[i]);
    struct client_table *t = due ? table_read(0) : NULL;
    if (t == NULL)
        return 0;
    ct.old = ct.now;
    ct.now = t;
    return 1;
}

void clients_old(void)
{
    table_free(ct.old);
    ct.old = NULL;
}

void clients_end(void)
{
    clients_old();
    table_free(ct.now);
    ct.now = NULL;
}

/* ---- The server's lookups ---- */

void *clients_secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    for (uint32_t k = 0; account == 0 && k < ct.now->keys; k++)
        if (ct.now->key_id[k] == key_id)
            return ct.now->own[k];
    return account != 0 ? clients_secret(ctx, key_id, account) : NULL;
}

void *clients_secret(void *ctx, uint32_t key_id, uint32_t account)
{
    const struct client_secret want = {.account = account};
    (void)ctx;
    const struct client_secret *s =
        bsearch(&want, ct.now->client, ct.now->clients, sizeof(want), secret_order);
    for (uint32_t k = 0; s != NULL && k < ct.now->keys; k++)
        if (ct.now->key_id[k] == key_id)
            return s->secret[k];
    return NULL;
}

uint32_t clients_rights(void *ctx, uint32_t account, uint64_t vd_id)
{
    const struct client_grant want = {.account = account, .disk = vd_id};
    (void)ctx;
    const struct client_grant *g =
        bsearch(&want, ct.now->grant, ct.now->grants, sizeof(want), grant_order);
    return g != NULL ? g->may : 0;
}
