/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Groups of hosts: a group has a weight, caps and floors of its own at each device, and what it
 * gets is shared by its hosts. Its number at the switches is its index in tg.shares, and one.
 */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct tg_share *share_find(const char *name)
{
    for (uint32_t i = 0; i < TG_SHARES; i++)
        if (tg.shares[i].name[0] != 0 && strcmp(tg.shares[i].name, name) == 0)
            return &tg.shares[i];
    return NULL;
}

struct tg_share *tg_share_get(const char *name, struct tg_error *e)
{
    struct tg_share *s = share_find(name);
    if (s == NULL)
        (void)tg_fail(e, "'%s' is not a group of hosts", name);
    return s;
}

int tg_share_full(const struct tg_share *s)
{
    for (uint32_t i = 0; i < tg.tenant_count; i++)
        if (tg.tenants[i].group == (uint32_t)(s - tg.shares) + 1)
            return 1;
    return 0;
}

/* ---- Words ---- */

static int share_name_fits(const char *name, struct tg_error *e)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    if (n == 0 || n > TG_SHARE_NAME || name[n] != 0 || strcmp(name, "none") == 0)
        return tg_fail(e,
                       "group '%s': a name has 1 to %d letters, digits, hyphens, underscores and "
                       "dots, and is not none",
                       name, TG_SHARE_NAME);
    return 0;
}

static int share_setting(const char *word, struct tg_share *s, struct tg_error *e)
{
    uint64_t weight;
    const char *v = tg_word_value(word, "weight");
    const struct {
        const char *name;
        uint64_t *to;
    } rates[] = {{"bytes", &s->rates.bytes},
                 {"iops", &s->rates.ios},
                 {"floor-bytes", &s->rates.floor_bytes},
                 {"floor-iops", &s->rates.floor_ios}};
    if (v != NULL) {
        if (tg_read_number("weight", v, 0, 1, SNIC_GIMBAL_WEIGHT_MAX, &weight, e) != 0)
            return -1;
        s->rates.weight = (uint32_t)weight;
        return 0;
    }
    for (size_t i = 0; i < SNIC_COUNTOF(rates); i++)
        if ((v = tg_word_value(word, rates[i].name)) != NULL)
            return tg_read_number(rates[i].name, v, 1, 0, UINT64_C(1) << 40, rates[i].to, e);
    return tg_fail(e, "group: '%s' is not one of its settings", word);
}

int tg_share_read(char **words, int count, struct tg_share **out, struct tg_share *before,
                  struct tg_error *e)
{
    struct tg_share s, *to;
    if (count < 1)
        return tg_fail(e, "group: NAME is missing");
    if (share_name_fits(words[0], e) != 0)
        return -1;
    if (!tg.fair)
        return tg_fail(e, "group: the target was started without --fair");
    memset(&s, 0, sizeof(s));
    s.rates.weight = 1;
    to = share_find(words[0]);
    if (to != NULL)
        s = *to;
    (void)snprintf(s.name, sizeof(s.name), "%s", words[0]);
    (void)snprintf(s.rates.nqn, sizeof(s.rates.nqn), "group %s", words[0]);
    for (int i = 1; i < count; i++)
        if (share_setting(words[i], &s, e) != 0)
            return -1;
    if (tg_rates_agree(&s.rates, e) != 0)
        return -1;
    for (uint32_t i = 0; to == NULL && i < TG_SHARES; i++)
        if (tg.shares[i].name[0] == 0)
            to = &tg.shares[i];
    if (to == NULL)
        return tg_fail(e, "group %s: at most %d groups of hosts", s.name, TG_SHARES);
    *before = *to;
    *to = s;
    *out = to;
    return 0;
}

int tg_share_member(char **words, int count, struct tg_tenant *out, struct tg_error *e)
{
    const struct tg_share *s = NULL;
    if (count != 2)
        return tg_fail(e, "member: HOSTNQN NAME is needed");
    if (tg_nqn_fits("host", words[0], e) != 0)
        return -1;
    if (!tg.fair)
        return tg_fail(e, "member: the target was started without --fair");
    if (strcmp(words[1], "none") != 0 && (s = tg_share_get(words[1], e)) == NULL)
        return -1;
    const struct tg_tenant *old = tg_tenant_find(words[0]);
    memset(out, 0, sizeof(*out));
    out->weight = 1;
    if (old != NULL)
        *out = *old;
    (void)snprintf(out->nqn, sizeof(out->nqn), "%s", words[0]);
    out->group = s != NULL ? (uint32_t)(s - tg.shares) + 1 : 0;
    return 0;
}

void tg_share_write(struct tg_text *out)
{
    for (uint32_t i = 0; i < TG_SHARES; i++) {
        const struct tg_share *s = &tg.shares[i];
        if (s->name[0] != 0)
            tg_text_add(out,
                        "group %s weight=%" PRIu32 " bytes=%" PRIu64 " iops=%" PRIu64
                        " floor-bytes=%" PRIu64 " floor-iops=%" PRIu64 "\n",
                        s->name, s->rates.weight, s->rates.bytes, s->rates.ios,
                        s->rates.floor_bytes, s->rates.floor_ios);
    }
}

void tg_share_write_member(struct tg_text *out, const struct tg_tenant *t)
{
    if (t->group == 0)
        return;
    tg_text_add(out, "member");
    tg_text_word(out, "", t->nqn);
    tg_text_add(out, " %s\n", tg.shares[t->group - 1].name);
}

void tg_share_show(struct tg_text *out)
{
    for (uint32_t i = 0; i < TG_SHARES; i++) {
        const struct tg_share *s = &tg.shares[i];
        if (s->name[0] == 0)
            continue;
        tg_text_add(out,
                    "group %s: weight %" PRIu32 ", cap %" PRIu64 " bytes, %" PRIu64
                    " I/Os a second, floor %" PRIu64 " bytes, %" PRIu64 " I/Os a second\n",
                    s->name, s->rates.weight, s->rates.bytes, s->rates.ios, s->rates.floor_bytes,
                    s->rates.floor_ios);
        for (uint32_t k = 0; k < tg.tenant_count; k++)
            if (tg.tenants[k].group == i + 1)
                tg_text_add(out, "  host %s\n", tg.tenants[k].nqn);
    }
}

/* ---- At the switches ---- */

static int share_at(struct snic_io *io, const struct tg_share *s)
{
    struct snic_gimbal_tenant_opts o = tg_tenant_opts(&s->rates);
    uint32_t number = (uint32_t)(s - tg.shares) + 1;
    int r;
    if (s->name[0] == 0) {
        r = snic_qos_group_remove(io, number);
        return r == SNIC_ENOENT ? 0 : r;
    }
    r = snic_qos_group_add(io, number, &o);
    return r == SNIC_EEXIST ? snic_qos_group_set(io, number, &o) : r;
}

int tg_share_open(struct snic_io *io)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < TG_SHARES; i++)
        if (tg.shares[i].name[0] != 0)
            r = share_at(io, &tg.shares[i]);
    return r;
}

struct share_there {
    const struct tg_share *share;
    struct snic_io *io;
    int result;
};

static void share_there(void *ctx)
{
    struct share_there *t = ctx;
    t->result = share_at(t->io, t->share);
}

int tg_share_up(const struct tg_share *s, struct tg_error *e)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++) {
        struct share_there there = {.share = s, .io = tg.ns[i].io};
        if (!tg.ns[i].used || tg.ns[i].qos == NULL)
            continue;
        tg_loops_call(&tg.ns[i], share_there, &there);
        if (there.result == SNIC_EBUSY)
            return tg_fail(e,
                           "%s: hosts that left it still have requests at the device of namespace "
                           "%" PRIu32 ": try again",
                           s->rates.nqn, tg.ns[i].nsid);
        if (there.result != 0)
            return tg_fail(e, "%s: %s", s->rates.nqn, snic_strerror(there.result));
    }
    return 0;
}
