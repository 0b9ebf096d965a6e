/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What leaves: pieces of the handshake, and replies. A client that has negotiated structured
 * replies gets them for reads and block status, always of one chunk; all else is answered by a
 * simple one.
 */
#include "nbd_priv.h"

#include <stdlib.h>
#include <string.h>

#define SIMPLE_MAGIC 0x67446698u
#define CHUNK_MAGIC 0x668e33efu
enum { CHUNK_DONE = 1, CHUNK_NONE = 0, CHUNK_DATA = 1, CHUNK_STATUS = 5, CHUNK_ERROR = 0x8001 };

/* 1: the net has it, and its done will come. */
static int reply_send(struct nbd_conn *c, struct snic_net_send_req *s)
{
    if (c->gone || snic_net_send(c->net, s) != 1)
        return 0;
    if (c->leaving++ == 0)
        c->moved_ns = snic_loop_now(c->n->loop);
    return 1;
}

static void reply_left(struct nbd_conn *c)
{
    c->leaving--;
    c->moved_ns = snic_loop_now(c->n->loop);
}

/* ---- The handshake ---- */

static void reply_handshake_sent(struct snic_net_send_req *s)
{
    struct nbd_handshake_send *y = SNIC_CONTAINER(s, struct nbd_handshake_send, send);
    struct nbd_conn *c = y->c;
    free(y);
    reply_left(c);
    c->handshakes--;
    nbd_free(c);
}

void nbd_send_bytes(struct nbd_conn *c, const void *bytes, uint32_t size)
{
    struct nbd_handshake_send *y = calloc(1, sizeof(*y));
    if (y == NULL || size > sizeof(y->bytes)) {
        free(y);
        nbd_end(c, "cannot be served: out of memory");
        return;
    }
    memcpy(y->bytes, bytes, size);
    y->c = c;
    y->iov.base = y->bytes;
    y->iov.size = size;
    y->send.done = reply_handshake_sent;
    y->send.iov = &y->iov;
    y->send.iov_count = 1;
    y->send.region = SNIC_NO_REGION;
    if (reply_send(c, &y->send)) {
        c->handshakes++;
        return;
    }
    free(y);
    if (c->state == NBD_ENDED)
        return;
    /* It sends requests faster than it reads replies: an orderly end would wait for it. */
    nbd_end(c, "does not read its replies");
    snic_net_abort(c->net);
}

/* ---- Replies ---- */

static void reply_req_free(struct nbd_req *q)
{
    struct nbd_conn *c = q->c;
    c->bytes -= q->memory_size;
    free(q->memory);
    q->memory = NULL;
    q->next = c->free;
    c->free = q;
    c->inside--;
    if (c->gone) {
        nbd_free(c);
        return;
    }
    if (c->state == NBD_ENDED)
        nbd_hang_up(c);
    else
        nbd_parse(c);
}

static void reply_done(struct snic_net_send_req *s)
{
    struct nbd_req *q = SNIC_CONTAINER(s, struct nbd_req, send);
    reply_left(q->c);
    reply_req_free(q);
}

static uint32_t reply_error(int result)
{
    switch (result) {
    case 0:
        return 0;
    case SNIC_EPERM:
    case SNIC_EROFS:
    case SNIC_ESTALE:
        return 1;
    case SNIC_ENOMEM:
        return 12;
    case SNIC_EINVAL:
    case SNIC_ERANGE:
        return 22;
    case SNIC_ENOSPC:
        return 28;
    case SNIC_ENOTSUP:
        return 95;
    case SNIC_ECANCELED:
    case SNIC_EUNKNOWN:
        return 108;
    default:
        return 5;
    }
}

/* @head: bytes behind the chunk's header that are in q->head; @body: those behind them. */
static void reply_chunk(struct nbd_req *q, uint32_t type, uint32_t head, void *body, uint64_t size)
{
    snic_put_be32(q->head, CHUNK_MAGIC);
    snic_put_be16(q->head + 4, CHUNK_DONE);
    snic_put_be16(q->head + 6, (uint16_t)type);
    snic_put_be32(q->head + 16, (uint32_t)(head + size));
    q->iov[0].size = NBD_CHUNK_HEAD + head;
    q->iov[1].base = body;
    q->iov[1].size = size;
    q->send.iov_count = size != 0 ? 2 : 1;
}

static void reply_chunk_error(struct nbd_req *q, int result)
{
    const char *why = snic_strerror(result);
    uint32_t n = (uint32_t)snic_min_u64(strlen(why), NBD_WHY);
    snic_put_be32(q->head + 20, reply_error(result));
    snic_put_be16(q->head + 24, (uint16_t)n);
    memcpy(q->head + 26, why, n);
    reply_chunk(q, CHUNK_ERROR, 6 + n, NULL, 0);
}

/* A cookie is in the same place of both. */
static void reply_structured(struct nbd_req *q, int result)
{
    if (result != 0) {
        reply_chunk_error(q, result);
    } else if (q->type == NBD_CMD_STATUS) {
        uint64_t size = 0;
        void *list = nbd_status_list(q, &size);
        reply_chunk(q, CHUNK_STATUS, 0, list, size);
    } else if (q->length == 0) {
        reply_chunk(q, CHUNK_NONE, 0, NULL, 0);
    } else {
        snic_put_be64(q->head + 20, q->offset);
        reply_chunk(q, CHUNK_DATA, 8, q->b.bytes, q->length);
    }
}

static void reply_simple(struct nbd_req *q, int result)
{
    snic_put_be32(q->head, SIMPLE_MAGIC);
    snic_put_be32(q->head + 4, reply_error(result));
    q->iov[0].size = 16;
    q->send.iov_count = 1;
    if (result != 0 || q->type != NBD_CMD_READ || q->length == 0)
        return;
    q->iov[1].base = q->b.bytes;
    q->iov[1].size = q->length;
    q->send.iov_count = 2;
}

void nbd_reply(struct nbd_req *q, int result)
{
    struct nbd_conn *c = q->c;
    c->n->s.errors += result != 0;
    memset(&q->send, 0, sizeof(q->send));
    q->iov[0].base = q->head;
    q->send.region = SNIC_NO_REGION;
    q->send.done = reply_done;
    q->send.iov = q->iov;
    if (c->structured && (q->type == NBD_CMD_READ || q->type == NBD_CMD_STATUS))
        reply_structured(q, result);
    else
        reply_simple(q, result);
    if (reply_send(c, &q->send))
        return;
    if (c->state != NBD_ENDED) { /* or requests behind it would be parsed still */
        nbd_end(c, NULL);
        snic_net_abort(c->net);
    }
    reply_req_free(q);
}
