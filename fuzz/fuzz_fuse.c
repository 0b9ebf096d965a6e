/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The codec of FUSE. The first bytes choose the connection and how the request is split; what is
 * accepted in pieces is accepted whole, and the same. Then the bytes are calls of a table.
 */
#include "snicstore/fuse.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static int result_known(int rc)
{
    return rc == 0 || rc == SNIC_ENOTCONN || rc == SNIC_EVERSION || rc == SNIC_ENOTSUP ||
           rc == SNIC_EPROTO || rc == SNIC_EINVAL || rc == SNIC_ENAMETOOLONG || rc == SNIC_EMSGSIZE;
}

static void look(const struct snic_fuse_request *r, const unsigned char *in, size_t size)
{
    const char *end = (const char *)in + size;
    struct snic_fuse_answer a;
    uint32_t at = 0, type, bytes;
    const void *ext;

    must(r->head.len == size);
    must(r->name == NULL || (r->name + r->name_size < end && r->name[r->name_size] == 0));
    must(r->name2 == NULL || (r->name2 + r->name2_size < end && r->name2[r->name2_size] == 0));
    must(r->data == NULL || (const char *)r->data + r->data_size <= end);
    for (uint32_t i = 0; r->head.opcode == SNIC_FUSE_BATCH_FORGET && i < r->in.batch_forget.count;
         i++) {
        struct snic_fuse_forget_one one;

        snic_fuse_forget_at(r, i, &one);
    }
    while (snic_fuse_ext_next(r, &at, &type, &ext, &bytes))
        must((const char *)ext + bytes <= end);
    snic_fuse_answer_begin(&a, r);
    must(a.head.len <= sizeof(a));
}

static void parse(const uint8_t *data, size_t size)
{
    static const uint64_t flags[] = {0, SNIC_FUSE_SETXATTR_EXT, SNIC_FUSE_CREATE_SUPP_GROUP,
                                     SNIC_FUSE_SETXATTR_EXT | SNIC_FUSE_SECURITY_CTX |
                                         SNIC_FUSE_CREATE_SUPP_GROUP};
    struct snic_fuse_conn conn;
    struct snic_fuse_request whole, split;
    unsigned char *in = malloc(size + 1); /* of its exact size: reads beyond are found */
    size_t cut = data[1] < size - 2 ? data[1] : size - 2;
    struct snic_iov one = {in, size - 2};
    struct snic_iov two[2];
    int rc, torn;

    must(in != NULL);
    in = realloc(in, size - 2 > 0 ? size - 2 : 1);
    must(in != NULL);
    memcpy(in, data + 2, size - 2);
    if ((data[0] & 8) == 0 && size - 2 >= 4) { /* a right length is rare */
        uint32_t len = (uint32_t)(size - 2);

        memcpy(in, &len, sizeof(len));
    }
    one.base = in;
    two[0] = (struct snic_iov){in, cut};
    two[1] = (struct snic_iov){in + cut, size - 2 - cut};
    memset(&conn, 0, sizeof(conn));
    conn.minor = (data[0] & 4) != 0 ? 0 : SNIC_FUSE_MINOR;
    conn.flags = flags[data[0] & 3];
    conn.max_write = 128;
    conn.max_read = 4096;
    rc = snic_fuse_parse(&whole, &conn, &one, 1);
    torn = snic_fuse_parse(&split, &conn, two, 2);
    must(result_known(rc) && result_known(torn));
    must(rc != 0 || torn == 0 || torn == SNIC_EPROTO);
    must(torn != 0 || rc == 0);
    if (rc == 0)
        look(&whole, in, size - 2);
    if (rc == 0 && torn == 0)
        must(memcmp(&whole, &split, sizeof(whole)) == 0);
    if (rc == 0 && whole.head.opcode == SNIC_FUSE_INIT) {
        struct snic_fuse_offer o = {.offer_size = sizeof(o), .max_write = 1U << 20};

        rc = snic_fuse_negotiate(&conn, &o, &whole);
        must(rc == 0 || rc == SNIC_EAGAIN || rc == SNIC_EVERSION);
        must(rc != 0 || (conn.flags & ~conn.offered) == 0);
    }
    must(snic_fuse_refusal(rc, whole.head.opcode) > -512);
    free(in);
}

static void table(const uint8_t *data, size_t size)
{
    struct snic_fuse_table_opts o = {sizeof(o), 1 + (data[0] & 7u), 1 + (data[0] >> 6), 0, data[1]};
    size_t bytes = snic_fuse_table_memsize(&o);
    void *mem = aligned_alloc(SNIC_FUSE_TABLE_ALIGN, bytes);
    struct snic_fuse_table *t = NULL;
    uint32_t place;

    must(mem != NULL && snic_fuse_table_init(&t, mem, bytes, &o) == 0);
    for (size_t i = 2; i < size; i++) {
        uint64_t unique = data[i] >> 3;

        switch (data[i] & 7) {
        case 0:
        case 1:
            (void)!snic_fuse_table_add(t, unique, &place);
            break;
        case 2:
            if (snic_fuse_table_find(t, unique, &place) == 0)
                snic_fuse_table_remove(t, place);
            break;
        case 3:
            (void)!snic_fuse_table_interrupt(t, unique | 256, unique, &place);
            break;
        default:
            (void)snic_fuse_table_stale(t);
            break;
        }
        must(snic_fuse_table_check(t) == 0);
    }
    free(snic_fuse_table_fini(t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if ((data[0] & 32) != 0 && size < 4096)
        table(data, size);
    else
        parse(data, size);
    return 0;
}
