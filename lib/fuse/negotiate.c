/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * INIT: what the kernel proposes and what the server wants become what applies.
 *
 * Invariants
 *   N1 conn->flags are flags that both have.
 *   N2 max_write and max_read are no larger than max_pages pages; without MAX_PAGES the kernel has
 *      32, and without BIG_WRITES it writes one.
 */
#include "fuse_priv.h"

#define SNIC_FUSE__PAGES 32U /* of a kernel that has not negotiated max_pages */
#define SNIC_FUSE__MAX_WRITE (128U << 10)

/* Flags that a server may want: those without fields that this codec does not have. */
static const uint64_t negotiate_flags =
    ((UINT64_C(1) << 43) - 1) & ~((UINT64_C(1) << 2) | (UINT64_C(1) << 31)) &
    ~(SNIC_FUSE_MAP_ALIGNMENT | SNIC_FUSE_PASSTHROUGH | SNIC_FUSE_REQUEST_TIMEOUT);

static int negotiate_offer(struct snic_fuse_offer *o, const struct snic_fuse_offer *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, (uint32_t)sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (o->minor == 0)
        o->minor = SNIC_FUSE_MINOR;
    if (o->max_write == 0)
        o->max_write = SNIC_FUSE__MAX_WRITE;
    if (o->page_bytes == 0)
        o->page_bytes = 4096;
    if (o->time_gran == 0)
        o->time_gran = 1;
    if (o->minor < SNIC_FUSE_MINOR_MIN || o->minor > SNIC_FUSE_MINOR ||
        (o->flags & ~negotiate_flags) != 0 || o->max_write < 4096 ||
        o->max_write > SNIC_FUSE_WRITE_MAX || !snic_is_pow2(o->page_bytes) ||
        o->page_bytes < 4096 || o->page_bytes > 65536 || o->time_gran > 1000000000U ||
        o->reserved != 0)
        return SNIC_EINVAL;
    return 0;
}

/* N2 */
static void negotiate_sizes(struct snic_fuse_conn *c, const struct snic_fuse_offer *o)
{
    uint32_t pages = SNIC_FUSE__PAGES;
    if ((c->flags & SNIC_FUSE_MAX_PAGES) != 0) {
        pages = (o->max_write + o->page_bytes - 1) / o->page_bytes;
        c->max_pages = (uint16_t)pages;
    }
    c->max_read = pages * o->page_bytes;
    c->max_write = (uint32_t)snic_min_u64(o->max_write, c->max_read);
    if ((c->flags & SNIC_FUSE_BIG_WRITES) == 0)
        c->max_write = (uint32_t)snic_min_u64(c->max_write, o->page_bytes);
}

int snic_fuse_negotiate(struct snic_fuse_conn *conn, const struct snic_fuse_offer *offer,
                        const struct snic_fuse_request *init)
{
    const struct snic_fuse_init_in *in = &init->in.init;
    struct snic_fuse_conn c;
    struct snic_fuse_offer o;
    int rc = negotiate_offer(&o, offer);
    SNIC_ASSERT(init->head.opcode == SNIC_FUSE_INIT);
    if (rc != 0)
        return rc;
    memset(&c, 0, sizeof(c));
    c.major = SNIC_FUSE_MAJOR;
    if (in->major > SNIC_FUSE_MAJOR) {
        *conn = c;
        return SNIC_EAGAIN;
    }
    if (in->major < SNIC_FUSE_MAJOR || in->minor < SNIC_FUSE_MINOR_MIN)
        return SNIC_EVERSION;
    c.minor = (uint32_t)snic_min_u64(in->minor, o.minor);
    c.offered = in->flags;
    if ((in->flags & SNIC_FUSE_INIT_EXT) != 0)
        c.offered |= (uint64_t)in->flags2 << 32;
    c.flags = c.offered &
              (o.flags | SNIC_FUSE_INIT_EXT | SNIC_FUSE_BIG_WRITES | SNIC_FUSE_MAX_PAGES); /* N1 */
    if ((c.flags & SNIC_FUSE_HANDLE_KILLPRIV_V2) != 0)
        c.flags &= ~SNIC_FUSE_HANDLE_KILLPRIV; /* the newer one includes it */
    if ((c.offered & SNIC_FUSE_CREATE_SUPP_GROUP) == 0)
        c.flags &= ~SNIC_FUSE_SECURITY_CTX; /* before it, contexts came without total_extlen */
    negotiate_sizes(&c, &o);
    c.max_readahead = in->max_readahead;
    if (o.max_readahead != 0)
        c.max_readahead = (uint32_t)snic_min_u64(c.max_readahead, o.max_readahead);
    c.time_gran = o.time_gran;
    c.max_background = o.max_background;
    c.congestion_threshold = o.congestion_threshold;
    *conn = c;
    return 0;
}

void snic_fuse_answer_init(struct snic_fuse_answer *a, uint64_t unique,
                           const struct snic_fuse_conn *conn)
{
    struct snic_fuse_init_out *out = &a->out.init;
    snic_fuse_answer_error(a, unique, 0);
    memset(out, 0, sizeof(*out));
    a->head.len = (uint32_t)(sizeof(a->head) + sizeof(*out));
    out->major = conn->major;
    out->minor = conn->minor != 0 ? conn->minor : SNIC_FUSE_MINOR;
    out->max_readahead = conn->max_readahead;
    out->flags = (uint32_t)conn->flags;
    out->flags2 = (uint32_t)(conn->flags >> 32);
    out->max_background = conn->max_background;
    out->congestion_threshold = conn->congestion_threshold;
    out->max_write = conn->max_write;
    out->time_gran = conn->time_gran;
    out->max_pages = conn->max_pages;
}
