/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_liar SOCKET ring|nvmefs
 *
 * The file system's end of a link of kvfs_mount, without a file system, and not to be trusted: what
 * is requested of a name in the root is answered with that name's lie. Every name is there. It ends
 * when it is killed.
 */
#include "snicstore.h"

#include "../../../examples/kvfs_mount/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIAR_INODES = 100, LIAR_PAGE = 4096, LIAR_DIRENT = sizeof(struct snic_fsop_dirent) };

enum lie {
    LIE_GOOD,  /* a folder with three names */
    LIE_LONG,  /* a name longer than memory */
    LIE_OVER,  /* a name that ends behind the answer */
    LIE_ZERO,  /* an entry that the next one does not follow */
    LIE_ODD,   /* the next one is not where one can be */
    LIE_PAST,  /* the next one is behind the answer */
    LIE_HEAD,  /* less than an entry's head */
    LIE_NUL,   /* a name with a 0 in it */
    LIE_WRITE, /* a file: more was written than was sent */
    LIE_OPEN,  /* a count where there is none */
    LIE_CODE,  /* an error that the kernel does not know */
    LIE_LOCK,  /* a lock that ends before it begins */
    LIES
};

static const char *const lies[LIES] = {"good", "long", "over",  "zero", "odd",  "past",
                                       "head", "nul",  "write", "open", "code", "lock"};

static int liar_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m);

static void liar_closed(void *ctx, struct snic_channel *ch, int reason)
{
    (void)ctx;
    (void)ch;
    (void)reason;
}

/* A host whose patience was too short comes again. */
static int liar_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct snic_channel_events e = {.message = liar_message, .closed = liar_closed};
    struct snic_channel *channel;
    (void)ctx;
    return snic_channel_accept(&channel, h, o, NULL, &e);
}

static void liar_attached(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .accept = liar_accept};
    struct snic_channel_hub *hub;
    void *memory;
    (void)ctx;
    (void)pid;
    size_t size = snic_channel_hub_memsize(&o);
    if (posix_memalign(&memory, SNIC_CACHELINE, size) != 0 ||
        snic_channel_hub_init(&hub, memory, size, dma, &o) != 0)
        exit(2);
}

/* ---- Folders ---- */

/* An entry at @p at of a page. @return where the next one is */
static size_t liar_entry(unsigned char *page, size_t at, const char *name, uint64_t cookie)
{
    struct snic_fsop_dirent d = {.ino = LIAR_INODES + LIES, .cookie = cookie, .type = 0100000};
    d.name_size = (uint32_t)strlen(name);
    d.bytes = (uint32_t)snic_align_up(LIAR_DIRENT + d.name_size + 1, 8);
    memcpy(page + at, &d, sizeof(d));
    memcpy(page + at + sizeof(d), name, d.name_size);
    return at + d.bytes;
}

/* @return bytes of the answer */
static uint32_t liar_folder(enum lie lie, uint64_t cookie, unsigned char *page)
{
    struct snic_fsop_dirent *d = (void *)page;
    size_t n = 0;
    if (cookie != 0)
        return 0;
    n = liar_entry(page, n, "a", 3);
    if (lie != LIE_GOOD) /* it is the second one */
        d = (void *)(page + n);
    n = liar_entry(page, n, "bb", 4);
    n = liar_entry(page, n, "ccc", 5);
    switch ((uint32_t)lie) {
    case LIE_LONG:
        d->name_size = 0x7fffff00;
        break;
    case LIE_OVER:
        d->name_size = 1000;
        d->bytes = (uint32_t)snic_align_up(LIAR_DIRENT + 1000, 8);
        break;
    case LIE_ZERO:
        d->bytes = 0;
        break;
    case LIE_ODD:
        d->bytes += 4;
        break;
    case LIE_PAST:
        d->bytes = LIAR_PAGE * 16;
        break;
    case LIE_HEAD:
        n -= 40;
        break;
    case LIE_NUL:
        page[n - 8 + 1] = 0; /* of the last one */
        break;
    default:
        break;
    }
    return (uint32_t)n;
}

/* ---- Answers ---- */

static enum lie liar_named(const struct snic_fsop *op)
{
    for (int i = 0; i < LIES; i++)
        if (op->name_size == strlen(lies[i]) && memcmp(op->name, lies[i], op->name_size) == 0)
            return (enum lie)i;
    return LIE_GOOD;
}

static void liar_attr(struct km_down *d, uint64_t ino)
{
    int file = ino >= LIAR_INODES + LIE_WRITE && ino < LIAR_INODES + LIES;
    memset(&d->u, 0, sizeof(d->u));
    d->u.attr.ino = ino;
    d->u.attr.mode = file ? 0100644 : 040755;
    d->u.attr.nlink = 1;
}

/* @return bytes of the payload */
static uint32_t liar_answer(const struct snic_fsop *op, uint32_t data_size, struct km_down *d,
                            unsigned char *page)
{
    enum lie lie = op->ino >= LIAR_INODES ? (enum lie)(op->ino - LIAR_INODES) : LIE_GOOD;
    uint32_t n = 0;
    liar_attr(d, op->ino);
    switch (op->kind) {
    case SNIC_FSOP_LOOKUP:
        lie = liar_named(op);
        liar_attr(d, LIAR_INODES + lie);
        d->result = lie == LIE_CODE ? -600 : 0;
        break;
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_OPENDIR:
        d->handle = 77;
        d->result = lie == LIE_OPEN;
        break;
    case SNIC_FSOP_READDIR:
        n = liar_folder(lie, op->offset, page);
        d->result = n;
        break;
    case SNIC_FSOP_WRITE:
        d->result = (int64_t)data_size + (lie == LIE_WRITE ? LIAR_PAGE : 0);
        break;
    case SNIC_FSOP_GETLK:
        memset(&d->u, 0, sizeof(d->u));
        d->u.lock.type = SNIC_FSOP_WRLCK;
        d->u.lock.start = UINT64_MAX;
        break;
    case SNIC_FSOP_GETXATTR:
        d->result = SNIC_ENODATA;
        break;
    default:
        break;
    }
    return n;
}

static int liar_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m)
{
    static unsigned char page[LIAR_PAGE];
    uint64_t head[SNIC_NVMEFS_HEADER_MAX / 8];
    const struct km_up *u = m->header;
    struct snic_fsop op = {0};
    struct km_down d = {0};
    (void)ctx;
    if (m->type != KM_WIRE_CALL || m->header_bytes != sizeof(*u))
        return 1;
    memcpy(head, m->payload, u->head_bytes);
    if (snic_nvmefs_head_decode(&op, head, u->head_bytes) != 0)
        exit(2);
    d.number = u->number;
    struct snic_iov piece = {page, liar_answer(&op, u->data_bytes, &d, page)};
    if (snic_channel_down_push(ch, KM_WIRE_CALL, &d, sizeof(d), &piece, piece.size > 0) != 0)
        exit(2);
    return 1;
}

/* ---- By nvme-fs ---- */

static void liar_request(void *ctx, struct snic_nvmefslink_dpu *dpu, struct snic_nvmefs_cmd *c)
{
    static unsigned char page[LIAR_PAGE];
    struct snic_fsop *r = &c->req.op;
    struct km_down d = {0};
    uint32_t n = liar_answer(r, c->data_size, &d, page);
    (void)ctx;
    if (n > 0 && (r->iov_count == 0 || r->iov[0].size < n))
        exit(2);
    if (n > 0)
        memcpy(r->iov[0].base, page, n);
    r->handle = d.handle;
    if (r->kind == SNIC_FSOP_GETLK)
        r->lock = d.u.lock;
    else
        r->attr = d.u.attr;
    snic_nvmefslink_finish(dpu, c, SNIC_NVMEFS_STATUS_OK, d.result);
}

static void liar_attached_nvmefs(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct snic_nvmefslink_dpu_opts o = {.opts_size = sizeof(o),
                                         .engine = {.opts_size = sizeof(o.engine),
                                                    .queues_max = KM_NVMEFS_QUEUES,
                                                    .depth_max = KM_NVMEFS_LOCKS},
                                         .request = liar_request};
    struct snic_nvmefslink_dpu *dpu;
    size_t size = snic_nvmefslink_dpu_memsize(&o);
    void *memory;
    (void)ctx;
    (void)pid;
    if (posix_memalign(&memory, SNIC_NVMEFS_ALIGN, size) != 0 ||
        snic_nvmefslink_dpu_init(&dpu, memory, size, dma, &o) != 0)
        exit(2);
}

int main(int argc, char **argv)
{
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo)};
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    struct snic_dma_listener *listener;
    struct snic_loop *loop;
    if (argc != 3) {
        fprintf(stderr, "kvfs_liar SOCKET ring|nvmefs\n");
        return 2;
    }
    o.path = argv[1];
    if (snic_loop_uring_open(&loop, &lo) != 0 ||
        snic_dma_shm_listen(&listener, loop, &o,
                            strcmp(argv[2], "nvmefs") == 0 ? liar_attached_nvmefs : liar_attached,
                            NULL) != 0) {
        fprintf(stderr, "kvfs_liar: no io_uring, or no socket\n");
        return 2;
    }
    while (snic_loop_once(loop, SNIC_NEVER) >= 0)
        ;
    return 2;
}
