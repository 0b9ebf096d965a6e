/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hostile images and hostile hosts against the file service. The first byte chooses:
 *
 *   even  patches (place u24, length u8, bytes) into the metadata of a small image, whose units
 *         are then sealed anew, so that what is behind the checksums is reached; the image is
 *         mounted if it can be, used, unmounted, and mounted again
 *   odd   messages (type and sizes u8, header bytes, payload bytes) of a host to the server
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "snicstore/channel.h"
#include "snicstore/files.h"
#include "files/layout.h"

#define DISK_BYTES (1u << 20)
#define MEM_BYTES (8u << 20)

static struct snic_disk *template_disk;
static struct snic_files_info template_info;
static unsigned char *memory;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int ok)
{
    if (!ok)
        abort();
}

/* ---- A world with a service ---- */

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_files *files;
};

static void rig_open(struct rig *r, const struct snic_disk *base)
{
    struct snic_world_opts w;
    memset(r, 0, sizeof(*r));
    memset(&w, 0, sizeof(w));
    w.opts_size = sizeof(w);
    w.seed = 1;
    need(snic_world_open(&r->world, &w) == 0);
    need(snic_world_loop(r->world, 0, &r->loop) == 0);
    if (base != NULL) {
        need(snic_disk_clone(base, &r->disk) == 0);
    } else {
        struct snic_disk_opts d;
        memset(&d, 0, sizeof(d));
        d.opts_size = sizeof(d);
        d.size = DISK_BYTES;
        need(snic_disk_open(&r->disk, &d) == 0);
    }
    need(snic_io_mem_open(&r->io, r->loop, r->disk) == 0);
}

static int rig_mount(struct rig *r)
{
    struct snic_files_mount_opts o;
    struct snic_files_info info;
    size_t size;
    int rc = snic_files_probe(r->io, &info);
    if (rc != 0)
        return rc;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.depth = 8;
    o.bounce_count = 2;
    o.bounce_bytes = 16384;
    size = snic_files_memsize(&info, &o);
    if (size == 0 || size > MEM_BYTES)
        return SNIC_ENOSPC;
    return snic_files_mount(&r->files, memory, size, r->io, &o);
}

static void rig_close(struct rig *r)
{
    snic_io_close(r->io);
    snic_disk_close(r->disk);
    snic_loop_close(r->loop);
    snic_world_close(r->world);
}

static int64_t run(struct rig *r, int op, uint64_t dir, const char *name, uint64_t file,
                   uint64_t at, void *p, size_t n, uint64_t *id)
{
    struct snic_files_req q;
    memset(&q, 0, sizeof(q));
    q.op = (uint8_t)op;
    q.dir = dir;
    q.name = name;
    q.name_size = name != NULL ? (uint32_t)strlen(name) : 0;
    q.file = file;
    q.offset = at;
    q.length = n;
    q.buf.base = p;
    q.buf.size = n;
    q.region = SNIC_NO_REGION;
    (void)snic_files_run(r->files, &q);
    if (id != NULL && q.result == 0)
        *id = q.id;
    return q.result;
}

/* An image with directories, files, a journal in both halves. */
static void template_make(void)
{
    static unsigned char bytes[40000];
    struct snic_files_format_opts o;
    struct rig r;
    uint64_t dir = 0;
    uint64_t file = 0;
    unsigned i;
    memory = aligned_alloc(SNIC_FILES_ALIGN, MEM_BYTES);
    need(memory != NULL);
    rig_open(&r, NULL);
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.segment_bytes = 8192;
    o.files_max = 30;
    o.dirs_max = 5;
    o.journal_bytes = 131072;
    need(snic_files_format(r.io, &o) == 0);
    need(rig_mount(&r) == 0);
    need(run(&r, SNIC_FILES_MKDIR, 0, "d", 0, 0, NULL, 0, &dir) == 0);
    for (i = 0; i < 20; i++) {
        char name[2] = {(char)('a' + i % 7), 0};
        if (i >= 7)
            (void)run(&r, SNIC_FILES_DELETE, i % 2 ? dir : 0, name, 0, 0, NULL, 0, NULL);
        if (run(&r, SNIC_FILES_CREATE, i % 2 ? dir : 0, name, 0, 0, NULL, 0, &file) == 0)
            (void)run(&r, SNIC_FILES_WRITE, 0, NULL, file, i * 1000, bytes, i * 1500, NULL);
    }
    need(snic_files_unmount(r.files) == 0);
    need(snic_files_probe(r.io, &template_info) == 0);
    snic_disk_sync(r.disk);
    need(snic_disk_clone(r.disk, &template_disk) == 0);
    rig_close(&r);
}

/* ---- Images ---- */

static void seal(unsigned char *disk, uint64_t place, uint64_t size, uint64_t image_id)
{
    uint64_t h = XXH3_64bits_withSeed(disk + place + 16, (size_t)size - 16,
                                      image_id ^ (place * 0x9e3779b97f4a7c15u));
    snic_put_le64(disk + place + 8, h);
}

/* Seal every unit that may have been patched, by what lies in it now. */
static void seal_all(unsigned char *disk)
{
    uint64_t place;
    uint64_t end = template_info.data_offset;
    seal(disk, 0, SNIC_FILES__SUPER_BYTES, 0);
    seal(disk, SNIC_FILES__COPY_OFFSET, SNIC_FILES__SUPER_BYTES, 0);
    for (place = SNIC_FILES__SLOTS_OFFSET; place < end; place += 4096) {
        uint32_t magic = snic_get_le32(disk + place);
        uint32_t bytes = snic_get_le32(disk + place + SNIC_FILES__JE_BYTES);
        if (magic == SNIC_FILES__SLOT_MAGIC)
            seal(disk, place, 4096, 0);
        else if (magic == SNIC_FILES__CHUNK_MAGIC && end - place >= SNIC_FILES__CHUNK)
            seal(disk, place, SNIC_FILES__CHUNK, 0);
        else if (magic == SNIC_FILES__JOURNAL_MAGIC && bytes >= 16 && bytes <= end - place)
            seal(disk, place, bytes, 0);
    }
}

static void finding(void *ctx, int error, const char *what, uint64_t number)
{
    (void)number;
    need(what != NULL);
    *(int *)ctx |= error;
}

/* Everything shown can be looked at. */
static void item(void *ctx, const struct snic_files_item *it)
{
    uint32_t i;
    need(it->part >= SNIC_FILES_PART_SUPER && it->part <= SNIC_FILES_PART_FREE);
    need(it->what != NULL && it->name_size <= SNIC_FILES_NAME_MAX);
    for (i = 0; i < it->name_size; i++)
        *(int *)ctx ^= it->name[i];
}

static void use(struct rig *r)
{
    static unsigned char bytes[20000];
    uint64_t id = 0;
    need(snic_files_check(r->files) == 0);
    (void)run(r, SNIC_FILES_LIST, 0, NULL, 0, 0, bytes, sizeof(bytes), NULL);
    if (run(r, SNIC_FILES_OPEN, 0, "a", 0, 0, NULL, 0, &id) == 0) {
        (void)run(r, SNIC_FILES_READ, 0, NULL, id, 0, bytes, sizeof(bytes), NULL);
        (void)run(r, SNIC_FILES_TRUNCATE, 0, NULL, id, 0, NULL, 5000, NULL);
        (void)run(r, SNIC_FILES_WRITE, 0, NULL, id, 7000, bytes, 9000, NULL);
    }
    (void)run(r, SNIC_FILES_DELETE, 0, "b", 0, 0, NULL, 0, NULL);
    if (run(r, SNIC_FILES_CREATE, 0, "new", 0, 0, NULL, 0, &id) == 0)
        (void)run(r, SNIC_FILES_WRITE, 0, NULL, id, 100, bytes, sizeof(bytes), NULL);
    need(snic_files_check(r->files) == 0);
    need(snic_files_unmount(r->files) == 0);
}

static void fuzz_image(const uint8_t *data, size_t size)
{
    struct rig r;
    unsigned char *disk;
    int wrong = 0;
    int seen = 0;
    rig_open(&r, template_disk);
    disk = snic_disk_bytes(r.disk);
    while (size >= 4) {
        uint64_t at = (data[0] | (uint64_t)data[1] << 8 | (uint64_t)data[2] << 16) %
                      template_info.data_offset;
        size_t n = data[3] % 32 + 1u;
        data += 4;
        size -= 4;
        n = n < size ? n : size;
        n = n < DISK_BYTES - at ? n : (size_t)(DISK_BYTES - at);
        memcpy(disk + at, data, n);
        data += n;
        size -= n;
    }
    seal_all(disk);
    if (rig_mount(&r) == 0) {
        use(&r);
        need(rig_mount(&r) == 0); /* what we wrote can be read */
        need(snic_files_check(r.files) == 0);
        need(snic_files_unmount(r.files) == 0);
    }
    if (snic_files_examine(r.io, memory, MEM_BYTES, finding, &wrong) != 0) {
        struct snic_files_info info;
        need(wrong != 0 || snic_files_probe(r.io, &info) != 0 ||
             snic_files_memsize(&info, NULL) > MEM_BYTES);
    }
    (void)!snic_files_walk(r.io, memory, MEM_BYTES, item, &seen);
    rig_close(&r);
}

/* ---- Hosts ---- */

struct talk {
    struct rig rig;
    struct snic_loop *host;
    struct snic_dma *d[2];
    struct snic_channel_hub *hub[2];
    struct snic_files_server *server;
    struct snic_channel *channel;
    void *server_mem;
    void *hub_mem[2];
};

static int talk_accept(void *ctx, struct snic_channel_hub *h,
                       const struct snic_channel_offer *offer)
{
    struct talk *t = ctx;
    struct snic_files_server_opts o;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.depth = 4;
    size = snic_files_server_memsize(&o);
    t->server_mem = aligned_alloc(SNIC_CACHELINE, snic_align_up(size, SNIC_CACHELINE));
    need(t->server_mem != NULL);
    return snic_files_serve(&t->server, t->server_mem, size, t->rig.files, h, offer, &o);
}

static int talk_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    (void)ctx;
    (void)c;
    need(m->header_bytes == 64);
    return 1;
}

static void talk_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
}

static int talk_hook(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                     uint64_t version)
{
    (void)ctx;
    (void)version;
    return count != 0 && ((const unsigned char *)keys)[key_size * count - 1] == 7 ? SNIC_EINVAL : 0;
}

static void talk_open(struct talk *t)
{
    struct snic_channel_hub_opts o;
    struct snic_channel_opts co;
    struct snic_channel_events e;
    struct snic_files_hooks hooks;
    struct snic_dma_events none;
    unsigned i;
    memset(t, 0, sizeof(*t));
    rig_open(&t->rig, template_disk);
    need(snic_world_loop(t->rig.world, 1, &t->host) == 0);
    need(rig_mount(&t->rig) == 0);
    memset(&hooks, 0, sizeof(hooks));
    hooks.invalidate = talk_hook;
    snic_files_set_hooks(t->rig.files, &hooks);
    memset(&none, 0, sizeof(none));
    need(snic_dma_local_open(&t->d[0], t->host, &none, &t->d[1], t->rig.loop, &none) == 0);
    for (i = 0; i < 2; i++) {
        size_t size;
        memset(&o, 0, sizeof(o));
        o.opts_size = sizeof(o);
        o.accept = i == 1 ? talk_accept : NULL;
        o.ctx = t;
        size = snic_channel_hub_memsize(&o);
        t->hub_mem[i] = aligned_alloc(SNIC_CACHELINE, snic_align_up(size, SNIC_CACHELINE));
        need(t->hub_mem[i] != NULL);
        need(snic_channel_hub_init(&t->hub[i], t->hub_mem[i], size, t->d[i], &o) == 0);
    }
    memset(&co, 0, sizeof(co));
    co.opts_size = sizeof(co);
    co.kind = SNIC_FILES_CHANNEL_KIND;
    co.up_bytes = 16384;
    co.down_bytes = 16384;
    memset(&e, 0, sizeof(e));
    e.message = talk_message;
    e.closed = talk_closed;
    need(snic_channel_open(&t->channel, t->hub[0], &co, &e) == 0);
}

static void talk_close(struct talk *t)
{
    unsigned i;
    (void)snic_world_run(t->rig.world, snic_world_now(t->rig.world) + 10000000000u, UINT64_MAX);
    need(snic_files_check(t->rig.files) == 0);
    snic_channel_close(t->channel);
    (void)snic_world_run(t->rig.world, snic_world_now(t->rig.world) + 1000000000u, UINT64_MAX);
    free(snic_files_server_close(t->server));
    for (i = 0; i < 2; i++)
        free(snic_channel_hub_fini(t->hub[i]));
    need(snic_files_unmount(t->rig.files) == 0);
    snic_loop_close(t->host);
    rig_close(&t->rig);
}

static void fuzz_host(const uint8_t *data, size_t size)
{
    static unsigned char payload[8192];
    struct snic_channel_sender s;
    struct talk t;
    unsigned steps;
    talk_open(&t);
    need(snic_channel_sender_init(&s, t.channel) == 0);
    while (size >= 4) {
        unsigned char header[256];
        struct snic_iov v;
        size_t n = data[1] < size - 4 ? data[1] : size - 4;
        uint32_t bytes = data[0] % 8 == 0 ? data[1] : 128;
        v.base = payload;
        v.size = data[0] % 3 == 0 ? (size_t)data[2] * 24 : data[2];
        steps = data[3];
        memset(header, 0, sizeof(header));
        header[0] = 1;
        memcpy(header + 1, data + 4, n < 255 ? n : 255);
        memcpy(payload, data + 4, n);
        data += 4 + n;
        size -= 4 + n;
        while (snic_channel_up_push(&s, 1, header, bytes, &v, 1) == SNIC_EAGAIN)
            if (snic_world_step(t.rig.world) == 0)
                break;
        while (steps-- > 0)
            (void)snic_world_step(t.rig.world);
        need(snic_files_check(t.rig.files) == 0);
    }
    talk_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (template_disk == NULL)
        template_make();
    if (size == 0)
        return 0;
    if (data[0] % 2 == 0)
        fuzz_image(data + 1, size - 1);
    else
        fuzz_host(data + 1, size - 1);
    return 0;
}
