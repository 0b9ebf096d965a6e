/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * --auth-keys FILE: the secrets by which hosts prove their identity, and the target its own.
 *   HOSTNQN SECRET [CTRLSECRET]
 * as `nvme gen-dhchap-key` prints them. With it every host has to authenticate.
 */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    struct {
        char nqn[SNIC_NVME_NQN_BYTES];
        struct snic_nvmeauth_keys keys;
    } host[TG_HOSTS];
    const char *names[TG_HOSTS];
    uint32_t count;
} keys;

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

static int find(const char *nqn)
{
    for (uint32_t i = 0; i < keys.count; i++)
        if (strcmp(keys.host[i].nqn, nqn) == 0)
            return (int)i;
    return -1;
}

static int keys_of(void *ctx, const char *hostnqn, struct snic_nvmeauth_keys *out)
{
    int i = find(hostnqn);
    (void)ctx;
    if (i < 0)
        return SNIC_ENOENT;
    *out = keys.host[i].keys;
    return 0;
}

static int read_secret(const char *what, const char *text, struct snic_nvmeauth_key *out,
                       struct tg_error *e)
{
    int r = snic_nvmeauth_key_parse(out, text);
    if (r == 0)
        return 0;
    return tg_fail(e, "the %s secret %s", what,
                   r == SNIC_ECORRUPT  ? "has a wrong checksum: a character is wrong"
                   : r == SNIC_ENOTSUP ? "has an unknown hash: 00 to 03 are known"
                                       : "is not DHHC-1:HH:BASE64:, as nvme gen-dhchap-key makes");
}

static int read_line(char **words, int count, struct tg_error *e)
{
    if (count < 2 || count > 3)
        return tg_fail(e, "not HOSTNQN SECRET [CTRLSECRET]");
    if (tg_nqn_fits("host", words[0], e) != 0)
        return -1;
    if (find(words[0]) >= 0)
        return tg_fail(e, "host %s: named twice", words[0]);
    if (keys.count == TG_HOSTS)
        return tg_fail(e, "host %s: at most %d", words[0], TG_HOSTS);
    struct snic_nvmeauth_keys *k = &keys.host[keys.count].keys;
    if (read_secret("host's", words[1], &k->host, e) != 0 ||
        (count == 3 && read_secret("controller's", words[2], &k->ctrl, e) != 0))
        return -1;
    if (count == 3 && strcmp(words[1], words[2]) == 0)
        return tg_fail(e, "host %s: the two secrets must differ", words[0]);
    (void)snprintf(keys.host[keys.count].nqn, sizeof(keys.host[0].nqn), "%s", words[0]);
    keys.names[keys.count] = keys.host[keys.count].nqn;
    keys.count++;
    return 0;
}

static void read_file(const char *path)
{
    static char text[TG_LINE + 2], buffer[4096];
    char *words[TG_WORDS];
    struct tg_error e;
    struct stat s;
    FILE *f = fopen(path, "re");
    if (f == NULL || fstat(fileno(f), &s) != 0)
        ex_die("cannot read %s (--auth-keys): %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode) || (s.st_mode & 077) != 0 || (s.st_uid != geteuid() && s.st_uid != 0))
        ex_die("%s (--auth-keys) has secrets, and others may read it, or it is another user's: "
               "chmod 600",
               path);
    (void)setvbuf(f, buffer, _IOFBF, sizeof(buffer)); /* one that can be wiped */
    for (unsigned line = 1; fgets(text, sizeof(text), f) != NULL; line++) {
        size_t n = strlen(text);
        if (n > TG_LINE || (n > 0 && text[n - 1] != '\n' && !feof(f)))
            ex_die("%s:%u: not a line of text of at most %d bytes", path, line, TG_LINE);
        if (n > 0 && text[n - 1] == '\n')
            text[n - 1] = 0;
        int count = tg_split(text, words, &e);
        if (count < 0 || (count > 0 && read_line(words, count, &e) != 0))
            ex_die("%s:%u: %s", path, line, e.text);
    }
    if (ferror(f))
        ex_die("cannot read %s (--auth-keys): %s", path, strerror(errno));
    (void)fclose(f);
    snic_nvmeauth_wipe(text, sizeof(text));
    snic_nvmeauth_wipe(buffer, sizeof(buffer));
}

void tg_keys_begin(struct snic_nvmet *t)
{
    struct snic_nvmet_auth_opts o = {.opts_size = sizeof(o), .keys = keys_of};
    if (tg.auth_keys == NULL)
        return;
    o.ops = snic_nvmeauth_openssl();
    o.random = snic_nvmeauth_openssl_random;
    o.groups = tg.auth_groups;
    if (o.ops == NULL)
        ex_die("--auth-keys: this program was built without libcrypto (libssl-dev)");
    read_file(tg.auth_keys);
    int r = snic_nvmet_auth(t, &o);
    if (r != 0)
        ex_die("--auth-keys: %s", snic_strerror(r));
}

void tg_keys_end(void)
{
    snic_nvmeauth_wipe(&keys, sizeof(keys));
}

int tg_keys_has(const char *nqn, struct tg_error *e)
{
    if (tg.auth_keys == NULL || find(nqn) >= 0)
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
    o->hosts = keys.names;
    o->host_count = keys.count;
    return 0;
}
