/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An operator's session. Lists are sent in pages: `value` is where the next one begins.
 */
#include "control/control_priv.h"

#define SNIC_CONTROL__PAGE_MAX 16u
#define SNIC_CONTROL__SCAN_MAX 4096u /* places of a table that one page scans */
#define SNIC_CONTROL__QOS_TABLE_BYTES                                                              \
    512u /* bytes that a table of one disk's limits needs, at most */

/*
 * Will a client's engine accept them? The engine uses the table of limits, so this checks with one,
 * too. For a burst of 0 the engine takes one that is in range.
 */
static int control_qos_ok(const struct snic_control_qos *q)
{
    struct snic_ebs_qos_opts o = {.opts_size = sizeof(o), .disks = 1};
    struct snic_ebs_qos_limits l = {.bytes_per_second = q->bytes_per_second,
                                    .ios_per_second = q->ios_per_second,
                                    .burst_bytes = snic_max_u64(q->burst_bytes, 1),
                                    .burst_ios = snic_max_u64(q->burst_ios, 1)};
    _Alignas(SNIC_EBS_ALIGN) unsigned char mem[SNIC_CONTROL__QOS_TABLE_BYTES];
    struct snic_ebs_qos *table = NULL;
    int r = snic_ebs_qos_init(&table, mem, sizeof(mem), &o);
    SNIC_ASSERT(r == 0);
    r = snic_ebs_qos_set(table, 0, &l, 0);
    (void)snic_ebs_qos_fini(table);
    return r == 0;
}

static int control_operator_session_create(struct control_session *s,
                                           const struct snic_control_msg *m)
{
    struct control_disk *d;
    if (!snic_control_name_ok(m->name) || control_name_reserved(m->name) || m->bytes == 0 ||
        m->bytes % SNIC_EBS_BLOCK_BYTES != 0 || !control_qos_ok(&m->qos))
        return SNIC_EINVAL;
    if (m->bytes > SNIC_VOLUME_DISK_BYTES_MAX)
        return SNIC_EFBIG;
    if (control_disk_named(s->c, m->name) != NULL)
        return SNIC_EEXIST;
    int r = control_disk_create(s->c, m->name, m->bytes, &m->qos, m->key, &d);
    if (r == 0)
        control_session_reply(s, m->tag, 0, d->vd);
    return r;
}

static int control_operator_session_delete(struct control_session *s,
                                           const struct snic_control_msg *m, struct control_disk *d)
{
    struct snic_control *c = s->c;
    if (control_disk_live(c, d) || d->reissue)
        return SNIC_EBUSY;
    int r = control_disk_delete(c, d);
    if (r == 0)
        control_session_reply(s, m->tag, 0, 0);
    return r;
}

static uint64_t control_qos_or(uint64_t value, uint64_t old)
{
    return value == SNIC_CONTROL_KEEP ? old : value;
}

/* The catalog fills in the numbers to be kept: an operator that read and sent them back would undo
 * a concurrent change. */
static int control_operator_session_qos(struct control_session *s, const struct snic_control_msg *m,
                                        struct control_disk *d)
{
    struct snic_control *c = s->c;
    struct snic_control_qos old = d->qos;
    struct snic_control_qos to = {
        .bytes_per_second = control_qos_or(m->qos.bytes_per_second, old.bytes_per_second),
        .burst_bytes = control_qos_or(m->qos.burst_bytes, old.burst_bytes),
        .ios_per_second = control_qos_or(m->qos.ios_per_second, old.ios_per_second),
        .burst_ios = control_qos_or(m->qos.burst_ios, old.burst_ios)};
    struct snic_control_msg q;
    if (!control_qos_ok(&to))
        return SNIC_EINVAL;
    d->qos = to;
    int r = control_put_disk(c, d);
    if (r != 0) {
        d->qos = old;
        return r;
    }
    struct control_session *holder = control_session_at(c, d->session);
    if (holder != NULL) {
        control_msg(&q, SNIC_CONTROL_QOS, 0);
        q.vd = d->vd;
        q.qos = d->qos;
        control_session_send(holder, &q);
    }
    control_session_reply(s, m->tag, 0, 0);
    return 0;
}

static int control_operator_session_forget(struct control_session *s,
                                           const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    if (m->server - 1 >= SNIC_CONTROL_SERVERS_MAX || c->servers[m->server - 1].ts == 0)
        return SNIC_ENOENT;
    int r = control_server_forget(c, &c->servers[m->server - 1]);
    if (r == 0)
        control_session_reply(s, m->tag, 0, 0);
    return r;
}

static int control_operator_session_move(struct control_session *s,
                                         const struct snic_control_msg *m, struct control_disk *d)
{
    struct snic_control *c = s->c;
    struct control_seg *g = control_seg_find(c, d->vd, m->segment);
    if (g == NULL || m->server - 1 >= SNIC_CONTROL_SERVERS_MAX || c->servers[m->server - 1].ts == 0)
        return SNIC_ENOENT;
    return control_move(c, s, m->tag, d, g, m->server - 1);
}

/* ---- Lists ---- */

/* The end of a page's scan, @p end at most: it is bounded, since others wait meanwhile. */
static uint64_t control_operator_session_page_end(const struct snic_control_msg *m, uint64_t end)
{
    return m->value < end ? snic_min_u64(end, m->value + SNIC_CONTROL__SCAN_MAX) : end;
}

static uint64_t control_operator_session_disks(struct control_session *s,
                                               const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    uint32_t n = 0;
    uint64_t most = control_operator_session_page_end(m, c->disk_end);
    for (uint64_t i = m->value; i < most; i++) {
        const struct control_disk *d = &c->disks[i];
        struct snic_control_msg out;
        if (!d->used)
            continue;
        if (n++ == SNIC_CONTROL__PAGE_MAX)
            return i;
        control_msg(&out, SNIC_CONTROL_DISK, m->tag);
        out.vd = d->vd;
        out.lease = d->lease;
        out.flags = (uint8_t)control_disk_live(c, d);
        out.bytes = d->bytes;
        out.value = d->segments;
        out.qos = d->qos;
        memcpy(out.key, d->key, sizeof(out.key));
        memcpy(out.name, d->name, sizeof(out.name));
        control_session_send(s, &out);
    }
    return most < c->disk_end ? most : 0;
}

static uint64_t control_operator_session_servers(struct control_session *s,
                                                 const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    uint32_t k = 0;
    for (uint64_t i = m->value; i < SNIC_CONTROL_SERVERS_MAX; i++) {
        const struct control_server *n = &c->servers[i];
        struct snic_control_msg out;
        if (n->ts == 0)
            continue;
        if (k++ == SNIC_CONTROL__PAGE_MAX)
            return i;
        control_msg(&out, SNIC_CONTROL_NODE, m->tag);
        out.server = n->id;
        out.flags = n->state == CONTROL_READY;
        out.segment = n->segments;
        out.bytes = n->free;
        out.value = n->places;
        out.addr = n->addr;
        out.peer = n->peer;
        control_session_send(s, &out);
    }
    return 0;
}

static uint64_t control_operator_session_segments(struct control_session *s,
                                                  const struct snic_control_msg *m,
                                                  const struct control_disk *d)
{
    struct snic_control *c = s->c;
    struct snic_control_msg out;
    uint64_t i = m->value;
    control_msg(&out, SNIC_CONTROL_SEGMENT, m->tag);
    out.vd = d->vd;
    uint64_t most = control_operator_session_page_end(m, c->seg_end);
    for (; i < most && out.count < SNIC_CONTROL_ITEMS; i++) {
        const struct control_seg *g = &c->segs[i];
        if (g->state != CONTROL_PLACED || g->vd != d->vd)
            continue;
        out.item[out.count].segment = g->segment;
        out.item[out.count].server = c->servers[g->server].id;
        out.item[out.count].gen = control_seg_gen(d, g);
        out.item[out.count++].status = g->moving;
    }
    if (out.count != 0)
        control_session_send(s, &out);
    return i < c->seg_end ? i : 0;
}

void control_operator_session_msg(struct control_session *s, struct snic_control_msg *m)
{
    struct control_disk *d = m->name[0] != 0 ? control_disk_named(s->c, m->name) : NULL;
    int r = 0;
    if (m->type < SNIC_CONTROL_CREATE || m->type > SNIC_CONTROL_SEGMENTS) {
        control_session_malformed(s);
        return;
    }
    if (m->type == SNIC_CONTROL_CREATE)
        r = control_operator_session_create(s, m);
    else if (m->type == SNIC_CONTROL_DISKS)
        control_session_reply(s, m->tag, 0, control_operator_session_disks(s, m));
    else if (m->type == SNIC_CONTROL_FORGET)
        r = control_operator_session_forget(s, m);
    else if (m->type == SNIC_CONTROL_NODES)
        control_session_reply(s, m->tag, 0, control_operator_session_servers(s, m));
    else if (d == NULL)
        r = SNIC_ENOENT;
    else if (m->type == SNIC_CONTROL_DELETE)
        r = control_operator_session_delete(s, m, d);
    else if (m->type == SNIC_CONTROL_REVOKE)
        r = control_attach(s->c, s, m->tag, d);
    else if (m->type == SNIC_CONTROL_SET_QOS)
        r = control_operator_session_qos(s, m, d);
    else if (m->type == SNIC_CONTROL_REISSUE)
        r = control_reissue(s->c, s, m->tag, d);
    else if (m->type == SNIC_CONTROL_MOVE)
        r = control_operator_session_move(s, m, d);
    else
        control_session_reply(s, m->tag, 0, control_operator_session_segments(s, m, d));
    if (r != 0)
        control_session_reply(s, m->tag, r, 0);
}
