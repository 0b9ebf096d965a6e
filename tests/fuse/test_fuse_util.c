/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_fuse_util.h"

#include <sys/mman.h>

struct util_op util_op(uint32_t opcode, const struct snic_fuse_conn *conn)
{
    static const struct {
        uint32_t opcode;
        struct util_op op;
    } ops[] = {
        {1, {0, "l", -1, 0, 0}},   {2, {8, "", -1, 0, 0}},    {3, {16, "", -1, 0, 0}},
        {4, {88, "", -1, 0, 0}},   {5, {0, "", -1, 0, 0}},    {6, {0, "et", -1, 0, 1}},
        {8, {16, "e", -1, 0, 1}},  {9, {8, "e", -1, 0, 1}},   {10, {0, "e", -1, 0, 0}},
        {11, {0, "e", -1, 0, 0}},  {12, {8, "ee", -1, 0, 0}}, {13, {8, "e", -1, 0, 0}},
        {14, {8, "", -1, 0, 0}},   {15, {40, "", -1, 0, 0}},  {16, {40, "", 16, 1, 0}},
        {17, {0, "", -1, 0, 0}},   {18, {24, "", -1, 0, 0}},  {20, {16, "", -1, 0, 0}},
        {21, {16, "x", 0, 1, 0}},  {22, {8, "x", -1, 0, 0}},  {23, {8, "", -1, 0, 0}},
        {24, {0, "x", -1, 0, 0}},  {25, {24, "", -1, 0, 0}},  {26, {64, "", -1, 0, 0}},
        {27, {8, "", -1, 0, 0}},   {28, {40, "", -1, 0, 0}},  {29, {24, "", -1, 0, 0}},
        {30, {16, "", -1, 0, 0}},  {31, {48, "", -1, 0, 0}},  {32, {48, "", -1, 0, 0}},
        {33, {48, "", -1, 0, 0}},  {34, {8, "", -1, 0, 0}},   {35, {16, "e", -1, 0, 1}},
        {36, {8, "", -1, 0, 0}},   {37, {16, "", -1, 0, 0}},  {38, {0, "", -1, 0, 0}},
        {39, {32, "", 24, 1, 0}},  {40, {24, "", -1, 0, 0}},  {42, {8, "", 0, 16, 0}},
        {43, {32, "", -1, 0, 0}},  {44, {40, "", -1, 0, 0}},  {45, {16, "ee", -1, 0, 0}},
        {46, {24, "", -1, 0, 0}},  {47, {56, "", -1, 0, 0}},  {50, {8, "", -1, 0, 0}},
        {51, {16, "a", -1, 0, 1}}, {52, {24, "", -1, 0, 0}},  {53, {56, "", -1, 0, 0}},
    };
    struct util_op none = {-1, "", -1, 0, 0};

    for (size_t i = 0; i < SNIC_COUNTOF(ops); i++)
        if (ops[i].opcode == opcode) {
            none = ops[i].op;
            if (opcode == 21 && (conn->flags & (UINT64_C(1) << 29)) == 0)
                none.in = 8;
        }
    return none;
}

void util_conn(struct snic_fuse_conn *conn, uint64_t flags)
{
    memset(conn, 0, sizeof(*conn));
    conn->minor = SNIC_FUSE_MINOR;
    conn->major = SNIC_FUSE_MAJOR;
    conn->flags = flags;
    conn->offered = flags;
    conn->max_write = 4096;
    conn->max_read = 8192;
}

void util_len(unsigned char *request, size_t size)
{
    uint32_t len = (uint32_t)size;

    memcpy(request, &len, sizeof(len));
}

size_t util_build(unsigned char *to, uint32_t opcode, const struct snic_fuse_conn *conn,
                  uint32_t name_size, uint32_t data_size)
{
    struct util_op op = util_op(opcode, conn);
    struct snic_fuse_in_header h = {0, opcode, 7, 1, 2, 3, 4, 0, 0};
    size_t at = sizeof(h);

    if (op.in > 0) {
        memset(to + at, 0, (size_t)op.in);
        if (op.size_at >= 0)
            memcpy(to + at + op.size_at, &data_size, sizeof(data_size));
        if (opcode == SNIC_FUSE_INIT) {
            struct snic_fuse_init_in in = {7, 38, 65536, SNIC_FUSE_INIT_EXT, 0, {0}};

            memcpy(to + at, &in, sizeof(in));
        }
        at += (size_t)op.in;
    }
    for (const char *n = op.names; *n != 0; n++) {
        memset(to + at, 'a', name_size);
        to[at + name_size] = 0;
        at += name_size + 1;
    }
    if (op.size_at >= 0) {
        memset(to + at, 'd', data_size * op.unit);
        at += data_size * op.unit;
    }
    h.len = (uint32_t)at;
    memcpy(to, &h, sizeof(h));
    return at;
}

static int model_name(char kind, const unsigned char *p, size_t left, uint32_t *size)
{
    uint32_t most = kind == 't' ? 4095 : kind == 'x' ? 255 : 1024;
    uint32_t n = 0;

    while (n < left && p[n] != 0)
        n++;
    *size = n;
    if (n > most)
        return SNIC_ENAMETOOLONG;
    if (n == left)
        return SNIC_EPROTO;
    if (n == 0)
        return SNIC_EINVAL;
    if (kind == 'e' && p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < n; i++)
        if (p[i] == '/' && (kind == 'e' || kind == 'l'))
            return SNIC_EINVAL;
    return 0;
}

static int model_ext(const unsigned char *p, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint32_t h[3] = {0, 0, 0};

        memcpy(h, p + at, size - at < 12 ? size - at : 12);
        if (h[0] < 8 || h[0] % 8 != 0 || h[0] > size - at)
            return SNIC_EPROTO;
        if (h[1] == 32 && (h[0] < 12 || (uint64_t)h[2] * 4 > h[0] - 12))
            return SNIC_EPROTO;
        at += h[0];
    }
    return 0;
}

static int model_init(const unsigned char *p, size_t left, struct snic_fuse_request *body)
{
    size_t n = left < 64 ? left : 64;

    memcpy(&body->in, p, n);
    if (n < 8)
        return SNIC_EPROTO;
    if (body->in.init.major != 7)
        return 0;
    if (n < 16)
        return SNIC_EPROTO;
    if ((body->in.init.flags >> 30 & 1) == 0)
        body->in.init.flags2 = 0;
    return (body->in.init.flags >> 30 & 1) != 0 && n < 64 ? SNIC_EPROTO : 0;
}

static int model_body(const unsigned char *p, size_t left, const struct snic_fuse_conn *conn,
                      struct snic_fuse_request *body)
{
    uint32_t opcode = body->head.opcode;
    struct util_op op = util_op(opcode, conn);
    int extended = (conn->flags & (UINT64_C(5) << 32)) != 0;
    size_t ext = extended ? body->head.total_extlen * 8u : 0;
    uint64_t data = 0;
    uint32_t n;

    if (op.in < 0)
        return SNIC_ENOTSUP;
    if (opcode == SNIC_FUSE_INIT)
        return model_init(p, left, body);
    if (ext > left || (ext > 0 && !op.extends) || left - ext < (size_t)op.in)
        return SNIC_EPROTO;
    left -= ext;
    memcpy(&body->in, p, (size_t)op.in);
    p += op.in;
    left -= (size_t)op.in;
    for (int i = 0; op.names[i] != 0; i++) {
        int rc = model_name(op.names[i], p, left, &n);

        if (rc != 0)
            return rc;
        *(i == 0 ? &body->name : &body->name2) = (const char *)p;
        *(i == 0 ? &body->name_size : &body->name2_size) = n;
        p += n + 1;
        left -= n + 1;
    }
    if (op.size_at >= 0) {
        memcpy(&n, (unsigned char *)&body->in + op.size_at, sizeof(n));
        data = (uint64_t)n * op.unit;
        if (opcode == SNIC_FUSE_WRITE && data > conn->max_write)
            return SNIC_EMSGSIZE;
    }
    if (data != left)
        return SNIC_EPROTO;
    body->data = data > 0 ? p : NULL;
    body->data_size = (uint32_t)data;
    if (model_ext(p + left, ext) != 0)
        return SNIC_EPROTO;
    body->ext = ext > 0 ? p + left : NULL;
    body->ext_size = (uint32_t)ext;
    if ((opcode == 15 || opcode == 28 || opcode == 44) && body->in.read.size > conn->max_read)
        return SNIC_EMSGSIZE;
    if (opcode >= 31 && opcode <= 33 &&
        (body->in.lk.lk.type > 2 || body->in.lk.lk.end < body->in.lk.lk.start))
        return SNIC_EINVAL;
    return 0;
}

int util_model(const unsigned char *request, size_t size, const struct snic_fuse_conn *conn,
               struct snic_fuse_request *body)
{
    memset(body, 0, sizeof(*body));
    if (size < 40)
        return SNIC_EPROTO;
    memcpy(&body->head, request, 40);
    if (body->head.opcode == 0x1a000000)
        return SNIC_EVERSION;
    if (body->head.len != size || (body->head.opcode == SNIC_FUSE_INIT && conn->minor != 0))
        return SNIC_EPROTO;
    if (body->head.opcode != SNIC_FUSE_INIT && conn->minor == 0)
        return SNIC_ENOTCONN;
    return model_body(request + 40, size - 40, conn, body);
}

int util_parse(struct snic_fuse_request *r, const struct snic_fuse_conn *conn,
               const unsigned char *request, size_t size, unsigned char **held)
{
    enum { UTIL_GUARD = 65536 }; /* the largest page of any machine */
    static unsigned char *end;
    struct snic_iov iov;

    if (end == NULL) {
        unsigned char *p =
            mmap(NULL, UTIL_GUARD * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        assert_true(p != MAP_FAILED && mprotect(p + UTIL_GUARD, UTIL_GUARD, PROT_NONE) == 0);
        end = p + UTIL_GUARD;
    }
    *held = end - size;
    memcpy(*held, request, size);
    memset(r, 0x5a, sizeof(*r));
    iov = (struct snic_iov){*held, size};
    return snic_fuse_parse(r, conn, &iov, 1);
}
