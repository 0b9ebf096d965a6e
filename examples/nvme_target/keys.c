/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * --auth-keys FILE: the secrets by which hosts prove their identity, and the target its own.
 *   HOSTNQN SECRET [CTRLSECRET]
 * as `nvme gen-dhchap-key` prints them. With it every host has to authenticate.
 */
#include "target.h"

#include "../secret.h"

#include <stdio.h>
#include <string.h>

SNIC_STATIC_ASSERT(sizeof(((struct tg_error *)0)->text) >= EX_SECRET_WHY, "a reason fits");

struct key_host {
    char nqn[SNIC_NVME_NQN_BYTES];
    struct snic_nvmeauth_keys keys;
};
/* What the file had. */
struct key_file {
    struct key_host host[TG_HOSTS];
    const char *names[TG_HOSTS];
    uint32_t count;
};

static struct key_file files[2];
static struct key_file *keys = &files[0]; /* the other one is empty but for a reload */

static const char *const group_names[] = {"null",      "ffdhe2048", "ffdhe3072",
                                          "ffdhe4096", "ffdhe6144", "ffdhe8192"};

int tg_keys_groups(void *target, const char *text)
{
    char copy[128], *save = NULL;
    (void)target;
    if (strlen(text) >= sizeof(copy))
        return -1;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *p = strtok_r(copy, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        uint32_t i = 0;
        while (i < SNIC_COUNTOF(group_names) && strcmp(group_names[i], p) != 0)
            i++;
        if (i == SNIC_COUNTOF(group_names))
            return -1;
        tg.auth_groups |= 1u << i;
    }
    return tg.auth_groups != 0 ? 0 : -1;
}

static const struct key_host *find(const struct key_file *f, const char *nqn)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->host[i].nqn, nqn) == 0)
            return &f->host[i];
    return NULL;
}

static int keys_of(void *ctx, const char *hostnqn, struct snic_nvmeauth_keys *out)
{
    const struct key_host *h = find(keys, hostnqn);
    (void)ctx;
    if (h == NULL)
        return SNIC_ENOENT;
    *out = h->keys;
    return 0;
}

/* ex_secret_line_fn */
static int read_line(void *ctx, char *text, char *why)
{
    struct key_file *f = ctx;
    struct key_host *h = &f->host[f->count];
    char *words[TG_WORDS];
    struct tg_error e;
    int count = tg_split(text, words, &e);
    if (count == 0)
        return 0;
    if (count > 0 && tg_nqn_fits("host", words[0], &e) != 0)
        count = -1;
    else if (count > 0 && find(f, words[0]) != NULL)
        count = tg_fail(&e, "host %s: named twice", words[0]);
    else if (count > 0 && f->count == TG_HOSTS)
        count = tg_fail(&e, "host %s: at most %d", words[0], TG_HOSTS);
    if (count < 0) {
        (void)snprintf(why, EX_SECRET_WHY, "%s", e.text);
        return -1;
    }
    if (ex_secret_keys(words + 1, count - 1, &h->keys, why) != 0)
        return -1;
    (void)snprintf(h->nqn, sizeof(h->nqn), "%s", words[0]);
    f->names[f->count++] = h->nqn;
    return 0;
}

static int read_file(const char *path, struct key_file *out, struct tg_error *e)
{
    return ex_secret_read(path, read_line, out, e->text);
}

void tg_keys_begin(struct snic_nvmet *t)
{
    struct snic_nvmet_auth_opts o = {.opts_size = sizeof(o), .keys = keys_of};
    struct tg_error e;
    if (tg.auth_keys == NULL)
        return;
    o.ops = snic_nvmeauth_openssl();
    o.random = snic_nvmeauth_openssl_random;
    o.groups = tg.auth_groups;
    if (o.ops == NULL)
        ex_die("--auth-keys: this program was built without libcrypto (libssl-dev)");
    if (read_file(tg.auth_keys, keys, &e) != 0)
        ex_die("cannot start: %s", e.text);
    int r = snic_nvmet_auth(t, &o);
    if (r != 0)
        ex_die("--auth-keys: %s", snic_strerror(r));
}

void tg_keys_end(void)
{
    snic_nvmeauth_wipe(files, sizeof(files));
}

int tg_keys_has(const char *nqn, struct tg_error *e)
{
    if (tg.auth_keys == NULL || find(keys, nqn) != NULL)
        return 0;
    return tg_fail(e, "host %s has no secret in %s (--auth-keys)", nqn, tg.auth_keys);
}

int tg_keys_hosts(const struct tg_subsystem *s, struct snic_nvmet_subsystem_opts *o,
                  struct tg_error *e)
{
    if (tg.auth_keys == NULL)
        return 0;
    for (uint32_t i = 0; i < s->host_count; i++)
        if (tg_keys_has(s->hosts[i].nqn, e) != 0)
            return -1;
    if (!s->any)
        return 0;
    o->flags &= ~SNIC_NVMESUB_ANY_HOST; /* any that has a secret */
    o->hosts = keys->names;
    o->host_count = keys->count;
    return 0;
}

/* ---- Read again ---- */

/* A host that is allowed by its name keeps a secret. */
static int named_have(const struct key_file *f, struct tg_error *e)
{
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        for (uint32_t k = 0; tg.subs[i].nqn[0] != 0 && k < tg.subs[i].host_count; k++)
            if (find(f, tg.subs[i].hosts[k].nqn) == NULL)
                return tg_fail(e, "%s has no secret for host %s, which %s allows: deny it first",
                               tg.auth_keys, tg.subs[i].hosts[k].nqn, tg.subs[i].nqn);
    return 0;
}

/* Those of @p f that @p other lacks, at the subsystems of any host. */
static int each_missing(const struct key_file *f, const struct key_file *other, int allow,
                        struct tg_error *e)
{
    int count = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const char *nqn = f->host[i].nqn;
        if (find(other, nqn) != NULL)
            continue;
        count++;
        for (uint32_t k = 0; k < TG_SUBSYSTEMS; k++) {
            const struct tg_subsystem *s = &tg.subs[k];
            uint32_t number = (uint32_t)s->number;
            if (s->nqn[0] == 0 || s->number < 0 || !s->any)
                continue;
            int r = allow ? snic_nvmet_allow(tg_target(), number, nqn, 0, NULL, 0)
                          : snic_nvmet_deny(tg_target(), number, nqn);
            if (r != 0)
                return tg_fail(e, "host %s, subsystem %s: %s", nqn, s->nqn, snic_strerror(r));
        }
    }
    return count;
}

int tg_keys_reload(struct tg_text *out, struct tg_error *e)
{
    struct key_file *old = keys, *next = keys == &files[0] ? &files[1] : &files[0];
    int changed = 0, gone, added = -1;
    if (tg.auth_keys == NULL)
        return tg_fail(e, "reload: the target was started without --auth-keys");
    if (read_file(tg.auth_keys, next, e) != 0 || named_have(next, e) != 0) {
        snic_nvmeauth_wipe(next, sizeof(*next));
        return -1;
    }
    for (uint32_t i = 0; i < next->count; i++) {
        const struct key_host *h = find(old, next->host[i].nqn);
        changed += h != NULL && memcmp(&h->keys, &next->host[i].keys, sizeof(h->keys)) != 0;
    }
    gone = each_missing(old, next, 0, e);
    keys = next;
    if (gone >= 0)
        added = each_missing(next, old, 1, e);
    snic_nvmeauth_wipe(old, sizeof(*old));
    if (added < 0)
        return -1;
    tg_text_add(out, "%u hosts have secrets: %d are new, %d gone, %d have another secret\n",
                next->count, added, gone, changed);
    return 0;
}
