/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The record of the store's owner: its catalog, and its number there.
 *
 * Blocks 0 and 128 of segment SNIC_CONTROL_META, each: magic 8, format 4, server 4, uuid 16,
 * incarnation 8, serial 8, zeros. Both are written each time, with a higher version, at least the
 * incarnation; their data and their versions are apart on the device. One readable copy is enough,
 * and the other is rewritten at the next start. A store without this segment that has others is
 * used without a catalog, and is not registered with one.
 */
#include "control/agent_priv.h"

#define SNIC_CONTROL__AGENT_MAGIC UINT64_C(0x304c4f52544e4f43)
#define SNIC_CONTROL__AGENT_FORMAT 1u
#define SNIC_CONTROL__META_STRIDE 128u /* blocks: of a table of the store (segments/layout.c) */

static void control_agent_meta_done(struct snic_segments_req *q);

static int control_agent_meta_submit(struct snic_control_agent *a, uint16_t op)
{
    SNIC_ASSERT(!a->meta_submitted);
    SNIC_ASSERT(a->meta_at < SNIC_CONTROL__COPIES);
    struct snic_segments_req *q = &a->meta_req;
    memset(q, 0, sizeof(*q));
    q->done = control_agent_meta_done;
    q->op = op;
    q->seg_id = SNIC_CONTROL_META;
    q->vd_id = SNIC_CONTROL_META;
    q->gen = 1;
    q->disk = SNIC_SEGMENTS_ANY_DISK;
    if (op != SNIC_SEGMENTS_CREATE) {
        q->blocks = &a->meta_block[a->meta_at];
        q->count = 1;
    }
    int r = snic_segments_submit(a->o.store, q);
    a->meta_submitted = r == 0;
    return r;
}

static int control_agent_meta_write(struct snic_control_agent *a)
{
    unsigned char *p = a->meta_data;
    SNIC_ASSERT(a->new_incarnation >= a->incarnation);
    a->version = snic_max_u64(a->version + 1, a->new_incarnation);
    memset(p, 0, SNIC_SEGMENTS_BLOCK);
    snic_put_le64(p, SNIC_CONTROL__AGENT_MAGIC);
    snic_put_le32(p + 8, SNIC_CONTROL__AGENT_FORMAT);
    snic_put_le32(p + 12, a->new_server);
    snic_put_le64(p + 16, a->new_uuid[0]);
    snic_put_le64(p + 24, a->new_uuid[1]);
    snic_put_le64(p + 32, a->new_incarnation);
    snic_put_le64(p + 40, a->new_serial);
    memset(a->meta_block, 0, sizeof(a->meta_block));
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        struct snic_segments_block *b = &a->meta_block[i];
        b->block = (uint16_t)(i * SNIC_CONTROL__META_STRIDE);
        b->wver = a->version;
        b->data = p;
        b->data_crc = snic_crc32c(0, p, SNIC_SEGMENTS_BLOCK);
    }
    a->meta_at = 0;
    return control_agent_meta_submit(a, SNIC_SEGMENTS_WRITE);
}

/** The newest copy that can be read, NULL if there is none; @p damaged: another one can not be
 * read, or is older. */
static const struct snic_segments_block *control_agent_meta_best(struct snic_control_agent *a,
                                                                 int *damaged)
{
    const struct snic_segments_block *best = NULL;
    *damaged = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        const struct snic_segments_block *b = &a->meta_block[i];
        if (b->status != SNIC_SEGMENTS_DONE)
            *damaged = 1;
        else if (b->wver != 0 && (best == NULL || b->wver > best->wver))
            best = b;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++)
        *damaged |= best != NULL && best->wver != a->meta_block[i].wver;
    return best;
}

/** Rewrite both copies with the known data; connects when this is done, or has failed. */
static void control_agent_meta_repair(struct snic_control_agent *a)
{
    a->new_server = a->server;
    a->new_serial = a->serial;
    a->new_uuid[0] = a->uuid[0];
    a->new_uuid[1] = a->uuid[1];
    a->new_incarnation = a->incarnation;
    if (control_agent_meta_write(a) == 0)
        a->state = CONTROL_AGENT_REPAIRING;
}

static int control_agent_meta_loaded(struct snic_control_agent *a)
{
    int damaged;
    const struct snic_segments_block *b = control_agent_meta_best(a, &damaged);
    if (b == NULL && damaged)
        return SNIC_ECORRUPT;
    a->state = CONTROL_AGENT_IDLE;
    a->meta = 1;
    if (b == NULL)
        return 0; /* created, and never written */
    const unsigned char *p = b->data;
    if (b->kind != SNIC_SEGMENTS_DATA || snic_get_le64(p) != SNIC_CONTROL__AGENT_MAGIC ||
        snic_get_le64(p + 32) > b->wver)
        return SNIC_ECORRUPT;
    if (snic_get_le32(p + 8) != SNIC_CONTROL__AGENT_FORMAT)
        return SNIC_EVERSION;
    a->server = snic_get_le32(p + 12);
    a->uuid[0] = snic_get_le64(p + 16);
    a->uuid[1] = snic_get_le64(p + 24);
    a->serial = snic_get_le64(p + 40);
    a->incarnation = snic_get_le64(p + 32);
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) /* a damaged copy has a version, too */
        a->version = snic_max_u64(a->version, a->meta_block[i].wver);
    if (damaged)
        control_agent_meta_repair(a);
    return 0;
}

static int control_agent_meta_read(struct snic_control_agent *a)
{
    memset(a->meta_block, 0, sizeof(a->meta_block));
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        a->meta_block[i].block = (uint16_t)(i * SNIC_CONTROL__META_STRIDE);
        a->meta_block[i].data = a->meta_data + (size_t)i * SNIC_SEGMENTS_BLOCK;
    }
    a->meta_at = 0;
    return control_agent_meta_submit(a, SNIC_SEGMENTS_READ);
}

int control_agent_load(struct snic_control_agent *a)
{
    struct snic_segments_stat stat;
    uint64_t cursor = 0;
    SNIC_ASSERT(a->state == CONTROL_AGENT_LOADING);
    if (snic_segments_find(a->o.store, SNIC_CONTROL_META, &stat) == 0)
        return control_agent_meta_read(a);
    while (snic_segments_next(a->o.store, &cursor, &stat) == 1)
        if (stat.seg_id != SNIC_VOLUME_META)
            return SNIC_EEXIST;
    a->state = CONTROL_AGENT_IDLE;
    return 0;
}

static void control_agent_meta_stored(struct snic_control_agent *a)
{
    a->server = a->new_server;
    a->serial = a->new_serial;
    a->uuid[0] = a->new_uuid[0];
    a->uuid[1] = a->new_uuid[1];
    a->incarnation = a->new_incarnation;
    if (a->state == CONTROL_AGENT_STORING)
        control_agent_claim(a);
}

/** A write is durable in one copy at least. */
static int control_agent_meta_written(const struct snic_control_agent *a)
{
    int done = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++)
        done |= a->meta_block[i].status == SNIC_SEGMENTS_DONE;
    return done ? 0 : SNIC_ECORRUPT;
}

static void control_agent_meta_done(struct snic_segments_req *q)
{
    struct snic_control_agent *a = SNIC_CONTAINER(q, struct snic_control_agent, meta_req);
    uint16_t op = q->op;
    int r = op != SNIC_SEGMENTS_CREATE && q->result == SNIC_ECORRUPT ? 0 : q->result;
    a->meta_submitted = 0;
    if (a->closing)
        return;
    if (r == 0 && op != SNIC_SEGMENTS_CREATE && a->meta_at + 1u < SNIC_CONTROL__COPIES) {
        a->meta_at++;
        r = control_agent_meta_submit(a, op);
        if (r == 0)
            return;
        if (op == SNIC_SEGMENTS_WRITE && a->meta_block[0].status == SNIC_SEGMENTS_DONE)
            r = 0; /* the next start writes the other one */
    }
    if (op == SNIC_SEGMENTS_READ) {
        r = r == 0 ? control_agent_meta_loaded(a) : r;
        if (r != 0)
            a->state = CONTROL_AGENT_LOADING;
    } else if (op == SNIC_SEGMENTS_CREATE) {
        a->meta |= r == 0;
        r = r == 0 ? control_agent_meta_write(a) : r;
    } else if (a->state == CONTROL_AGENT_REPAIRING) {
        a->state = CONTROL_AGENT_IDLE; /* one copy is readable */
        r = 0;
    } else {
        r = r == 0 ? control_agent_meta_written(a) : r;
        if (r == 0)
            control_agent_meta_stored(a);
    }
    if (r != 0)
        control_agent_refused(a, r);
}

void control_agent_welcome(struct snic_control_agent *a, const struct snic_control_msg *m)
{
    int ours = m->uuid[0] == a->uuid[0] && m->uuid[1] == a->uuid[1] && m->server == a->server &&
               m->serial == a->serial;
    int r = 0;
    if (m->server == 0 || m->incarnation == 0 || (a->server != 0 && !ours))
        r = SNIC_EPERM;
    else if (m->incarnation < a->incarnation)
        r = SNIC_ESTALE; /* an older state of the catalog: a copy was restored */
    else if (a->meta_submitted)
        r = SNIC_EBUSY;
    if (r != 0) {
        control_agent_refused(a, r);
        return;
    }
    a->state = CONTROL_AGENT_STORING;
    a->new_server = m->server;
    a->new_serial = m->serial;
    a->new_uuid[0] = m->uuid[0];
    a->new_uuid[1] = m->uuid[1];
    a->new_incarnation = m->incarnation;
    if (ours && m->incarnation == a->incarnation) {
        control_agent_claim(a);
        return;
    }
    r = a->meta ? control_agent_meta_write(a)
                : control_agent_meta_submit(a, SNIC_SEGMENTS_CREATE); /* A1 */
    if (r != 0)
        control_agent_refused(a, r);
}
