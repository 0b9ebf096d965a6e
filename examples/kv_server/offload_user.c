/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The application's part of the offloading: which messages the DPU may answer,
 * how, and how its cache follows the host's log.
 */
#include "offload_user.h"

#include "../common.h"
#include "word.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

static uint32_t kv_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                             uint32_t max)
{
    static const char fresh[] = "-LOADING the host role is not connected, try again\r\n";
    static const char lost[] =
        "-LOADING the host role died: the outcome of this command is unknown\r\n";
    const char *text = msg != NULL ? fresh : lost;
    size_t n = strlen(text);

    (void)ctx;
    (void)size;
    n = n < max ? n : max;
    memcpy(out, text, n);
    return (uint32_t)n;
}

/* ---- Predicate ---- */

/* Commands without effect that the host must answer; everything else is a barrier. */
static int kv_is_read(const struct resp_arg *a)
{
    static const char *const names[] = {"get",  "mget", "exists", "ttl",    "pttl",    "ping",
                                        "echo", "scan", "dbsize", "strlen", "command", "info"};
    char name[8];

    if (a->size >= sizeof(name))
        return 0;
    for (uint32_t i = 0; i < a->size; i++)
        name[i] = (char)(a->data[i] | 32);
    name[a->size] = 0;
    for (size_t i = 0; i < SNIC_COUNTOF(names); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* The keys of a GET or MGET that could be offloaded: argv[1..count], else 0. */
static uint32_t kv_get_keys(const unsigned char *msg, uint32_t size,
                            struct resp_arg argv[SNIC_OFFLOAD_PARTS_MAX + 1], int64_t *argc)
{
    *argc = 0;
    if (size == 0 || msg[0] != '*')
        return 0;
    *argc = resp_args(msg, size, argv, SNIC_OFFLOAD_PARTS_MAX + 1, NULL);
    if (*argc < 2 || *argc > SNIC_OFFLOAD_PARTS_MAX + 1)
        return 0;
    if (argv[0].size == 3 && *argc == 2 && strncasecmp((const char *)argv[0].data, "get", 3) == 0)
        return 1;
    if (argv[0].size == 4 && strncasecmp((const char *)argv[0].data, "mget", 4) == 0)
        return (uint32_t)*argc - 1;
    return 0;
}

static uint64_t kv_wall_ms(const struct kv_offload *k, uint64_t now_ns)
{
    return k->wall_offset_ms + now_ns / 1000000u;
}

/* 1 and *item when the DPU may answer for this key: see struct kv_offload. */
static int kv_offloadable(const struct kv_offload *k, const struct snic_offload *o, uint64_t user,
                          const struct resp_arg *key, struct kv_item *item)
{
    unsigned char hash[16];

    kv_key_hash(hash, k->hash_seed, (uint32_t)(user & 0xffff), key->data, key->size);
    return snic_offload_get(o, hash, item, NULL) == 0 &&
           (k->all || item->file < k->memory_file ||
            (item->file == k->memory_file && item->offset < k->memory_offset)) &&
           (item->expire_ms == 0 || item->expire_ms > kv_wall_ms(k, snic_loop_now(k->loop)));
}

static void kv_predicate(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                         const unsigned char *msg, uint32_t size, struct snic_director_verdict *out)
{
    struct kv_offload *k = ctx;
    struct resp_arg argv[SNIC_OFFLOAD_PARTS_MAX + 1];
    struct kv_item item;
    int64_t argc;
    uint32_t keys = kv_get_keys(msg, size, argv, &argc);

    if (argc == 0) {
        /* Inline commands are for people: the host takes them apart. */
        out->route = size > 0 && msg[0] == '*' ? SNIC_DIRECTOR_ANSWER : SNIC_DIRECTOR_BARRIER;
        return; /* an empty array gets no reply, as in Redis */
    }
    if (argc == 1 && argv[0].size == 5 && strncasecmp((const char *)argv[0].data, "multi", 5) == 0)
        *conn_user |= KV_WORD_MULTI; /* the host's reply sets the same, but later */
    if (keys == 0) {
        out->route = argc > 0 && kv_is_read(&argv[0]) ? SNIC_DIRECTOR_HOST : SNIC_DIRECTOR_BARRIER;
        return;
    }
    out->route = o != NULL && (*conn_user & KV_WORD_HOST) == 0 &&
                         (!k->password || (*conn_user & KV_WORD_AUTH) != 0)
                     ? SNIC_DIRECTOR_DPU
                     : SNIC_DIRECTOR_HOST;
    for (uint32_t i = 1; i <= keys && out->route == SNIC_DIRECTOR_DPU; i++)
        if (!kv_offloadable(k, o, *conn_user, &argv[i], &item))
            out->route = SNIC_DIRECTOR_HOST;
}

/* ---- Offload function and reply ---- */

static int kv_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                   struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    struct kv_offload *k = ctx;
    struct resp_arg argv[SNIC_OFFLOAD_PARTS_MAX + 1];
    struct kv_item item;
    int64_t argc;
    uint32_t keys = kv_get_keys(msg->data, msg->size, argv, &argc);

    (void)reply;
    if (out->part >= keys || !kv_offloadable(k, o, msg->user, &argv[out->part + 1], &item))
        return SNIC_ENOENT;
    out->file = item.file;
    out->offset = item.offset;
    out->size = item.bytes;
    out->tenant = kv_tenant_of(k->tenants, msg->user);
    return out->part + 1 < keys ? 2 : 0;
}

static enum snic_offload_verdict kv_reply(void *ctx, const struct snic_offload_msg *msg,
                                          const struct snic_offload_read *op,
                                          const unsigned char *data, int64_t result,
                                          uint64_t now_ns, struct snic_offload_reply *out)
{
    struct kv_offload *k = ctx;
    struct resp_arg argv[SNIC_OFFLOAD_PARTS_MAX + 1];
    const struct resp_arg *key = &argv[op->part + 1];
    struct kv_record r;
    const unsigned char *record_key;
    const unsigned char *value;
    int64_t argc;
    uint32_t keys = kv_get_keys(msg->data, msg->size, argv, &argc);

    if (op->part >= keys || result != op->size ||
        kv_record_decode(&r, data, (size_t)result, &record_key, &value) != result ||
        r.type != KV_RECORD_SET || r.file != op->file || r.database != (msg->user & 0xffff) ||
        r.key_size != key->size || memcmp(record_key, key->data, key->size) != 0)
        return SNIC_OFFLOAD_HOST;
    if (r.expire_ms != 0 && r.expire_ms <= kv_wall_ms(k, now_ns))
        return SNIC_OFFLOAD_HOST;
    if (op->part == 0 && argv[0].size == 4) /* MGET */
        out->header_size = (uint32_t)resp_put_number((char *)out->header, '*', keys);
    out->header_size +=
        (uint32_t)resp_put_number((char *)out->header + out->header_size, '$', r.value_size);
    out->skip = KV_RECORD_HEADER + r.key_size;
    out->take = r.value_size;
    memcpy(out->trailer, "\r\n", 2);
    out->trailer_size = 2;
    return SNIC_OFFLOAD_SEND;
}

/* ---- Cache-on-write, invalidate-on-read ---- */

static void kv_cache(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op)
{
    struct kv_offload *k = ctx;
    const unsigned char *data = op->payload;
    struct kv_write_tag tag;
    uint64_t at;

    kv_write_tag_get(&tag, op->tag);
    if (tag.end == 0)
        return;
    if (tag.head_back == KV_HEAD_NONE) {
        kv_offload_forget_memory(k);
    } else {
        k->memory_file = op->file - tag.head_back;
        k->memory_offset = tag.head_offset;
    }
    at = tag.begin;
    if (data == NULL || tag.end > op->length)
        return; /* written in parts: the host sends its entries */
    while (at < tag.end) {
        struct kv_record r;
        const unsigned char *key;
        const unsigned char *value;
        int64_t n = kv_record_decode(&r, data + at, tag.end - at, &key, &value);
        struct kv_item item = {op->file, (uint32_t)(op->offset + at), (uint32_t)n, r.expire_ms};
        unsigned char hash[16];

        if (n <= 0 || r.type == KV_RECORD_PAD)
            return; /* zeros or a pad up to the boundary: the last thing in a write */
        if (r.type == KV_RECORD_SET || r.type == KV_RECORD_DEL)
            kv_key_hash(hash, k->hash_seed, r.database, key, r.key_size);
        if (r.type == KV_RECORD_SET && r.database != KV_MARK_DATABASE)
            (void)snic_offload_put(o, hash, &item, r.version); /* refused: just not offloaded */
        else if (r.type == KV_RECORD_DEL)
            snic_offload_forget(o, hash, r.version);
        at += (uint64_t)n;
    }
}

static void kv_invalidate(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op)
{
    static const unsigned char none[SNIC_FILES_TAG_BYTES];
    uint64_t version;

    (void)ctx;
    /* Only reads that are going to modify bear a key's hash. */
    if (memcmp(op->tag, none, sizeof(none)) != 0 &&
        snic_offload_get(o, op->tag, NULL, &version) == 0)
        snic_offload_invalidate(o, op->tag, version + 1);
}

void kv_offload_forget_memory(struct kv_offload *k)
{
    k->memory_file = UINT64_MAX;
    k->memory_offset = 0;
}

struct snic_offload_user kv_offload_user(struct kv_offload *k)
{
    struct snic_offload_user u = {kv_func, kv_reply, kv_cache, kv_invalidate, k};

    return u;
}

struct snic_director_user kv_director_user(struct kv_offload *k)
{
    struct snic_director_user u = {
        .frame = resp_framing_frame,
        .predicate = kv_predicate,
        .protocol_error = resp_framing_error,
        .host_gone = kv_host_gone,
        .ctx = k,
        .full = resp_framing_full,
    };

    return u;
}
