/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A file system as text. */
#include "test_kvfs_snap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SNAP_NODES = 512, SNAP_PATH = 256, SNAP_LIST = 32768, SNAP_BYTES = 1 << 20 };
enum { SNAP_FMT = 0170000, SNAP_DIR = 0040000, SNAP_REG = 0100000, SNAP_LNK = 0120000 };

struct snap_node {
    uint64_t ino;
    char path[SNAP_PATH];
    char line[SNAP_PATH + 1024];
};

struct snap {
    struct kvt *t;
    struct snap_node *nodes;
    uint32_t count;
    uint64_t most;
};

static int snap_order(const void *a, const void *b)
{
    return strcmp(((const struct snap_node *)a)->path, ((const struct snap_node *)b)->path);
}

static void snap_list(struct snap *s, uint32_t dir)
{
    unsigned char *room = malloc(SNAP_LIST);
    struct snic_fsop req;
    struct snic_iov iov = {.base = room, .size = SNAP_LIST};
    uint64_t cookie = 0;
    assert_non_null(room);
    for (;;) {
        kvt_req(s->t, &req, SNIC_FSOP_READDIR, s->nodes[dir].ino, NULL);
        req.flags |= SNIC_FSOP_NOATIME;
        req.offset = cookie;
        req.iov = &iov;
        req.iov_count = 1;
        int64_t n = kvt_call(s->t, &req);
        assert_true(n >= 0);
        if (n == 0)
            break;
        for (int64_t at = 0; at < n;) {
            const struct snic_fsop_dirent *d = (const void *)(room + at);
            const char *name = (const char *)(d + 1);
            cookie = d->cookie;
            at += d->bytes;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                continue;
            assert_true(s->count < SNAP_NODES);
            s->nodes[s->count].ino = d->ino;
            char path[SNAP_PATH];
            int wrote = snprintf(path, sizeof(path), "%s/%s", s->nodes[dir].path, name);
            assert_true(wrote > 0 && wrote < SNAP_PATH);
            memcpy(s->nodes[s->count].path, path, sizeof(path));
            s->count++;
        }
    }
    free(room);
}

static uint32_t snap_content(struct kvt *t, uint64_t ino, uint64_t size)
{
    char *room = malloc(SNAP_BYTES);
    struct snic_fsop req;
    struct snic_iov iov = {.base = room, .size = SNAP_BYTES};
    assert_non_null(room);
    assert_true(size <= SNAP_BYTES);
    kvt_req(t, &req, SNIC_FSOP_READ, ino, NULL);
    req.flags |= SNIC_FSOP_NOATIME;
    req.length = SNAP_BYTES;
    req.iov = &iov;
    req.iov_count = 1;
    assert_int_equal(kvt_call(t, &req), size);
    uint32_t crc = snic_crc32c(0, room, size);
    free(room);
    return crc;
}

static uint32_t snap_xattrs(struct kvt *t, uint64_t ino)
{
    char *names = calloc(1, 65536), *value = malloc(65536);
    struct snic_fsop req;
    struct snic_iov iov = {.base = names, .size = 65536};
    uint32_t sum = 0;
    assert_true(names != NULL && value != NULL);
    kvt_req(t, &req, SNIC_FSOP_LISTXATTR, ino, NULL);
    req.iov = &iov;
    req.iov_count = 1;
    int64_t n = kvt_call(t, &req);
    assert_true(n >= 0);
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        struct snic_iov one = {.base = value, .size = 65536};
        kvt_req(t, &req, SNIC_FSOP_GETXATTR, ino, name);
        req.iov = &one;
        req.iov_count = 1;
        int64_t size = kvt_call(t, &req);
        assert_true(size >= 0);
        sum += snic_crc32c(snic_crc32c(0, name, strlen(name)), value, (size_t)size);
    }
    free(names);
    free(value);
    return sum;
}

static void snap_line(struct snap *s, struct snap_node *n)
{
    struct snic_fsop_attr a;
    char target[512] = "";
    uint32_t crc = 0;
    assert_int_equal(kvt_getattr(s->t, n->ino, &a), 0);
    uint32_t type = a.mode & SNAP_FMT;
    if (type == SNAP_REG)
        crc = snap_content(s->t, n->ino, a.size);
    if (type == SNAP_LNK) {
        int64_t size = kvt_readlink(s->t, n->ino, target, sizeof(target) - 1);
        assert_true(size > 0);
        target[size] = 0;
    }
    snprintf(n->line, sizeof(n->line), "%s %o nlink %u %u:%u size %llu crc %08x x %08x %s\n",
             n->path, a.mode, a.nlink, a.uid, a.gid,
             (unsigned long long)(type == SNAP_DIR ? a.entries : a.size), crc,
             snap_xattrs(s->t, n->ino), target);
    if (a.ino > s->most)
        s->most = a.ino;
}

uint64_t snap_tree(struct kvt *t, char *out)
{
    struct snap s = {.t = t};
    struct snic_fsop_attr a;
    s.nodes = calloc(SNAP_NODES, sizeof(*s.nodes));
    assert_non_null(s.nodes);
    s.nodes[0].ino = SNIC_FSOP_ROOT;
    s.count = 1;
    for (uint32_t i = 0; i < s.count; i++) {
        assert_int_equal(kvt_getattr(t, s.nodes[i].ino, &a), 0);
        if ((a.mode & SNAP_FMT) == SNAP_DIR)
            snap_list(&s, i);
    }
    qsort(s.nodes, s.count, sizeof(*s.nodes), snap_order);
    size_t at = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        snap_line(&s, &s.nodes[i]);
        size_t size = strlen(s.nodes[i].line);
        assert_true(at + size + 1 < SNAP_MAX);
        memcpy(out + at, s.nodes[i].line, size);
        at += size;
    }
    out[at] = 0;
    free(s.nodes);
    return s.most;
}
