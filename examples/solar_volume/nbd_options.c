/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The handshake: flags, options, until a disk is chosen. */
#include "nbd_priv.h"

#include <string.h>

enum {
    OPT_EXPORT_NAME = 1,
    OPT_ABORT = 2,
    OPT_LIST = 3,
    OPT_INFO = 6,
    OPT_GO = 7,
    OPT_STRUCTURED = 8,
    OPT_LIST_META = 9,
    OPT_SET_META = 10,
    REP_ACK = 1,
    REP_SERVER = 2,
    REP_INFO = 3,
    REP_META = 4,
    INFO_EXPORT = 0,
    INFO_NAME = 1,
    INFO_BLOCK_SIZE = 3
};
#define REP_ERR(n) ((1u << 31) + (n))
#define ERR_UNSUP REP_ERR(1)
#define ERR_INVALID REP_ERR(3)
#define ERR_UNKNOWN REP_ERR(6)
#define ERR_TOO_BIG REP_ERR(9)
#define CONTEXT "base:allocation"
#define NAMESPACE "base:"
#define REPLY_MAGIC UINT64_C(0x3e889045565a9)
enum {
    FLAG_HAS = 1,
    FLAG_READ_ONLY = 2,
    FLAG_FLUSH = 4,
    FLAG_FUA = 8,
    FLAG_TRIM = 32,
    FLAG_ZEROES = 64,
    FLAG_DF = 128,
    FLAG_MULTI = 256,
    FLAG_CACHE = 1024,
    FLAG_FAST_ZERO = 2048
};

void nbd_hello(struct nbd_conn *c)
{
    unsigned char b[18];
    snic_put_be64(b, NBD_MAGIC);
    snic_put_be64(b + 8, NBD_IHAVEOPT);
    snic_put_be16(b + 16, 3); /* fixed newstyle, no zeroes */
    c->state = NBD_FLAGS;
    c->want = 4;
    nbd_send_bytes(c, b, sizeof(b));
}

static void options_reply(struct nbd_conn *c, uint32_t type, const void *data, uint32_t size)
{
    unsigned char b[NBD_SEND_MAX];
    snic_put_be64(b, REPLY_MAGIC);
    snic_put_be32(b + 8, c->option);
    snic_put_be32(b + 12, type);
    snic_put_be32(b + 16, size);
    if (size != 0)
        memcpy(b + 20, data, size);
    nbd_send_bytes(c, b, 20 + size);
}

static void options_error(struct nbd_conn *c, uint32_t type, const char *why)
{
    options_reply(c, type, why, (uint32_t)strlen(why));
}

static struct nbd_export *options_find(struct nbd *n, const unsigned char *name, uint32_t size)
{
    if (size == 0)
        return n->count != 0 ? &n->exports[0] : NULL;
    for (uint32_t i = 0; i < n->count; i++)
        if (strlen(n->exports[i].name) == size && memcmp(n->exports[i].name, name, size) == 0)
            return &n->exports[i];
    return NULL;
}

/* To write zeros takes no data, so it is fast wherever it is possible. */
static uint16_t options_flags(const struct nbd_conn *c, const struct nbd_export *x)
{
    return (uint16_t)(FLAG_HAS | FLAG_FLUSH | FLAG_FUA | FLAG_TRIM | FLAG_ZEROES | FLAG_MULTI |
                      FLAG_CACHE | FLAG_FAST_ZERO | (c->structured ? FLAG_DF : 0) |
                      (x->read_only ? FLAG_READ_ONLY : 0));
}

static void options_begin(struct nbd_conn *c, struct nbd_export *x)
{
    c->x = x;
    c->status = c->structured && c->meta == x;
    c->state = NBD_REQUEST;
    c->want = 28;
}

/* The old way to choose: it has no error reply. */
static void options_export_name(struct nbd_conn *c, uint32_t size)
{
    unsigned char b[134];
    struct nbd_export *x = options_find(c->n, c->in, size);
    if (x == NULL) {
        nbd_end(c, "requested an export that does not exist");
        return;
    }
    memset(b, 0, sizeof(b));
    snic_put_be64(b, x->size);
    snic_put_be16(b + 8, options_flags(c, x));
    options_begin(c, x);
    nbd_send_bytes(c, b, c->no_zeroes ? 10 : 134);
}

static void options_list(struct nbd_conn *c, uint32_t size)
{
    unsigned char b[4 + NBD_NAME];
    if (size != 0) {
        options_error(c, ERR_INVALID, "LIST has no data");
        return;
    }
    for (uint32_t i = 0; i < c->n->count; i++) {
        uint32_t n = (uint32_t)strlen(c->n->exports[i].name);
        snic_put_be32(b, n);
        memcpy(b + 4, c->n->exports[i].name, n);
        options_reply(c, REP_SERVER, b, 4 + n);
    }
    options_reply(c, REP_ACK, NULL, 0);
}

static void options_info(struct nbd_conn *c, uint32_t size)
{
    unsigned char b[16 + NBD_NAME];
    uint32_t name = size >= 6 ? snic_get_be32(c->in) : 0;
    if (size < 6 || name > size - 6) {
        options_error(c, ERR_INVALID, "invalid lengths");
        return;
    }
    uint32_t infos = snic_get_be16(c->in + 4 + name);
    if (size != 6 + name + 2 * infos) {
        options_error(c, ERR_INVALID, "invalid lengths");
        return;
    }
    struct nbd_export *x = options_find(c->n, c->in + 4, name);
    if (x == NULL) {
        options_error(c, ERR_UNKNOWN, "no such export");
        return;
    }
    snic_put_be16(b, INFO_EXPORT);
    snic_put_be64(b + 2, x->size);
    snic_put_be16(b + 10, options_flags(c, x));
    options_reply(c, REP_INFO, b, 12);
    for (uint32_t i = 0, replied = 0; i < infos; i++) {
        uint32_t what = snic_get_be16(c->in + 6 + name + 2 * i);
        if (what == INFO_NAME && (replied & 1) == 0) {
            uint32_t n = (uint32_t)strlen(x->name);
            replied |= 1;
            snic_put_be16(b, INFO_NAME);
            memcpy(b + 2, x->name, n);
            options_reply(c, REP_INFO, b, 2 + n);
        } else if (what == INFO_BLOCK_SIZE && (replied & 2) == 0) {
            replied |= 2;
            snic_put_be16(b, INFO_BLOCK_SIZE);
            snic_put_be32(b + 2, 1);
            snic_put_be32(b + 6, BLOCK_BYTES);
            snic_put_be32(b + 10, NBD_REQUEST_MAX);
            options_reply(c, REP_INFO, b, 14);
        }
    }
    if (c->option == OPT_GO && c->state != NBD_ENDED)
        options_begin(c, x);
    options_reply(c, REP_ACK, NULL, 0);
}

static void options_structured(struct nbd_conn *c, uint32_t size)
{
    if (size != 0) {
        options_error(c, ERR_INVALID, "STRUCTURED_REPLY has no data");
        return;
    }
    c->structured = 1;
    options_reply(c, REP_ACK, NULL, 0);
}

/* 1: the query is for the one context that there is; in a list its namespace is, too. */
static int options_query(const struct nbd_conn *c, const unsigned char *query, uint32_t size)
{
    const char *all = c->option == OPT_LIST_META ? NAMESPACE : CONTEXT;
    return (size == strlen(CONTEXT) && memcmp(query, CONTEXT, size) == 0) ||
           (size == strlen(all) && memcmp(query, all, size) == 0);
}

/* @return 1 the context is requested; 0; -1: the lengths do not fit */
static int options_queries(const struct nbd_conn *c, uint32_t at, uint32_t size)
{
    uint32_t count = snic_get_be32(c->in + at);
    int any = count == 0 && c->option == OPT_LIST_META;
    for (at += 4; count > 0; count--) {
        uint32_t n = size - at >= 4 ? snic_get_be32(c->in + at) : UINT32_MAX;
        if (size - at < 4 || n > size - at - 4)
            return -1;
        any |= options_query(c, c->in + at + 4, n);
        at += 4 + n;
    }
    return at == size ? any : -1;
}

static void options_meta(struct nbd_conn *c, uint32_t size)
{
    unsigned char b[4 + sizeof(CONTEXT)];
    int set = c->option == OPT_SET_META;
    uint32_t name = size >= 8 ? snic_get_be32(c->in) : 0;
    int any = size < 8 || name > size - 8 ? -1 : options_queries(c, 4 + name, size);
    if (set)
        c->meta = NULL;
    if (!c->structured) {
        options_error(c, ERR_INVALID, "STRUCTURED_REPLY must be negotiated first");
        return;
    }
    if (any < 0) {
        options_error(c, ERR_INVALID, "invalid lengths");
        return;
    }
    struct nbd_export *x = options_find(c->n, c->in + 4, name);
    if (x == NULL) {
        options_error(c, ERR_UNKNOWN, "no such export");
        return;
    }
    if (any) {
        snic_put_be32(b, set ? NBD_CONTEXT : 0);
        memcpy(b + 4, CONTEXT, strlen(CONTEXT));
        options_reply(c, REP_META, b, 4 + (uint32_t)strlen(CONTEXT));
        c->meta = set ? x : c->meta;
    }
    options_reply(c, REP_ACK, NULL, 0);
}

static void options_option(struct nbd_conn *c, uint32_t size)
{
    c->state = NBD_OPTION;
    c->want = 16;
    switch (c->option) {
    case OPT_EXPORT_NAME:
        options_export_name(c, size);
        break;
    case OPT_ABORT:
        options_reply(c, REP_ACK, NULL, 0);
        nbd_end(c, NULL);
        break;
    case OPT_LIST:
        options_list(c, size);
        break;
    case OPT_INFO:
    case OPT_GO:
        options_info(c, size);
        break;
    case OPT_STRUCTURED:
        options_structured(c, size);
        break;
    case OPT_LIST_META:
    case OPT_SET_META:
        options_meta(c, size);
        break;
    default:
        options_error(c, ERR_UNSUP, "option not supported");
        break;
    }
}

static void options_flags_received(struct nbd_conn *c)
{
    uint32_t flags = snic_get_be32(c->in);
    /* One that does not speak the fixed handshake asks by EXPORT_NAME, which is served. */
    if ((flags & ~3u) != 0) {
        nbd_end(c, "uses another handshake");
        return;
    }
    c->no_zeroes = (flags & 2) != 0;
    c->state = NBD_OPTION;
    c->want = 16;
}

void nbd_handshake(struct nbd_conn *c)
{
    uint32_t size;
    c->have = 0;
    switch (c->state) {
    case NBD_FLAGS:
        options_flags_received(c);
        break;
    case NBD_OPTION:
        size = snic_get_be32(c->in + 12);
        c->option = snic_get_be32(c->in + 8);
        if (snic_get_be64(c->in) != NBD_IHAVEOPT) {
            nbd_end(c, "sent no valid option");
        } else if (size > NBD_OPTION_MAX && c->option == OPT_EXPORT_NAME) {
            nbd_end(c, "requested an export that does not exist"); /* it cannot be answered */
        } else if (size > NBD_OPTION_MAX) {
            c->state = NBD_SKIP;
            c->want = size;
        } else if (size == 0) {
            options_option(c, 0);
        } else {
            c->state = NBD_OPTION_DATA;
            c->want = size;
        }
        break;
    case NBD_OPTION_DATA:
        options_option(c, c->want);
        break;
    case NBD_SKIP:
        c->state = NBD_OPTION;
        c->want = 16;
        if (c->option == OPT_SET_META)
            c->meta = NULL;
        options_error(c, ERR_TOO_BIG, "option is too long");
        break;
    case NBD_REQUEST:
    case NBD_PAYLOAD:
    case NBD_ENDED:
        break;
    }
}
