/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * `ctl backup` and `ctl restore`. The file, whose numbers are little-endian, has in this order:
 *
 *  - head: 8 bytes "snicddpb", u32 version (1), u32 0
 *  - blocks: u32 size (1..2^30), u32 CRC-32C of the size's bytes and the records', then records
 *  - record: u32 key size, u32 value size, u64 TTL in ms (0: none), key, value
 *  - end: u32 0, u32 CRC-32C of that and of what follows, u64 number of records; nothing follows
 *
 * Each key is as it was at one moment of the backup; there is no moment at which all were so. The
 * file is written beside its name and renamed when it is durable.
 *
 * What has begun continues when the node has no lease for a moment: a page is read again, a record
 * written again (which does nothing if it was written, but counts as one that existed with
 * --if-absent), until nothing has succeeded for ten seconds.
 */
#include "cluster.h"
#include "ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BACKUP_MAGIC "snicddpb"
#define BACKUP_VERSION 1u
#define BACKUP_BLOCK ((size_t)1 << 20)
#define BACKUP_BLOCK_MAX ((uint32_t)1 << 30)
#define BACKUP_PATIENCE_S 10 /* without success */
#define BACKUP_PAUSE_NS 5000000
#define RESTORE_AHEAD 64u /* commands without a reply */

/* After a failure, which is the first if *since is 0. @return 0: none has succeeded for too long */
static int backup_pause(time_t *since)
{
    const struct timespec pause = {.tv_nsec = BACKUP_PAUSE_NS};
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (*since == 0)
        *since = now.tv_sec;
    if (now.tv_sec - *since > BACKUP_PATIENCE_S)
        return 0;
    (void)nanosleep(&pause, NULL);
    return 1;
}

struct backup {
    FILE *file;
    const char *path;
    unsigned char *block;
    size_t size;
    size_t room;
    uint64_t records;
    uint64_t bytes;
};

/* ---- Writing ---- */

static void backup_write(struct backup *b, const void *data, size_t size)
{
    if (fwrite(data, 1, size, b->file) != size)
        ex_die("cannot write '%s' (--file): %s", b->path, strerror(errno));
    b->bytes += size;
}

static void backup_flush(struct backup *b)
{
    unsigned char head[8];

    if (b->size == 0)
        return;
    snic_put_le32(head, (uint32_t)b->size);
    snic_put_le32(head + 4, snic_crc32c(snic_crc32c(0, head, 4), b->block, b->size));
    backup_write(b, head, sizeof(head));
    backup_write(b, b->block, b->size);
    b->size = 0;
}

static void backup_record(struct backup *b, const struct ctl_reply *key,
                          const struct ctl_reply *value, uint64_t ttl_ms)
{
    size_t size = 16 + key->size + value->size;
    unsigned char *p;

    if (b->size > 0 && b->size + size > BACKUP_BLOCK)
        backup_flush(b);
    if (b->size + size > b->room) {
        b->room = b->size + size;
        b->block = realloc(b->block, b->room);
        if (b->block == NULL)
            ex_die("out of memory for a block of '%s'", b->path);
    }
    p = b->block + b->size;
    snic_put_le32(p, (uint32_t)key->size);
    snic_put_le32(p + 4, (uint32_t)value->size);
    snic_put_le64(p + 8, ttl_ms);
    memcpy(p + 16, key->text, key->size);
    memcpy(p + 16 + key->size, value->text, value->size);
    b->size += size;
    b->records++;
}

/* A command's reply, which is no error: with @p patient what fails for a moment is tried again. */
static void backup_command(struct ctl_link *l, struct ctl_reply *r, const struct snic_iov *argv,
                           size_t count, int patient)
{
    time_t since = 0;

    for (;;) {
        ctl_link_send(l, argv, count);
        ctl_link_take(l, r);
        if (r->type != '-')
            return;
        if (!patient || !ctl_reply_passing(r) || !backup_pause(&since))
            ex_die("%s: %s", l->address, r->text);
        ctl_reply_free(r);
    }
}

/* A key that was being written: read it by itself. */
static void backup_single(struct backup *b, struct ctl_link *l, const struct ctl_reply *key)
{
    struct snic_iov argv[3] = {
        {(void *)(uintptr_t) "STORE", 5}, {(void *)(uintptr_t) "GET", 3}, {key->text, key->size}};
    struct ctl_reply r;

    backup_command(l, &r, argv, 3, 1);
    if (r.count == 8 && r.items[0].number == 0 && r.items[7].type == '$')
        backup_record(b, key, &r.items[7], (uint64_t)r.items[4].number);
    ctl_reply_free(&r);
}

/* One page. @return 1: it was the last */
static int backup_page(struct backup *b, struct ctl_link *l, char **cursor, size_t *size)
{
    struct snic_iov argv[5] = {{(void *)(uintptr_t) "SCANKEYS", 8},
                               {*cursor, *size},
                               {(void *)(uintptr_t) "COUNT", 5},
                               {(void *)(uintptr_t) "500", 3},
                               {(void *)(uintptr_t) "VALUES", 6}};
    const struct ctl_reply *keys;
    struct ctl_reply r;

    backup_command(l, &r, argv, 5, *size > 0); /* the first one fails at once */
    if (r.type != '*' || r.count != 2)
        ex_die("%s: a reply is malformed", l->address);
    keys = &r.items[1];
    for (size_t i = 0; i + 2 < keys->count; i += 3) {
        int64_t ttl = keys->items[i + 2].number;

        if (keys->items[i + 1].type == '$')
            backup_record(b, &keys->items[i], &keys->items[i + 1], ttl > 0 ? (uint64_t)ttl : 0);
        else
            backup_single(b, l, &keys->items[i]);
    }
    free(*cursor);
    *cursor = r.items[0].text;
    *size = r.items[0].size;
    r.items[0].text = NULL;
    ctl_reply_free(&r);
    return *size == 0;
}

static const char *backup_made; /* the file beside its name; NULL: none */

/* When ctl ends, whatever the reason. */
static void backup_discard(void)
{
    if (backup_made != NULL)
        (void)unlink(backup_made);
}

void ctl_backup(struct ctl_link *l, const struct ctl *c)
{
    unsigned char head[16] = BACKUP_MAGIC;
    static char temporary[4096];
    struct backup b = {.path = c->file};
    struct stat s;
    char *cursor = NULL;
    size_t size = 0;
    int fd;

    if (stat(c->file, &s) == 0 && !S_ISREG(s.st_mode))
        ex_die("'%s' (--file) is not a regular file", c->file); /* it would be renamed over */
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", c->file) >= sizeof(temporary))
        ex_die("--file: the path is too long");
    (void)unlink(temporary); /* of a backup that broke off: it may be readable by others */
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    b.file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (b.file == NULL)
        ex_die("cannot make '%s' (--file): %s", temporary, strerror(errno));
    backup_made = temporary;
    (void)atexit(backup_discard);
    snic_put_le32(head + 8, BACKUP_VERSION);
    backup_write(&b, head, sizeof(head));
    while (!backup_page(&b, l, &cursor, &size))
        continue;
    backup_flush(&b);
    memset(head, 0, sizeof(head));
    snic_put_le64(head + 8, b.records);
    snic_put_le32(head + 4, snic_crc32c(snic_crc32c(0, head, 4), head + 8, 8));
    backup_write(&b, head, sizeof(head));
    if (fflush(b.file) != 0 || fsync(fileno(b.file)) != 0 || fclose(b.file) != 0 ||
        rename(temporary, c->file) != 0 || ex_folder_sync(c->file) != 0)
        ex_die("cannot write '%s' (--file): %s", c->file, strerror(errno));
    backup_made = NULL;
    printf("%" PRIu64 " key%s, %" PRIu64 " bytes written to %s\n", b.records, ctl_s(b.records),
           b.bytes, c->file);
    free(b.block);
    free(cursor);
}

/* ---- Reading ---- */

static void restore_damaged(const struct backup *b, const char *what)
{
    ex_die("--file: '%s' %s; nothing more is restored", b->path, what);
}

static void restore_read(struct backup *b, void *data, size_t size)
{
    if (fread(data, 1, size, b->file) != size)
        restore_damaged(b, "ends too early");
}

/* The next block. @return 0: there is none, and the file is whole */
static int restore_block(struct backup *b)
{
    unsigned char head[8];
    unsigned char count[8];

    restore_read(b, head, sizeof(head));
    b->size = snic_get_le32(head);
    if (b->size == 0) {
        restore_read(b, count, sizeof(count));
        if (snic_crc32c(snic_crc32c(0, head, 4), count, 8) != snic_get_le32(head + 4) ||
            snic_get_le64(count) != b->records)
            restore_damaged(b, "is damaged at its end");
        if (fgetc(b->file) != EOF)
            restore_damaged(b, "has more bytes behind its end");
        return 0;
    }
    if (b->size > BACKUP_BLOCK_MAX)
        restore_damaged(b, "is damaged");
    if (b->size > b->room) {
        b->room = b->size;
        b->block = realloc(b->block, b->room);
        if (b->block == NULL)
            ex_die("out of memory for a block of '%s'", b->path);
    }
    restore_read(b, b->block, b->size);
    if (snic_crc32c(snic_crc32c(0, head, 4), b->block, b->size) != snic_get_le32(head + 4))
        restore_damaged(b, "is damaged: the checksum of a block does not match");
    return 1;
}

static void restore_open(struct backup *b, const char *path)
{
    unsigned char head[16];

    b->path = path;
    b->records = 0;
    b->file = fopen(path, "rb");
    if (b->file == NULL)
        ex_die("cannot read '%s' (--file): %s", path, strerror(errno));
    if (fread(head, 1, sizeof(head), b->file) != sizeof(head) || memcmp(head, BACKUP_MAGIC, 8) != 0)
        restore_damaged(b, "is not a backup of ddp_server");
    if (snic_get_le32(head + 8) != BACKUP_VERSION)
        restore_damaged(b, "has another version's format");
}

/* Each record of the block. @return how many */
static uint64_t restore_records(struct backup *b,
                                void (*each)(void *ctx, const unsigned char *p, uint32_t key,
                                             uint32_t value, uint64_t ttl_ms),
                                void *ctx)
{
    uint64_t n = 0;

    for (size_t at = 0; at < b->size; n++) {
        const unsigned char *p = b->block + at;
        uint32_t key;
        uint32_t value;

        if (b->size - at < 16)
            restore_damaged(b, "is damaged: a record is cut off");
        key = snic_get_le32(p);
        value = snic_get_le32(p + 4);
        if (key > DS_KEY_MAX || value > b->size - at - 16 || key > b->size - at - 16 - value)
            restore_damaged(b, "is damaged: a record is cut off");
        if (each != NULL)
            each(ctx, p + 16, key, value, snic_get_le64(p + 8));
        at += 16 + key + (size_t)value;
    }
    return n;
}

/* A record of the block, of which a SET is under way. */
struct restore_record {
    const unsigned char *p;
    uint32_t key;
    uint32_t value;
    uint64_t ttl_ms;
};

struct restore {
    struct ctl_link *link;
    int if_absent;
    struct restore_record ahead[RESTORE_AHEAD]; /* a ring, in the order of the replies */
    uint32_t first;
    uint32_t count;
    time_t failing; /* since then each reply is an error; 0: the last one is none */
    uint64_t written;
    uint64_t present;
};

static void restore_send(struct restore *o, const struct restore_record *record)
{
    const unsigned char *p = record->p;
    uint32_t key = record->key;
    uint32_t value = record->value;
    uint64_t ttl_ms = record->ttl_ms;
    char digits[24];
    struct snic_iov argv[6] = {{(void *)(uintptr_t) "SET", 3},
                               {(void *)(uintptr_t)p, key},
                               {(void *)(uintptr_t)(p + key), value}};
    size_t argc = 3;

    if (ttl_ms > 0) {
        argv[argc++] = (struct snic_iov){(void *)(uintptr_t) "PX", 2};
        argv[argc].base = digits;
        argv[argc++].size = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, ttl_ms);
    }
    if (o->if_absent)
        argv[argc++] = (struct snic_iov){(void *)(uintptr_t) "NX", 2};
    ctl_link_send(o->link, argv, argc);
    o->ahead[(o->first + o->count++) % RESTORE_AHEAD] = *record;
}

/* The outcome of a write is unknown when its node lost the lease meanwhile: it is written again. */
static int restore_repeat(struct restore *o, const struct ctl_reply *r)
{
    return (o->written > 0 || o->present > 0) &&
           (ctl_reply_passing(r) || strncmp(r->text, "UNKNOWN", 7) == 0) &&
           backup_pause(&o->failing);
}

/* The oldest command's reply; one that failed for a moment is sent again, behind the others. */
static void restore_reply(struct restore *o)
{
    struct restore_record record = o->ahead[o->first];
    struct ctl_reply r;

    ctl_link_take(o->link, &r);
    if (r.type == '-' && !restore_repeat(o, &r))
        ex_die("%s: %s; %" PRIu64 " key%s restored before", o->link->address, r.text, o->written,
               o->written == 1 ? " was" : "s were");
    o->first = (o->first + 1) % RESTORE_AHEAD;
    o->count--;
    o->written += r.type == '+';
    o->present += r.type == '_';
    if (r.type == '-')
        restore_send(o, &record);
    else
        o->failing = 0;
    ctl_reply_free(&r);
}

static void restore_set(void *ctx, const unsigned char *p, uint32_t key, uint32_t value,
                        uint64_t ttl_ms)
{
    struct restore *o = ctx;
    const struct restore_record record = {p, key, value, ttl_ms};

    while (o->count == RESTORE_AHEAD)
        restore_reply(o);
    restore_send(o, &record);
}

/* The records are read from the block: before the next one is read, all replies are here. */
static void restore_drain(struct restore *o)
{
    while (o->count > 0)
        restore_reply(o);
}

/* How many keys there are. */
static uint64_t restore_count(struct ctl_link *l)
{
    struct ctl_reply r = {0};
    uint64_t keys = 0;

    do {
        char *cursor = r.count == 2 ? r.items[0].text : NULL;
        struct snic_iov argv[4] = {{(void *)(uintptr_t) "SCANKEYS", 8},
                                   {cursor, cursor != NULL ? r.items[0].size : 0},
                                   {(void *)(uintptr_t) "COUNT", 5},
                                   {(void *)(uintptr_t) "1000", 4}};

        struct ctl_reply page;

        backup_command(l, &page, argv, 4, 1);
        ctl_reply_free(&r); /* the cursor's memory */
        r = page;
        if (r.type != '*' || r.count != 2)
            ex_die("%s: a reply is malformed", l->address);
        keys += r.items[1].count;
    } while (r.items[0].size > 0);
    ctl_reply_free(&r);
    return keys;
}

void ctl_restore(struct ctl_link *l, const struct ctl *c)
{
    struct backup b = {0};
    struct restore o = {.link = l, .if_absent = c->if_absent};
    uint64_t keys;

    restore_open(&b, c->file); /* all of it is checked before the first key is written */
    while (restore_block(&b))
        b.records += restore_records(&b, NULL, NULL);
    (void)fclose(b.file);
    restore_open(&b, c->file);
    while (restore_block(&b)) {
        b.records += restore_records(&b, restore_set, &o);
        restore_drain(&o);
    }
    (void)fclose(b.file);
    free(b.block);
    printf("%" PRIu64 " key%s restored from %s", o.written, ctl_s(o.written), c->file);
    if (c->if_absent)
        printf(", %" PRIu64 " existed", o.present);
    keys = restore_count(l);
    if (keys > b.records)
        printf(", %" PRIu64 " that the file does not have %s kept", keys - b.records,
               keys - b.records == 1 ? "is" : "are");
    printf("\n");
}
