/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB: the door's conformance suite. */
#include "conformance_kv.h"

#include <stdio.h>
#include <stdlib.h>

struct kv_lmdb {
    char path[512];
    uint32_t forced;
};

static int kv_lmdb_handle(struct conformance_kv *c, struct snic_kv **out)
{
    const struct kv_lmdb *own = c->own;
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = own->path, .flags = SNIC_KV_OPEN_CREATE | own->forced};
    char text[256];
    int error;
    int r = snic_kv_lmdb_open(out, c->loop, &o, &error, text, sizeof(text));
    if (r == SNIC_ENOTSUP)
        support_skip(text);
    return r;
}

static void kv_lmdb_open(struct conformance_kv *c, const struct conformance_kv_backend *b)
{
    static unsigned number;
    (void)b;
    struct kv_lmdb *own = calloc(1, sizeof(*own));
    assert_non_null(own);
    char name[32];
    (void)snprintf(name, sizeof(name), "store%u", number++);
    support_tmpname(own->path, sizeof(own->path), name);
    c->own = own;
    if (snic_loop_uring_open(&c->loop, NULL) != 0)
        support_skip("no io_uring");
    assert_int_equal(kv_lmdb_handle(c, &c->kv), 0);
}

/**
 * Every page of the file that has the record, old ones too, gets another first byte of its value.
 * LMDB keeps a value behind its key.
 */
static void kv_lmdb_damage(struct conformance_kv *c, const struct snic_kvop_key *key)
{
    const struct kv_lmdb *own = c->own;
    char path[600];
    unsigned char head[9 + SNIC_KVOP_KEY_MAX] = {'R'};
    size_t size = 9U + key->size;
    snic_put_be64(head + 1, key->group);
    memcpy(head + 9, key->bytes, key->size);
    snic_kv_close(c->kv);
    (void)snprintf(path, sizeof(path), "%s/data.mdb", own->path);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    static unsigned char file[1 << 20];
    size_t length = fread(file, 1, sizeof(file), f);
    assert_true(length > 0 && length < sizeof(file));
    uint32_t found = 0;
    for (size_t i = 0; i + size < length; i++) {
        if (memcmp(file + i, head, size) == 0) {
            file[i + size] ^= 1;
            found++;
        }
    }
    assert_true(found > 0);
    assert_int_equal(fseek(f, 0, SEEK_SET), 0);
    assert_int_equal(fwrite(file, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(kv_lmdb_handle(c, &c->kv), 0);
}

static void kv_lmdb_close(struct conformance_kv *c)
{
    snic_loop_close(c->loop);
    free(c->own);
}

int main(int argc, char **argv)
{
    static const struct conformance_kv_backend backends[] = {{.name = "lmdb",
                                                              .open = kv_lmdb_open,
                                                              .again = kv_lmdb_handle,
                                                              .damage = kv_lmdb_damage,
                                                              .single = 1,
                                                              .close = kv_lmdb_close,
                                                              .slow = 1}};
    static struct CMUnitTest tests[256];
    size_t n = conformance_kv_tests(tests, 256, backends, 1);
    return support_main(argc, argv, tests, n);
}
