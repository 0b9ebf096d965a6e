/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A request's bytes, in pieces, become a struct snic_fuse_request.
 *
 * The cursor runs over header, arguments, names, data and extensions in the order in which they
 * travel; each step takes no more than `left`, and a request is accepted only if nothing remains.
 *
 * Invariants
 *   P1 Nothing is read beyond the pieces, and no name beyond SNIC_FUSE_*_MAX + 1 bytes.
 *   P2 The header and the arguments are copied before they are looked at.
 *   P3 After a failure all of the result but the header is zero.
 */
#include "fuse_priv.h"

struct parse_cursor {
    const struct snic_iov *iov;
    uint32_t count;
    size_t into; /* bytes of iov[0] that are taken */
    size_t left; /* bytes to the end, or to the extensions */
    size_t at;   /* bytes taken in all */
};

/* Pass pieces that are used up. */
static void parse_settle(struct parse_cursor *c)
{
    while (c->count > 0 && c->into == c->iov->size) {
        c->iov++;
        c->count--;
        c->into = 0;
    }
}

/* Bytes that follow in one piece, at *from. */
static size_t parse_contiguous(struct parse_cursor *c, const unsigned char **from)
{
    parse_settle(c);
    if (c->count == 0 || c->left == 0)
        return 0;
    *from = (const unsigned char *)c->iov->base + c->into;
    return (size_t)snic_min_u64(c->iov->size - c->into, c->left);
}

static void parse_pass(struct parse_cursor *c, size_t size)
{
    SNIC_DASSERT(size <= c->left); /* P1 */
    c->left -= size;
    c->at += size;
    while (size > 0) {
        size_t n;
        parse_settle(c);
        n = (size_t)snic_min_u64(size, c->iov->size - c->into);
        c->into += n;
        size -= n;
    }
}

static int parse_copy(struct parse_cursor *c, void *to, size_t size)
{
    unsigned char *out = to;
    if (size > c->left)
        return SNIC_EPROTO;
    while (size > 0) {
        const unsigned char *from = NULL;
        size_t n = (size_t)snic_min_u64(parse_contiguous(c, &from), size);
        memcpy(out, from, n);
        parse_pass(c, n);
        out += n;
        size -= n;
    }
    return 0;
}

static uint32_t parse_name_max(uint8_t kind)
{
    switch (kind) {
    case FUSE_TARGET:
        return SNIC_FUSE_SYMLINK_MAX;
    case FUSE_ATTRIBUTE:
        return SNIC_FUSE_XATTR_MAX;
    default:
        return SNIC_FUSE_NAME_MAX;
    }
}

static int parse_dots(const char *name, uint32_t size)
{
    return name[0] == '.' && (size == 1 || (size == 2 && name[1] == '.'));
}

static int parse_name(struct parse_cursor *c, uint8_t kind, const char **name, uint32_t *size)
{
    const unsigned char *from = NULL;
    size_t n = parse_contiguous(c, &from);
    uint32_t most = parse_name_max(kind);
    const unsigned char *end;
    if (kind == FUSE_NONE)
        return 0;
    if (n == 0)
        return SNIC_EPROTO;
    end = memchr(from, 0, (size_t)snic_min_u64(n, (uint64_t)most + 1)); /* P1 */
    if (end == NULL)
        return n > most ? SNIC_ENAMETOOLONG : SNIC_EPROTO;
    *name = (const char *)from;
    *size = (uint32_t)(end - from);
    parse_pass(c, (size_t)*size + 1);
    if (*size == 0)
        return SNIC_EINVAL;
    if (kind == FUSE_ENTRY && parse_dots(*name, *size))
        return SNIC_EINVAL;
    if (kind == FUSE_ENTRY || kind == FUSE_LOOKED_UP)
        return fuse_name_valid(*name, *size);
    return 0;
}

/* The data, and nothing behind them. */
static int parse_data(struct parse_cursor *c, struct snic_fuse_request *r, uint8_t kind,
                      const struct snic_fuse_conn *conn)
{
    const unsigned char *from = NULL;
    uint64_t size = 0;
    switch (kind) {
    case FUSE_DATA_WRITE:
        size = r->in.write.size;
        if (size > conn->max_write)
            return SNIC_EMSGSIZE;
        break;
    case FUSE_DATA_SETXATTR:
        size = r->in.setxattr.size;
        break;
    case FUSE_DATA_IOCTL:
        size = r->in.ioctl.in_size;
        break;
    case FUSE_DATA_FORGETS:
        size = (uint64_t)r->in.batch_forget.count * sizeof(struct snic_fuse_forget_one);
        break;
    default:
        break;
    }
    if (size != c->left)
        return SNIC_EPROTO;
    if (size == 0)
        return 0;
    if (parse_contiguous(c, &from) < size && kind == FUSE_DATA_FORGETS)
        return SNIC_EPROTO;
    r->data = from;
    r->data_size = (uint32_t)size;
    r->data_at = (uint32_t)c->at;
    parse_pass(c, (size_t)size);
    return 0;
}

/* Set the extensions at the end apart: c->left ends before them. */
static int parse_ext(struct parse_cursor *c, struct snic_fuse_request *r,
                     const struct fuse_rule *rule, const struct snic_fuse_conn *conn, size_t *size)
{
    *size = 0;
    if ((conn->flags & (SNIC_FUSE_SECURITY_CTX | SNIC_FUSE_CREATE_SUPP_GROUP)) == 0)
        return 0; /* the field is padding */
    *size = (size_t)r->head.total_extlen * 8;
    if (*size > c->left || (*size != 0 && (rule->flags & FUSE_EXTENDS) == 0))
        return SNIC_EPROTO;
    c->left -= *size;
    return 0;
}

/* The extensions are whole. */
static int parse_ext_check(struct parse_cursor *c, struct snic_fuse_request *r, size_t size)
{
    const unsigned char *from = NULL;
    size_t at = 0;
    if (size == 0)
        return 0;
    c->left = size;
    if (parse_contiguous(c, &from) != size)
        return SNIC_EPROTO;
    while (at < size) {
        struct snic_fuse_ext_header h;
        memcpy(&h, from + at, sizeof(h)); /* sizes are multiples of 8: there is a whole one */
        if (h.size < sizeof(h) || h.size % 8 != 0 || h.size > size - at)
            return SNIC_EPROTO;
        if (h.type == SNIC_FUSE_EXT_GROUPS) {
            struct snic_fuse_supp_groups g;
            if (h.size < sizeof(h) + sizeof(g))
                return SNIC_EPROTO;
            memcpy(&g, from + at + sizeof(h), sizeof(g));
            if ((h.size - sizeof(h) - sizeof(g)) / sizeof(uint32_t) < g.nr_groups)
                return SNIC_EPROTO;
        }
        at += h.size;
    }
    r->ext = from;
    r->ext_size = (uint32_t)size;
    return 0;
}

/* What the arguments themselves must satisfy. */
static int parse_values(const struct snic_fuse_request *r, const struct snic_fuse_conn *conn)
{
    switch (r->head.opcode) {
    case SNIC_FUSE_READ:
    case SNIC_FUSE_READDIR:
    case SNIC_FUSE_READDIRPLUS:
        return r->in.read.size > conn->max_read ? SNIC_EMSGSIZE : 0;
    case SNIC_FUSE_GETLK:
    case SNIC_FUSE_SETLK:
    case SNIC_FUSE_SETLKW:
        return r->in.lk.lk.type > SNIC_FUSE_UNLCK || r->in.lk.lk.start > r->in.lk.lk.end
                   ? SNIC_EINVAL
                   : 0;
    default:
        return 0;
    }
}

static int parse_header(struct parse_cursor *c, struct snic_fuse_request *r,
                        const struct snic_fuse_conn *conn)
{
    size_t total = c->left;
    if (parse_copy(c, &r->head, sizeof(r->head)) != 0) /* P2 */
        return SNIC_EPROTO;
    if (r->head.opcode == __builtin_bswap32(SNIC_FUSE_INIT))
        return SNIC_EVERSION;
    if (r->head.len != total)
        return SNIC_EPROTO;
    if (r->head.opcode == SNIC_FUSE_INIT)
        return conn->minor != 0 ? SNIC_EPROTO : 0;
    return conn->minor == 0 ? SNIC_ENOTCONN : 0;
}

/* INIT has grown, and may do so again; a peer of another major version sends the first two numbers
   at least. */
static int parse_init(struct parse_cursor *c, struct snic_fuse_request *r)
{
    size_t n = (size_t)snic_min_u64(c->left, sizeof(r->in.init));
    if (n < 8)
        return SNIC_EPROTO;
    if (parse_copy(c, &r->in.init, n) != 0)
        return SNIC_EPROTO;
    if (r->in.init.major == SNIC_FUSE_MAJOR) {
        if (n < 16 || ((r->in.init.flags & SNIC_FUSE_INIT_EXT) != 0 && n < sizeof(r->in.init)))
            return SNIC_EPROTO;
        if ((r->in.init.flags & SNIC_FUSE_INIT_EXT) == 0)
            r->in.init.flags2 = 0;
    }
    return 0;
}

static int parse_body(struct parse_cursor *c, struct snic_fuse_request *r,
                      const struct snic_fuse_conn *conn)
{
    const struct fuse_rule *rule = fuse_rule_of(r->head.opcode);
    size_t ext;
    int rc;
    if (rule == NULL)
        return SNIC_ENOTSUP;
    if (r->head.opcode == SNIC_FUSE_INIT)
        return parse_init(c, r);
    rc = parse_ext(c, r, rule, conn, &ext);
    if (rc == 0)
        rc = parse_copy(c, &r->in, (size_t)snic_fuse_in_size(r->head.opcode, conn)); /* P2 */
    if (rc == 0)
        rc = parse_name(c, rule->names[0], &r->name, &r->name_size);
    if (rc == 0)
        rc = parse_name(c, rule->names[1], &r->name2, &r->name2_size);
    if (rc == 0)
        rc = parse_data(c, r, rule->data, conn);
    if (rc == 0)
        rc = parse_ext_check(c, r, ext);
    return rc != 0 ? rc : parse_values(r, conn);
}

int snic_fuse_parse(struct snic_fuse_request *out, const struct snic_fuse_conn *conn,
                    const struct snic_iov *iov, uint32_t count)
{
    struct parse_cursor c = {iov, count, 0, 0, 0};
    struct snic_fuse_in_header head;
    int rc;
    for (uint32_t i = 0; i < count; i++)
        c.left += iov[i].size;
    memset(out, 0, sizeof(*out));
    rc = parse_header(&c, out, conn);
    if (rc == 0)
        rc = parse_body(&c, out, conn);
    if (rc != 0) { /* P3 */
        head = out->head;
        memset(out, 0, sizeof(*out));
        out->head = head;
    }
    return rc;
}

int snic_fuse_slice(const struct snic_iov *iov, uint32_t count, size_t at, size_t size,
                    struct snic_iov *out, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && size > 0; i++) {
        size_t take;
        if (at >= iov[i].size) {
            at -= iov[i].size;
            continue;
        }
        if (n == max)
            return SNIC_E2BIG;
        take = (size_t)snic_min_u64(iov[i].size - at, size);
        out[n].base = (unsigned char *)iov[i].base + at;
        out[n++].size = take;
        size -= take;
        at = 0;
    }
    return size > 0 ? SNIC_EINVAL : (int)n;
}

void snic_fuse_forget_at(const struct snic_fuse_request *r, uint32_t i,
                         struct snic_fuse_forget_one *out)
{
    SNIC_ASSERT(r->head.opcode == SNIC_FUSE_BATCH_FORGET && i < r->in.batch_forget.count);
    memcpy(out, (const unsigned char *)r->data + (size_t)i * sizeof(*out), sizeof(*out));
}

int snic_fuse_ext_next(const struct snic_fuse_request *r, uint32_t *at, uint32_t *type,
                       const void **data, uint32_t *size)
{
    struct snic_fuse_ext_header h;
    const unsigned char *from = r->ext;
    if (*at >= r->ext_size)
        return 0;
    memcpy(&h, from + *at, sizeof(h));
    SNIC_ASSERT(h.size >= sizeof(h) && h.size <= r->ext_size - *at);
    *type = h.type;
    *data = from + *at + sizeof(h);
    *size = h.size - (uint32_t)sizeof(h);
    *at += h.size;
    return 1;
}
