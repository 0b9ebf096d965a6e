/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "store.h"

#include "../common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

int64_t kvfs_store_wall(void *ctx)
{
    struct timespec t;

    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The parts of rados:CONF:POOL[:NAMESPACE], copied. */
struct store_rados {
    char conf[512];
    char pool[128];
    char space[128];
};

static int store_part(char *out, size_t room, const char **at)
{
    size_t n = strcspn(*at, ":");

    if (n >= room)
        return -1;
    memcpy(out, *at, n);
    out[n] = 0;
    *at += n;
    if (**at == ':')
        (*at)++;
    return 0;
}

static int store_rados_parse(const char *text, struct store_rados *r)
{
    if (strchr(text, ':') == NULL || store_part(r->conf, sizeof(r->conf), &text) != 0 ||
        store_part(r->pool, sizeof(r->pool), &text) != 0 ||
        store_part(r->space, sizeof(r->space), &text) != 0 || *text != 0 || r->pool[0] == 0)
        return -1;
    return 0;
}

int kvfs_store_parse(void *target, const char *spec)
{
    struct store_rados r;

    *(const char **)target = spec;
    if (strcmp(spec, "mem") == 0)
        return 0;
    if (strncmp(spec, "lmdb:", 5) == 0)
        return spec[5] != 0 ? 0 : -1;
    if (strncmp(spec, "rados:", 6) == 0)
        return store_rados_parse(spec + 6, &r);
    return -1;
}

static void store_damage(void *ctx, const struct snic_kvfs_damage *d)
{
    struct kvfs_store *s = ctx;
    char key[256];

    s->damages++;
    if (s->keep_quiet)
        return;
    if (d->key.size == 0) {
        ex_log(EX_ERROR, "%s: corrupt object %llu at byte %llu: %s", s->spec,
               (unsigned long long)d->object, (unsigned long long)d->offset, d->what);
        return;
    }
    snic_kvfs_key_text(&d->key, key, sizeof(key));
    ex_log(EX_ERROR, "%s: corrupt record %s: %s", s->spec, key, d->what);
}

/* ---- The stores ---- */

static int store_open_mem(struct kvfs_store *s)
{
    struct snic_kvmem_opts o = {.opts_size = sizeof(o)};
    int rc = snic_kvmem_open(&s->medium, &o);

    return rc != 0 ? rc : snic_kv_mem_open(&s->kv, s->loop, s->medium);
}

static int store_open_lmdb(struct kvfs_store *s, const char *path, int *error, char *text)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path};

    o.flags = (s->create ? SNIC_KV_OPEN_CREATE : 0) | (s->read_only ? SNIC_KV_OPEN_READONLY : 0) |
              (s->sole ? SNIC_KV_OPEN_SOLE : 0) | (s->verify ? SNIC_KV_OPEN_VERIFY : 0);
    return snic_kv_lmdb_open(&s->kv, s->loop, &o, error, text, 256);
}

static int store_open_rados(struct kvfs_store *s, const char *spec, int *error, char *text)
{
    struct snic_kv_rados_opts o = {.opts_size = sizeof(o)};
    struct store_rados r;

    if (store_rados_parse(spec, &r) != 0)
        return SNIC_EINVAL;
    o.flags = s->read_only ? SNIC_KV_OPEN_READONLY : 0;
    o.conf = r.conf[0] != 0 ? r.conf : NULL;
    o.pool = r.pool;
    o.space = r.space;
    return snic_kv_rados_open(&s->kv, s->loop, &o, error, text, 256);
}

static int store_open_kv(struct kvfs_store *s)
{
    char text[256] = "";
    const char *why;
    int error = 0;
    int rc = SNIC_EINVAL;

    if (strcmp(s->spec, "mem") == 0)
        rc = store_open_mem(s);
    else if (strncmp(s->spec, "lmdb:", 5) == 0)
        rc = store_open_lmdb(s, s->spec + 5, &error, text);
    else if (strncmp(s->spec, "rados:", 6) == 0)
        rc = store_open_rados(s, s->spec + 6, &error, text);
    /* The text may end with a number of the operating system. */
    why = error > 0 && strstr(text, "error ") != NULL ? strerror(error) : "";
    if (rc == SNIC_ENOENT && error != ENOTDIR && strncmp(s->spec, "lmdb:", 5) == 0 && !s->create)
        ex_log(EX_ERROR, "%s: %s: make one with 'kvfs_tool mkfs'", s->spec,
               text[0] != 0 ? text : "no store");
    else if (rc != 0)
        ex_log(EX_ERROR, "%s: %s%s%s", s->spec,
               rc == SNIC_EVERSION
                   ? "a store of an unsupported version: use the release that wrote it"
               : text[0] != 0     ? text
               : rc == SNIC_EBUSY ? "in use by another process"
               : error != 0       ? strerror(abs(error))
                                  : snic_strerror(rc),
               why[0] != 0 ? ": " : "", why);
    return rc;
}

static void store_alone(void *ctx, int alone)
{
    struct kvfs_store *s = ctx;

    s->alone(s, alone);
}

static int store_open_fs(struct kvfs_store *s)
{
    struct snic_fs_opts o = {.opts_size = sizeof(o), .wall = kvfs_store_wall};
    size_t size;
    int rc;

    o.damage = store_damage;
    o.ctx = s;
    o.alone = s->alone != NULL ? store_alone : NULL;
    o.cache_bytes = s->cache_bytes;
    o.requests_max = s->requests;
    o.inodes_max = s->inodes;
    o.flags = s->flags | (s->read_only ? SNIC_KVFS_READ_ONLY : 0);
    while (o.session_id == 0)
        if (getrandom(&o.session_id, sizeof(o.session_id), 0) != (ssize_t)sizeof(o.session_id))
            o.session_id = (uint64_t)kvfs_store_wall(NULL);
    size = snic_fs_memsize(&o);
    s->memory = size == 0 ? NULL : malloc(size);
    rc = size == 0 ? SNIC_EINVAL : SNIC_ENOMEM;
    if (s->memory != NULL)
        rc = snic_fs_init(&s->fs, s->memory, size, s->loop, s->kv, &o);
    if (rc != 0)
        ex_log(EX_ERROR, "cannot set up the file system: %s", snic_strerror(rc));
    return rc;
}

int kvfs_store_open(struct kvfs_store *s)
{
    int rc = store_open_kv(s);

    return rc != 0 ? rc : store_open_fs(s);
}

static void store_close_fs(struct kvfs_store *s)
{
    if (s->fs != NULL)
        (void)snic_fs_fini(s->fs);
    free(s->memory);
    s->fs = NULL;
    s->memory = NULL;
}

int kvfs_store_again(struct kvfs_store *s)
{
    int rc;

    store_close_fs(s);
    rc = store_open_fs(s);
    return rc != 0 ? rc : kvfs_store_mount(s, 0);
}

int kvfs_store_mount(struct kvfs_store *s, int make)
{
    int rc = snic_fs_mount(s->fs);

    if (rc == SNIC_ENOENT && make) {
        rc = snic_fs_mkfs(s->fs, NULL);
        if (rc == 0)
            rc = snic_fs_mount(s->fs);
    }
    if (rc != 0)
        ex_log(EX_ERROR, "%s: %s", s->spec,
               s->medium != NULL   ? "exists only while it is mounted: mount it with kvfs_mount"
               : rc == SNIC_ENOENT ? "no file system: make one with 'kvfs_tool mkfs'"
               : rc == SNIC_EVERSION
                   ? "a file system of an unsupported version: use the release that wrote it"
               : rc == SNIC_EBUSY  ? "in use by another process"
               : rc == SNIC_EACCES ? "no right to fence a dead mount of this store"
                                   : snic_strerror(rc));
    return rc;
}

void kvfs_store_close(struct kvfs_store *s)
{
    store_close_fs(s);
    snic_kv_close(s->kv);
    if (s->medium != NULL)
        snic_kvmem_close(s->medium);
    s->kv = NULL;
    s->medium = NULL;
}
