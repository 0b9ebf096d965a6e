/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names of devices. */
#include "nvmehost/nvmehost_priv.h"

static const char nvmehost_scheme[] = "nvme-tcp://";

int snic_nvmehost_uri_is(const char *text)
{
    return strncmp(text, nvmehost_scheme, sizeof(nvmehost_scheme) - 1) == 0;
}

/* Up to @p end, or the end of the text. */
static size_t nvmehost_until(const char *text, const char *ends)
{
    return strcspn(text, ends);
}

static int nvmehost_copy(char *out, size_t size, const char *text, size_t n)
{
    if (n == 0 || n >= size)
        return SNIC_EINVAL;
    memcpy(out, text, n);
    out[n] = 0;
    return 0;
}

static const char *nvmehost_uri_addrs(struct snic_nvmehost_uri *u, const char *text, size_t size)
{
    char one[64];
    for (size_t at = 0; at <= size;) {
        size_t n = nvmehost_until(text + at, ",/");
        if (u->opts.addr_count == SNIC_NVMEHOST_PATHS_MAX)
            return "more than 8 addresses";
        if (nvmehost_copy(one, sizeof(one), text + at, n) != 0 ||
            snic_net_addr_parse(&u->addrs[u->opts.addr_count], one) != 0)
            return "not an address: expected nvme-tcp://ADDRESS:PORT[,...]/NQN";
        u->opts.addr_count++;
        at += n + 1;
    }
    return NULL;
}

static int nvmehost_number(const char *text, size_t n, uint32_t most, uint32_t *out)
{
    uint64_t v = 0;
    if (n == 0 || n > 10)
        return SNIC_EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return SNIC_EINVAL;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    if (v > most)
        return SNIC_EINVAL;
    *out = (uint32_t)v;
    return 0;
}

static int nvmehost_is(const char *text, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(text, name, n) == 0;
}

static int nvmehost_digests(const char *text, size_t n, uint32_t *out)
{
    if (nvmehost_is(text, n, "header"))
        *out = SNIC_NVMETCP_HDGST;
    else if (nvmehost_is(text, n, "data"))
        *out = SNIC_NVMETCP_DDGST;
    else if (nvmehost_is(text, n, "both"))
        *out = SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST;
    else
        return SNIC_EINVAL;
    return 0;
}

/* 32 hexadecimal digits, in the order of a UUID's text, which has dashes between. */
static int nvmehost_hostid(const char *text, size_t n, uint8_t out[16])
{
    static const char hex[] = "0123456789abcdef0123456789ABCDEF";
    uint8_t bits = 0;
    size_t digits = 0;
    memset(out, 0, 16);
    for (size_t i = 0; i < n; i++) {
        const char *at = text[i] != 0 ? strchr(text[i] < 'a' ? hex + 16 : hex, text[i]) : NULL;
        if (text[i] == '-')
            continue;
        if (at == NULL || digits == 32)
            return SNIC_EINVAL;
        uint8_t digit = (uint8_t)((at - hex) % 16);
        out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | digit);
        bits |= digit;
        digits++;
    }
    return digits == 32 && bits != 0 ? 0 : SNIC_EINVAL;
}

/* @return NULL or what is wrong */
static const char *nvmehost_uri_option(struct snic_nvmehost_uri *u, const char *name, size_t nn,
                                       const char *value, size_t vn)
{
    struct snic_nvmehost_opts *o = &u->opts;
    uint32_t v = 0;
    if (nvmehost_is(name, nn, "nsid"))
        return nvmehost_number(value, vn, UINT32_MAX - 1, &o->nsid) != 0 || o->nsid == 0
                   ? "nsid: not 1..4294967294"
                   : NULL;
    if (nvmehost_is(name, nn, "host"))
        return nvmehost_copy(u->hostnqn, SNIC_NVME_NQN_LENGTH + 1, value, vn) != 0
                   ? "host: not a name of 1..223 characters"
                   : NULL;
    if (nvmehost_is(name, nn, "hostid"))
        return nvmehost_hostid(value, vn, o->hostid) != 0 ? "hostid: not a UUID other than zero"
                                                          : NULL;
    if (nvmehost_is(name, nn, "queues"))
        return nvmehost_number(value, vn, SNIC_NVMEHOST_QUEUES_MAX, &o->queues) != 0 ||
                       o->queues == 0
                   ? "queues: not 1..16"
                   : NULL;
    if (nvmehost_is(name, nn, "entries"))
        return nvmehost_number(value, vn, SNIC_NVMETCP_DEPTH_MAX, &o->entries) != 0 ||
                       o->entries < 2
                   ? "entries: not 2..4096"
                   : NULL;
    if (nvmehost_is(name, nn, "kato"))
        return nvmehost_number(value, vn, 3600000, &o->kato_ms) != 0 || o->kato_ms < 100
                   ? "kato: not 100..3600000 ms"
                   : NULL;
    if (nvmehost_is(name, nn, "digests"))
        return nvmehost_digests(value, vn, &o->digests) != 0 ? "digests: not header, data or both"
                                                             : NULL;
    if (nvmehost_is(name, nn, "loss")) {
        if (nvmehost_number(value, vn, 31536000, &v) != 0 || v == 0)
            return "loss: not 1..31536000 s";
        o->loss_ns = v * UINT64_C(1000000000);
        return NULL;
    }
    if (nvmehost_is(name, nn, "lock")) {
        o->flags &= ~(SNIC_NVMEHOST_LOCK | SNIC_NVMEHOST_TAKE);
        o->flags |= nvmehost_is(value, vn, "0")      ? 0
                    : nvmehost_is(value, vn, "1")    ? SNIC_NVMEHOST_LOCK
                    : nvmehost_is(value, vn, "take") ? SNIC_NVMEHOST_LOCK | SNIC_NVMEHOST_TAKE
                                                     : SNIC_NVMEHOST_TAKE;
        return (o->flags & (SNIC_NVMEHOST_LOCK | SNIC_NVMEHOST_TAKE)) == SNIC_NVMEHOST_TAKE
                   ? "lock: not 0, 1 or take"
                   : NULL;
    }
    uint32_t flag = nvmehost_is(name, nn, "volatile") ? SNIC_NVMEHOST_VOLATILE
                    : nvmehost_is(name, nn, "credit") ? SNIC_NVMEHOST_CREDIT
                                                      : 0;
    if (flag == 0)
        return "unknown option: expected nsid, host, hostid, queues, entries, kato, loss, "
               "digests, lock, volatile or credit";
    if (nvmehost_number(value, vn, 1, &v) != 0)
        return "volatile, credit: not 0 or 1";
    o->flags = v != 0 ? o->flags | flag : o->flags & ~flag;
    return NULL;
}

const char *snic_nvmehost_uri_parse(struct snic_nvmehost_uri *out, const char *text)
{
    memset(out, 0, sizeof(*out));
    out->opts.opts_size = sizeof(out->opts);
    out->opts.addrs = out->addrs;
    out->opts.subnqn = out->subnqn;
    out->opts.hostnqn = out->hostnqn;
    if (!snic_nvmehost_uri_is(text))
        return "does not begin with nvme-tcp://";
    text += sizeof(nvmehost_scheme) - 1;
    size_t n = nvmehost_until(text, "/");
    const char *wrong = n == 0 ? "no address" : nvmehost_uri_addrs(out, text, n);
    if (wrong != NULL)
        return wrong;
    text += n + (text[n] == '/');
    n = nvmehost_until(text, "?");
    if (nvmehost_copy(out->subnqn, SNIC_NVME_NQN_LENGTH + 1, text, n) != 0)
        return "no NQN of 1..223 characters behind the address";
    text += n;
    while (*text != 0) { /* at ? or & */
        text++;
        n = nvmehost_until(text, "&");
        size_t name = nvmehost_until(text, "=&");
        if (name == n)
            return "an option without a value";
        wrong = nvmehost_uri_option(out, text, name, text + name + 1, n - name - 1);
        if (wrong != NULL)
            return wrong;
        text += n;
    }
    return NULL;
}
