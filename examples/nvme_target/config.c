/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The configuration as lines of words:
 *   listen ADDRESS:PORT [advertise=ADDRESS:PORT]
 *   subsystem NQN [serial=TEXT]
 *   host NQN HOSTNQN|any [from=ADDRESS[/BITS],...]
 *   namespace NQN ID file=PATH|memory=BYTES [ssd=PROFILE] [size=BYTES] [read-only]
 *             [uuid=UUID] [group=N]
 *   namespace NQN ID solar=ADDRESS:PORT disk=NUMBER size=BYTES [epoch=N] [uuid=UUID] [group=N]
 *   weight HOSTNQN N
 *   ana NQN GROUP PORT optimized|non-optimized|inaccessible|lost|changing
 *   cap HOSTNQN [bytes=N] [iops=N]
 *   floor HOSTNQN [bytes=N] [iops=N]
 *   group NAME [weight=N] [bytes=N] [iops=N] [floor-bytes=N] [floor-iops=N]
 *   member HOSTNQN NAME
 * A subsystem comes before what is its own. Commands of `ctl` have the same words.
 */
#include "target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words ---- */

const char *tg_word_value(const char *word, const char *name)
{
    size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

int tg_read_number(const char *what, const char *text, int size, uint64_t min, uint64_t max,
                   uint64_t *out, struct tg_error *e)
{
    uint64_t v;
    if (ex_number(text, size, &v) != 0 || v < min || v > max)
        return tg_fail(e, "%s '%s': not a %s between %" PRIu64 " and %" PRIu64, what, text,
                       size ? "size" : "number", min, max);
    *out = v;
    return 0;
}

static int no_more(const char *kind, char **words, int at, int count, struct tg_error *e)
{
    return at < count ? tg_fail(e, "%s: '%s' is not one of its settings", kind, words[at]) : 0;
}

int tg_read_subsystem(char **words, int count, struct tg_subsystem **out, struct tg_error *e)
{
    const char *serial = NULL;
    int at = 1;
    if (count < 1)
        return tg_fail(e, "subsystem: NQN is missing");
    if (at < count && (serial = tg_word_value(words[at], "serial")) != NULL)
        at++;
    if (no_more("subsystem", words, at, count, e) != 0)
        return -1;
    *out = tg_subsystem_new(words[0], serial, e);
    return *out != NULL ? 0 : -1;
}

/* ADDRESS or ADDRESS/BITS */
static int read_range(char *text, struct snic_nvmesub_range *out, struct tg_error *e)
{
    char *slash = strchr(text, '/');
    uint64_t bits;
    memset(out, 0, sizeof(*out));
    if (slash != NULL)
        *slash = 0;
    if (inet_pton(AF_INET, text, out->address) == 1)
        out->family = SNIC_NVME_ADRFAM_IPV4;
    else if (inet_pton(AF_INET6, text, out->address) == 1)
        out->family = SNIC_NVME_ADRFAM_IPV6;
    else
        return tg_fail(e, "from: '%s' is not an IPv4 or IPv6 address", text);
    uint32_t most = out->family == SNIC_NVME_ADRFAM_IPV4 ? 32 : 128;
    bits = most;
    if (slash != NULL &&
        tg_read_number("from: prefix length", slash + 1, 0, 0, most, &bits, e) != 0)
        return -1;
    out->bits = (uint8_t)bits;
    for (uint32_t i = out->bits; i < most; i++)
        if ((out->address[i / 8] >> (7 - i % 8) & 1) != 0)
            return tg_fail(e, "from: %s/%u has bits behind its prefix", text, out->bits);
    return 0;
}

int tg_read_host(char **words, int count, struct tg_subsystem **sub, struct tg_host *out,
                 struct tg_error *e)
{
    const char *from = NULL;
    char *save = NULL;
    int at = 2;
    memset(out, 0, sizeof(*out));
    if (count < 2)
        return tg_fail(e, "host: NQN HOSTNQN is missing");
    if ((*sub = tg_subsystem_get(words[0], e)) == NULL || tg_nqn_fits("host", words[1], e) != 0)
        return -1;
    (void)snprintf(out->nqn, sizeof(out->nqn), "%s", words[1]);
    if (at < count && (from = tg_word_value(words[at], "from")) != NULL)
        at++;
    if (no_more("host", words, at, count, e) != 0)
        return -1;
    if (from != NULL && strcmp(out->nqn, "any") == 0)
        return tg_fail(e, "host any: from= needs the NQN of a host");
    for (char *p = from != NULL ? strtok_r(words[at - 1] + 5, ",", &save) : NULL; p != NULL;
         p = strtok_r(NULL, ",", &save)) {
        if (out->from_count == SNIC_NVMESUB_RANGES_MAX)
            return tg_fail(e, "host %s: at most %u address ranges", out->nqn,
                           SNIC_NVMESUB_RANGES_MAX);
        if (read_range(p, &out->from[out->from_count++], e) != 0)
            return -1;
    }
    return from != NULL && out->from_count == 0 ? tg_fail(e, "from: no address") : 0;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c | 32);
    return c != 0 && at != NULL ? (int)(at - digits) : -1;
}

static int read_uuid(const char *text, uint8_t out[16], struct tg_error *e)
{
    static const uint8_t none[16];
    const char *p = text;
    for (int i = 0; i < 16; i++) {
        int high = hex(p[0]), low = high >= 0 ? hex(p[1]) : -1;
        if (low < 0)
            return tg_fail(e, "uuid '%s': not 8-4-4-4-12 hexadecimal digits", text);
        out[i] = (uint8_t)(high << 4 | low);
        p += 2;
        if ((i == 3 || i == 5 || i == 7 || i == 9) && *p++ != '-')
            return tg_fail(e, "uuid '%s': not 8-4-4-4-12 hexadecimal digits", text);
    }
    if (*p != 0 || memcmp(out, none, 16) == 0)
        return tg_fail(e, "uuid '%s': %s", text, *p != 0 ? "too long" : "zero means none");
    return 0;
}

/* One word of a namespace behind its id. */
static int read_namespace_word(char *word, struct tg_namespace *out, struct tg_error *e)
{
    const char *v;
    uint64_t n = 0;
    if ((v = tg_word_value(word, "file")) != NULL) {
        out->path = word + 5;
        return v[0] != 0 ? 0 : tg_fail(e, "file=: a path is missing");
    }
    if ((v = tg_word_value(word, "memory")) != NULL) {
        if (ex_number(v, 1, &out->size) != 0 || out->size < 4096 || out->size % 4096 != 0 ||
            out->size > UINT64_C(1) << 40)
            return tg_fail(e, "memory '%s': not a size, a multiple of 4K up to 1T", v);
        return 0;
    }
    if ((v = tg_word_value(word, "ssd")) != NULL)
        return tg_ssd_find(v, &out->ssd, e);
    if ((v = tg_word_value(word, "solar")) != NULL) {
        struct snic_net_addr a;
        if (strlen(v) >= sizeof(out->solar) || snic_net_addr_parse(&a, v) != 0 ||
            a.family == SNIC_NET_UNIX)
            return tg_fail(e, "solar '%s': not ADDRESS:PORT", v);
        (void)snprintf(out->solar, sizeof(out->solar), "%s", v);
        return 0;
    }
    if ((v = tg_word_value(word, "disk")) != NULL)
        return tg_read_number("disk", v, 0, 1, UINT32_MAX, &out->solar_disk, e);
    if ((v = tg_word_value(word, "epoch")) != NULL) {
        if (tg_read_number("epoch", v, 0, 1, 65535, &n, e) != 0)
            return -1;
        out->solar_epoch = (uint32_t)n;
        return 0;
    }
    if ((v = tg_word_value(word, "size")) != NULL) {
        if (tg_read_number("size", v, 1, 4096, UINT64_C(1) << 46, &out->size, e) != 0)
            return -1;
        return out->size % 512 == 0 ? 0 : tg_fail(e, "size '%s': not a multiple of 512", v);
    }
    if ((v = tg_word_value(word, "uuid")) != NULL)
        return read_uuid(v, out->uuid, e);
    if ((v = tg_word_value(word, "group")) != NULL) {
        if (tg_read_number("group", v, 0, 1, TG_GROUPS, &n, e) != 0)
            return -1;
        out->group = (uint32_t)n;
        return 0;
    }
    if (strcmp(word, "read-only") != 0)
        return tg_fail(e, "namespace: '%s' is not one of its settings", word);
    out->read_only = 1;
    return 0;
}

int tg_read_namespace(char **words, int count, struct tg_namespace *out, struct tg_error *e)
{
    struct tg_subsystem *s;
    uint64_t nsid = 0;
    int at = 1, memory = 0;
    memset(out, 0, sizeof(*out));
    if (count < 1)
        return tg_fail(e, "namespace: NQN is missing");
    if ((s = tg_subsystem_get(words[0], e)) == NULL)
        return -1;
    if (at < count && words[at][0] >= '0' && words[at][0] <= '9' &&
        tg_read_number("namespace", words[at++], 0, 1, SNIC_NVMET_NAMESPACES_MAX, &nsid, e) != 0)
        return -1;
    out->subsystem = (uint32_t)(s - tg.subs);
    out->nsid = (uint32_t)nsid;
    for (; at < count; at++) {
        memory += tg_word_value(words[at], "memory") != NULL;
        if (read_namespace_word(words[at], out, e) != 0)
            return -1;
    }
    int solar = out->solar[0] != 0;
    if ((out->path != NULL) + (memory != 0) + solar != 1)
        return tg_fail(e, "namespace: one of file=PATH, memory=BYTES and solar=ADDRESS:PORT is "
                          "needed");
    if (solar != (out->solar_disk != 0) || solar < (out->solar_epoch != 0))
        return tg_fail(e, "namespace: solar=ADDRESS:PORT and disk=NUMBER belong together");
    if (solar && (out->size == 0 || out->size % 4096 != 0 || out->read_only))
        return tg_fail(e, "namespace: a virtual disk needs its size=, a multiple of 4K, and is not "
                          "read-only");
    if (solar && out->solar_epoch == 0)
        out->solar_epoch = 1;
    if (out->ssd != 0 && !memory)
        return tg_fail(e, "namespace: ssd=%s needs memory=BYTES, where its data are",
                       tg_ssd_name(out->ssd));
    if (memory && out->read_only)
        return tg_fail(e, "namespace: memory that is read-only has no contents");
    return 0;
}

/* bytes=N and iops=N, both 0 without. */
static int read_rates(const char *kind, char **words, int count, uint64_t *bytes, uint64_t *ios,
                      struct tg_error *e)
{
    *bytes = *ios = 0;
    for (int at = 1; at < count; at++) {
        const char *b = tg_word_value(words[at], "bytes"), *i = tg_word_value(words[at], "iops");
        if (b == NULL && i == NULL)
            return no_more(kind, words, at, count, e);
        if (tg_read_number(b != NULL ? "bytes" : "iops", b != NULL ? b : i, 1, 0, UINT64_C(1) << 40,
                           b != NULL ? bytes : ios, e) != 0)
            return -1;
    }
    return 0;
}

int tg_rates_agree(const struct tg_tenant *t, struct tg_error *e)
{
    if (t->bytes != 0 && t->floor_bytes > t->bytes)
        return tg_fail(e, "%s: a floor of %" PRIu64 " bytes is above the cap of %" PRIu64, t->nqn,
                       t->floor_bytes, t->bytes);
    if (t->ios != 0 && t->floor_ios > t->ios)
        return tg_fail(e, "%s: a floor of %" PRIu64 " I/Os is above the cap of %" PRIu64, t->nqn,
                       t->floor_ios, t->ios);
    return 0;
}

int tg_read_tenant(const char *kind, char **words, int count, struct tg_tenant *out,
                   struct tg_error *e)
{
    const struct tg_tenant *old = count > 0 ? tg_tenant_find(words[0]) : NULL;
    uint64_t n = 0;
    int at = 1;
    memset(out, 0, sizeof(*out));
    out->weight = 1;
    if (count < 2)
        return tg_fail(e, "%s: HOSTNQN %s is missing", kind,
                       kind[0] == 'w' ? "N" : "bytes=N or iops=N");
    if (tg_nqn_fits("host", words[0], e) != 0)
        return -1;
    if (!tg.fair)
        return tg_fail(e, "%s: the target was started without --fair", kind);
    if (old != NULL)
        *out = *old;
    (void)snprintf(out->nqn, sizeof(out->nqn), "%s", words[0]);
    if (kind[0] == 'w') {
        if (tg_read_number("weight", words[at++], 0, 1, SNIC_GIMBAL_WEIGHT_MAX, &n, e) != 0)
            return -1;
        out->weight = (uint32_t)n;
        return no_more(kind, words, at, count, e);
    }
    int cap = kind[0] == 'c';
    if (read_rates(kind, words, count, cap ? &out->bytes : &out->floor_bytes,
                   cap ? &out->ios : &out->floor_ios, e) != 0)
        return -1;
    return tg_rates_agree(out, e);
}

static const struct {
    const char *name;
    uint8_t state;
} ana_states[] = {{"optimized", SNIC_NVME_ANA_OPTIMIZED},
                  {"non-optimized", SNIC_NVME_ANA_NON_OPTIMIZED},
                  {"inaccessible", SNIC_NVME_ANA_INACCESSIBLE},
                  {"lost", SNIC_NVME_ANA_LOSS},
                  {"changing", SNIC_NVME_ANA_CHANGE}};

int tg_read_ana(char **words, int count, struct tg_ana *out, struct tg_error *e)
{
    uint64_t group = 0, port = 0;
    size_t i = 0;
    if (count != 4)
        return tg_fail(e, "ana: NQN GROUP PORT STATE is needed");
    if ((out->subsystem = tg_subsystem_get(words[0], e)) == NULL ||
        tg_read_number("group", words[1], 0, 1, TG_GROUPS, &group, e) != 0 ||
        tg_read_number("port", words[2], 0, 0, SNIC_NVMESUB_PORTS_MAX - 1, &port, e) != 0)
        return -1;
    while (i < SNIC_COUNTOF(ana_states) && strcmp(ana_states[i].name, words[3]) != 0)
        i++;
    if (i == SNIC_COUNTOF(ana_states))
        return tg_fail(e,
                       "ana: '%s' is none of optimized, non-optimized, inaccessible, lost, "
                       "changing",
                       words[3]);
    out->group = (uint32_t)group;
    out->port = (uint32_t)port;
    out->state = ana_states[i].state;
    return 0;
}

static void write_ana(struct tg_text *out, const struct tg_subsystem *s)
{
    for (uint32_t g = 0; g < TG_GROUPS; g++)
        for (uint32_t p = 0; p < SNIC_NVMESUB_PORTS_MAX; p++)
            for (size_t i = 1; i < SNIC_COUNTOF(ana_states); i++)
                if (s->ana[g][p] == ana_states[i].state) {
                    tg_text_add(out, "ana");
                    tg_text_word(out, "", s->nqn);
                    tg_text_add(out, " %" PRIu32 " %" PRIu32 " %s\n", g + 1, p, ana_states[i].name);
                }
}

/* ---- The file ---- */

static int line_listen(char **words, int count, struct tg_error *e)
{
    const char *shown = NULL;
    struct snic_net_addr a;
    int at = 1;
    if (count < 1 || snic_net_addr_parse(&a, words[0]) != 0 || a.family == SNIC_NET_UNIX)
        return tg_fail(e, "listen '%s': not ADDRESS:PORT", count < 1 ? "" : words[0]);
    if (at < count && (shown = tg_word_value(words[at], "advertise")) != NULL)
        at++;
    if (shown != NULL && (snic_net_addr_parse(&a, shown) != 0 || a.family == SNIC_NET_UNIX))
        return tg_fail(e, "advertise '%s': not ADDRESS:PORT", shown);
    if (no_more("listen", words, at, count, e) != 0)
        return -1;
    if (tg.listens > 0 && !tg.listen_lines)
        return tg_fail(e, "listen %s: contradicts --listen", words[0]);
    if (tg.listens == TG_LISTENS)
        return tg_fail(e, "listen %s: at most %d addresses", words[0], TG_LISTENS);
    struct tg_listen *l = &tg.listen[tg.listens++];
    (void)snprintf(l->at, sizeof(l->at), "%s", words[0]);
    (void)snprintf(l->shown, sizeof(l->shown), "%s", shown != NULL ? shown : "");
    tg.listen_lines = 1;
    return 0;
}

static int line_host(char **words, int count, struct tg_error *e)
{
    struct tg_subsystem *s;
    struct tg_host h;
    if (tg_read_host(words, count, &s, &h, e) != 0)
        return -1;
    if (strcmp(h.nqn, "any") == 0) {
        s->any = 1;
        return 0;
    }
    if (tg_host_find(s, h.nqn) != NULL)
        return tg_fail(e, "host %s: named twice", h.nqn);
    return tg_host_set(s, &h, e);
}

static int config_words(char **words, int count, unsigned line, struct tg_error *e)
{
    const char *kind = words[0];
    struct tg_subsystem *s;
    struct tg_namespace ns;
    struct tg_tenant t;
    struct tg_share *share, before;
    struct tg_ana a;
    words++;
    count--;
    if (strcmp(kind, "listen") == 0)
        return line_listen(words, count, e);
    if (strcmp(kind, "subsystem") == 0) {
        if (tg_read_subsystem(words, count, &s, e) != 0)
            return -1;
        s->line = line;
        return 0;
    }
    if (strcmp(kind, "host") == 0)
        return line_host(words, count, e);
    if (strcmp(kind, "namespace") == 0) {
        if (tg_read_namespace(words, count, &ns, e) != 0)
            return -1;
        ns.line = line;
        return tg_namespace_new(&ns, e) != NULL ? 0 : -1;
    }
    if (strcmp(kind, "weight") == 0 || strcmp(kind, "cap") == 0 || strcmp(kind, "floor") == 0)
        return tg_read_tenant(kind, words, count, &t, e) != 0 ? -1 : tg_tenant_set(&t, e);
    if (strcmp(kind, "group") == 0)
        return tg_share_read(words, count, &share, &before, e);
    if (strcmp(kind, "member") == 0)
        return tg_share_member(words, count, &t, e) != 0 ? -1 : tg_tenant_set(&t, e);
    if (strcmp(kind, "ana") == 0) {
        if (tg_read_ana(words, count, &a, e) != 0)
            return -1;
        a.subsystem->ana[a.group - 1][a.port] = a.state;
        return 0;
    }
    return tg_fail(e,
                   "'%s' is none of listen, subsystem, host, namespace, ana, weight, cap, floor, "
                   "group, member",
                   kind);
}

int tg_config_line(char *text, unsigned line, struct tg_error *e)
{
    char *words[TG_WORDS];
    int count = tg_split(text, words, e);
    return count > 0 ? config_words(words, count, line, e) : count;
}

void tg_config_read(const char *path)
{
    static char text[TG_LINE + 2];
    struct tg_error e;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        ex_die("cannot read %s (--config): %s", path, strerror(errno));
    for (unsigned line = 1; fgets(text, sizeof(text), f) != NULL; line++) {
        size_t n = strlen(text);
        if (n > TG_LINE || (n > 0 && text[n - 1] != '\n' && !feof(f)))
            ex_die("%s:%u: not a line of text of at most %d bytes", path, line, TG_LINE);
        if (n > 0 && text[n - 1] == '\n')
            text[n - 1] = 0;
        if (tg_config_line(text, line, &e) != 0)
            ex_die("%s:%u: %s", path, line, e.text);
    }
    if (ferror(f))
        ex_die("cannot read %s (--config): %s", path, strerror(errno));
    (void)fclose(f);
}

static void write_host(struct tg_text *out, const struct tg_subsystem *s, const struct tg_host *h)
{
    char at[INET6_ADDRSTRLEN];
    tg_text_add(out, "host");
    tg_text_word(out, "", s->nqn);
    tg_text_word(out, "", h->nqn);
    for (uint32_t i = 0; i < h->from_count; i++) {
        const struct snic_nvmesub_range *r = &h->from[i];
        int family = r->family == SNIC_NVME_ADRFAM_IPV4 ? AF_INET : AF_INET6;
        (void)inet_ntop(family, r->address, at, sizeof(at));
        tg_text_add(out, "%s%s/%u", i == 0 ? " from=" : ",", at, r->bits);
    }
    tg_text_add(out, "\n");
}

static void write_namespace(struct tg_text *out, const struct tg_namespace *ns)
{
    tg_text_add(out, "namespace");
    tg_text_word(out, "", tg.subs[ns->subsystem].nqn);
    tg_text_add(out, " %" PRIu32, ns->nsid);
    if (ns->path != NULL)
        tg_text_word(out, "file=", ns->path);
    if (ns->size != 0)
        tg_text_add(out, " %s=%" PRIu64, ns->path != NULL || ns->solar[0] != 0 ? "size" : "memory",
                    ns->size);
    if (ns->solar[0] != 0)
        tg_text_add(out, " solar=%s disk=%" PRIu64 " epoch=%" PRIu32, ns->solar, ns->solar_disk,
                    ns->solar_epoch);
    if (ns->ssd != 0)
        tg_text_add(out, " ssd=%s", tg_ssd_name(ns->ssd));
    tg_text_add(out, "%s uuid=", ns->read_only ? " read-only" : "");
    for (int i = 0; i < 16; i++)
        tg_text_add(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", ns->uuid[i]);
    if (ns->group != 1)
        tg_text_add(out, " group=%" PRIu32, ns->group);
    tg_text_add(out, "\n");
}

static void write_subsystem(struct tg_text *out, const struct tg_subsystem *s)
{
    static const struct tg_host any = {.nqn = "any"};
    tg_text_add(out, "subsystem");
    tg_text_word(out, "", s->nqn);
    tg_text_word(out, "serial=", s->serial);
    tg_text_add(out, "\n");
    if (s->any)
        write_host(out, s, &any);
    for (uint32_t i = 0; i < s->host_count; i++)
        write_host(out, s, &s->hosts[i]);
    for (uint32_t nsid = 1; nsid <= tg.namespaces; nsid++) {
        const struct tg_namespace *ns = tg_namespace_find(s, nsid);
        if (ns != NULL)
            write_namespace(out, ns);
    }
    write_ana(out, s);
}

static void write_rates(struct tg_text *out, const char *kind, const char *nqn, uint64_t bytes,
                        uint64_t ios)
{
    if (bytes == 0 && ios == 0)
        return;
    tg_text_add(out, "%s", kind);
    tg_text_word(out, "", nqn);
    tg_text_add(out, " bytes=%" PRIu64 " iops=%" PRIu64 "\n", bytes, ios);
}

void tg_config_write(struct tg_text *out)
{
    tg_text_add(out, "# nvme_target --config: written by the target, comments are not kept\n");
    for (uint32_t i = 0; tg.listen_lines && i < tg.listens; i++) {
        tg_text_add(out, "listen %s", tg.listen[i].at);
        if (tg.listen[i].shown[0] != 0)
            tg_text_add(out, " advertise=%s", tg.listen[i].shown);
        tg_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        if (tg.subs[i].nqn[0] != 0)
            write_subsystem(out, &tg.subs[i]);
    tg_share_write(out);
    for (uint32_t i = 0; i < tg.tenant_count; i++) {
        const struct tg_tenant *t = &tg.tenants[i];
        if (t->weight != 1) {
            tg_text_add(out, "weight");
            tg_text_word(out, "", t->nqn);
            tg_text_add(out, " %" PRIu32 "\n", t->weight);
        }
        write_rates(out, "cap", t->nqn, t->bytes, t->ios);
        write_rates(out, "floor", t->nqn, t->floor_bytes, t->floor_ios);
        tg_share_write_member(out, t);
    }
}
