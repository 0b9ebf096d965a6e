/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Addresses as text: "1.2.3.4:80", "[::1]:80", "unix:/path", "sim:NODE:PORT", "localhost:80".
 *
 * The parser is strict, so that one text means one address everywhere: decimal numbers
 * without signs or leading zeros, no octal or shortened IPv4, no zone names. The formatter
 * writes IPv6 as RFC 5952 does; what it writes parses back to the same address.
 *
 * I1  A failed parse leaves *out untouched.
 * I2  A parsed address has every byte defined, padding included: users may memcmp it.
 */
#include "snicstore/net.h"

SNIC_STATIC_ASSERT(sizeof(struct snic_net_addr) == 132, "the address has no padding");

struct net_addr_cursor {
    const char *at;
    const char *end;
};

/* A decimal number <= max without leading zeros; 0 and *v, or SNIC_EINVAL. */
static int net_addr_number(struct net_addr_cursor *c, uint32_t max, uint32_t *v)
{
    const char *start = c->at;
    uint64_t n = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && c->at - start < 10)
        n = n * 10 + (uint64_t)(*c->at++ - '0');
    if (c->at == start || n > max || (*start == '0' && c->at - start > 1))
        return SNIC_EINVAL;
    *v = (uint32_t)n;
    return 0;
}

static int net_addr_skip(struct net_addr_cursor *c, char what)
{
    if (c->at == c->end || *c->at != what)
        return SNIC_EINVAL;
    c->at++;
    return 0;
}

static int net_addr_v4(struct net_addr_cursor *c, unsigned char *ip)
{
    for (unsigned i = 0; i < 4; i++) {
        uint32_t v = 0;
        if ((i > 0 && net_addr_skip(c, '.') < 0) || net_addr_number(c, 255, &v) < 0)
            return SNIC_EINVAL;
        ip[i] = (unsigned char)v;
    }
    return 0;
}

/* 1 to 4 hexadecimal digits. */
static int net_addr_group(struct net_addr_cursor *c, uint32_t *v)
{
    unsigned digits = 0;
    *v = 0;
    for (; c->at < c->end && digits < 5; c->at++, digits++) {
        char ch = *c->at;
        if (ch >= '0' && ch <= '9')
            *v = *v << 4 | (uint32_t)(ch - '0');
        else if (ch >= 'a' && ch <= 'f')
            *v = *v << 4 | (uint32_t)(ch - 'a' + 10);
        else if (ch >= 'A' && ch <= 'F')
            *v = *v << 4 | (uint32_t)(ch - 'A' + 10);
        else
            break;
    }
    return digits >= 1 && digits <= 4 ? 0 : SNIC_EINVAL;
}

/* The groups up to the end of the cursor, at most one "::" among them, the last two may be IPv4. */
static int net_addr_v6(struct net_addr_cursor *c, unsigned char *ip)
{
    unsigned char head[16] = {0};
    unsigned used = 0;
    unsigned gap = 17; /* bytes before "::", 17: none yet */
    if (c->end - c->at >= 2 && c->at[0] == ':' && c->at[1] == ':') {
        c->at += 2;
        gap = 0;
    }
    while (c->at < c->end) {
        const char *start = c->at;
        uint32_t v = 0;
        if (used > 14 || net_addr_group(c, &v) < 0)
            return SNIC_EINVAL;
        if (c->at < c->end && *c->at == '.') {
            c->at = start;
            if (used > 12 || net_addr_v4(c, head + used) < 0 || c->at != c->end)
                return SNIC_EINVAL;
            used += 4;
            break;
        }
        head[used++] = (unsigned char)(v >> 8);
        head[used++] = (unsigned char)v;
        if (c->at == c->end)
            break;
        if (net_addr_skip(c, ':') < 0 || c->at == c->end)
            return SNIC_EINVAL;
        if (*c->at == ':') {
            if (gap != 17)
                return SNIC_EINVAL;
            gap = used;
            c->at++;
        }
    }
    if ((gap == 17) != (used == 16))
        return SNIC_EINVAL;
    memset(ip, 0, 16);
    if (gap == 17) {
        memcpy(ip, head, 16);
    } else {
        memcpy(ip, head, gap);
        memcpy(ip + 16 - (used - gap), head + gap, used - gap);
    }
    return 0;
}

/* ":PORT" up to the end. */
static int net_addr_port(struct net_addr_cursor *c, struct snic_net_addr *a)
{
    uint32_t v = 0;
    if (net_addr_skip(c, ':') < 0 || net_addr_number(c, 65535, &v) < 0 || c->at != c->end)
        return SNIC_EINVAL;
    a->port = (uint16_t)v;
    return 0;
}

static int net_addr_unix(struct net_addr_cursor *c, struct snic_net_addr *a)
{
    size_t size = (size_t)(c->end - c->at);
    if (size == 0 || size >= sizeof(a->path))
        return SNIC_EINVAL;
    a->family = SNIC_NET_UNIX;
    memcpy(a->path, c->at, size);
    return 0;
}

static int net_addr_bracketed(struct net_addr_cursor *c, struct snic_net_addr *a)
{
    struct net_addr_cursor inner = *c;
    inner.at++;
    inner.end = memchr(inner.at, ']', (size_t)(c->end - inner.at));
    if (inner.end == NULL || net_addr_v6(&inner, a->ip) < 0)
        return SNIC_EINVAL;
    a->family = SNIC_NET_IPV6;
    c->at = inner.end + 1;
    return net_addr_port(c, a);
}

static int net_addr_starts(struct net_addr_cursor *c, const char *prefix)
{
    size_t size = strlen(prefix);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, prefix, size) != 0)
        return 0;
    c->at += size;
    return 1;
}

int snic_net_addr_parse(struct snic_net_addr *out, const char *text)
{
    static const unsigned char loopback[4] = {127, 0, 0, 1};
    struct net_addr_cursor c = {text, text + strlen(text)};
    struct snic_net_addr a;
    int e = 0;
    memset(&a, 0, sizeof(a));
    if (net_addr_starts(&c, "unix:")) {
        e = net_addr_unix(&c, &a);
    } else if (net_addr_starts(&c, "sim:")) {
        a.family = SNIC_NET_SIM;
        e = net_addr_number(&c, UINT32_MAX, &a.node);
        if (e == 0)
            e = net_addr_port(&c, &a);
    } else if (c.at < c.end && *c.at == '[') {
        e = net_addr_bracketed(&c, &a);
    } else {
        a.family = SNIC_NET_IPV4;
        if (net_addr_starts(&c, "localhost"))
            memcpy(a.ip, loopback, sizeof(loopback));
        else
            e = net_addr_v4(&c, a.ip);
        if (e == 0)
            e = net_addr_port(&c, &a);
    }
    if (e == 0)
        *out = a; /* I1 */
    return e;
}

/* Text that is being written; counts on after the space is used up. */
struct net_addr_text {
    char *out;
    size_t size;
    size_t used;
};

static void net_addr_put(struct net_addr_text *t, char c)
{
    if (t->used + 1 < t->size)
        t->out[t->used] = c;
    t->used++;
}

static void net_addr_puts(struct net_addr_text *t, const char *s, size_t max)
{
    for (size_t i = 0; i < max && s[i] != '\0'; i++)
        net_addr_put(t, s[i]);
}

static void net_addr_putn(struct net_addr_text *t, uint32_t v, uint32_t base)
{
    char digits[10];
    unsigned n = 0;
    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    while (n > 0)
        net_addr_put(t, digits[--n]);
}

static void net_addr_put_v4(struct net_addr_text *t, const unsigned char *ip)
{
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0)
            net_addr_put(t, '.');
        net_addr_putn(t, ip[i], 10);
    }
}

/* RFC 5952: the longest run of at least two zero groups, the first of equals, becomes "::". */
static void net_addr_put_v6(struct net_addr_text *t, const unsigned char *ip)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    unsigned run_at = 8;
    unsigned run = 1;
    if (memcmp(ip, mapped, sizeof(mapped)) == 0) {
        net_addr_puts(t, "::ffff:", 7);
        net_addr_put_v4(t, ip + 12);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        unsigned n = 0;
        while (i + n < 8 && snic_get_be16(ip + 2 * (i + n)) == 0)
            n++;
        if (n > run) {
            run = n;
            run_at = i;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        if (i == run_at) {
            net_addr_puts(t, "::", 2);
            i += run - 1;
            continue;
        }
        if (i > 0 && i != run_at + run)
            net_addr_put(t, ':');
        net_addr_putn(t, snic_get_be16(ip + 2 * i), 16);
    }
}

int snic_net_addr_format(const struct snic_net_addr *a, char *out, size_t size)
{
    struct net_addr_text t = {out, size, 0};
    switch (a->family) {
    case SNIC_NET_IPV4:
        net_addr_put_v4(&t, a->ip);
        break;
    case SNIC_NET_IPV6:
        net_addr_put(&t, '[');
        net_addr_put_v6(&t, a->ip);
        net_addr_put(&t, ']');
        break;
    case SNIC_NET_UNIX:
        net_addr_puts(&t, "unix:", 5);
        net_addr_puts(&t, a->path, sizeof(a->path));
        break;
    case SNIC_NET_SIM:
        net_addr_puts(&t, "sim:", 4);
        net_addr_putn(&t, a->node, 10);
        break;
    default:
        net_addr_put(&t, '?');
        break;
    }
    if (a->family != SNIC_NET_UNIX) {
        net_addr_put(&t, ':');
        net_addr_putn(&t, a->port, 10);
    }
    if (size > 0)
        out[t.used < size ? t.used : size - 1] = '\0';
    return (int)t.used;
}
