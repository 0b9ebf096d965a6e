/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The outside of the engine: options, boot, events in, actions out, time. The invariants are at
 * the head of member_priv.h.
 */
#include "member_priv.h"

SNIC_STATIC_ASSERT(sizeof(struct snic_member_view) == 544, "no padding in a view");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_record) == 1128, "no padding in a record");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_msg) == 624, "no padding in a message");
SNIC_STATIC_ASSERT(SNIC_MEMBER_NODES_MAX == 16, "masks and ballots have room for 16");

static void member_default(uint64_t *ns, uint64_t value)
{
    if (*ns == 0)
        *ns = value;
}

/* The first time that is out of range; NULL: none. All have their defaults. */
static const char *member_time_wrong(const struct snic_member_opts *o)
{
    const struct {
        uint64_t ns;
        const char *wrong;
    } times[] = {
        {o->lease_ns, "lease_ns: more than 2^40"},
        {o->lease_max_ns, "lease_max_ns: more than 2^40"},
        {o->margin_ns, "margin_ns: more than 2^40"},
        {o->heartbeat_ns, "heartbeat_ns: more than 2^40"},
        {o->detect_ns, "detect_ns: more than 2^40"},
        {o->silent_ns, "silent_ns: more than 2^40"},
        {o->retry_ns, "retry_ns: more than 2^40"},
        {o->backoff_ns, "backoff_ns: more than 2^40"},
        {o->restart_wait_ns, "restart_wait_ns: more than 2^40"},
        {o->rejoin_ns, "rejoin_ns: more than 2^40"},
    };
    for (uint32_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        SNIC_ASSERT(times[i].ns != 0);
        if (times[i].ns > SNIC_MEMBER_NS_MAX)
            return times[i].wrong;
    }
    return NULL;
}

/* The options of @p from with their defaults, and what is wrong with them; NULL: nothing. */
static const char *member_options(struct snic_member_opts *o, const struct snic_member_opts *from)
{
    const uint64_t ms = 1000000;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->drift_ppm == 0)
        o->drift_ppm = 500;
    member_default(&o->lease_ns, 400 * ms);
    member_default(&o->lease_max_ns, o->lease_ns);
    member_default(&o->margin_ns, 10 * ms);
    member_default(&o->heartbeat_ns, 50 * ms);
    member_default(&o->detect_ns, 250 * ms);
    member_default(&o->silent_ns, 1000 * ms);
    member_default(&o->retry_ns, 30 * ms);
    member_default(&o->backoff_ns, 40 * ms);
    member_default(&o->restart_wait_ns, 5000 * ms);
    member_default(&o->rejoin_ns, 500 * ms);
    if (o->flags != 0)
        return "flags: not 0";
    if (o->node >= SNIC_MEMBER_NODES_MAX || !member_has(o->configured, o->node))
        return "node: not one of the configured nodes";
    if ((o->witness & ~o->configured) != 0 || __builtin_popcount(o->witness) > 1)
        return "witness: more than one node, or one that is not configured";
    if (o->configured == o->witness)
        return "configured: no node but the witness";
    if (o->min_full > SNIC_MEMBER_NODES_MAX)
        return "min_full: more than SNIC_MEMBER_NODES_MAX (16)";
    if (o->drift_ppm > SNIC_MEMBER_DRIFT_MAX)
        return "drift_ppm: more than SNIC_MEMBER_DRIFT_MAX (100000)";
    if (o->slow_ns > SNIC_MEMBER_NS_MAX)
        return "slow_ns: more than 2^40";
    const char *wrong = member_time_wrong(o);
    if (wrong != NULL)
        return wrong;
    if (o->lease_ns < 2 * o->heartbeat_ns)
        return "lease_ns: less than 2 heartbeat_ns";
    if (o->lease_max_ns < o->lease_ns)
        return "lease_max_ns: less than lease_ns";
    if (o->detect_ns < 2 * o->heartbeat_ns)
        return "detect_ns: less than 2 heartbeat_ns";
    return NULL;
}

const char *snic_member_opts_wrong(const struct snic_member_opts *opts)
{
    struct snic_member_opts o;
    return member_options(&o, opts);
}

size_t snic_member_memsize(const struct snic_member_opts *opts)
{
    struct snic_member_opts o;
    if (member_options(&o, opts) != NULL)
        return 0;
    return (size_t)snic_align_up(sizeof(struct snic_member), SNIC_MEMBER_ALIGN);
}

int snic_member_init(struct snic_member **out, void *mem, size_t mem_size,
                     const struct snic_member_opts *opts)
{
    struct snic_member_opts o;
    if (member_options(&o, opts) != NULL || (uintptr_t)mem % SNIC_MEMBER_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < snic_member_memsize(opts))
        return SNIC_ENOSPC;
    struct snic_member *m = mem;
    memset(m, 0, snic_member_memsize(opts));
    m->opts = o;
    m->grant_ns = member_grant_span(m, o.lease_max_ns);
    SNIC_ASSERT(m->grant_ns >= o.lease_max_ns); /* M6 */
    m->heartbeat_at_ns = SNIC_NEVER;
    m->want_at_ns = SNIC_NEVER;
    m->stuck_ns = SNIC_NEVER;
    m->confirm_above = SNIC_NEVER;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        m->peers[n].slow_ns = m->peers[n].silent_ns = SNIC_NEVER;
        m->peers[n].left_ns = SNIC_NEVER;
    }
    *out = m;
    return 0;
}

/* ---- Events ---- */

static int member_boot(struct snic_member *m, const struct snic_member_event *ev)
{
    const struct snic_member_record *r = ev->record;
    if (m->booted || (ev->flags & ~(uint32_t)(SNIC_MEMBER_FIRST | SNIC_MEMBER_LOG_GOOD)) != 0)
        return SNIC_EINVAL;
    if (r != NULL && !member_record_is_sane(r))
        return SNIC_ECORRUPT;
    if (r != NULL && r->cluster != m->opts.cluster)
        return SNIC_EXDEV;
    if (r != NULL && r->incarnation == UINT32_MAX)
        return SNIC_EOVERFLOW;
    if (r != NULL) {
        m->rec = *r;
        m->rec.incarnation += SNIC_MEMBER__BUG(11) ? 0 : 1;
        m->quiet_ns = m->now_ns + m->grant_ns; /* A3 */
    } else {
        m->rec.incarnation = ev->incarnation;
        m->rec.cluster = m->opts.cluster;
        if ((ev->flags & SNIC_MEMBER_FIRST) != 0 && ev->incarnation != 0)
            m->rec.flags = SNIC_MEMBER_REC_FIRST;
        m->rec.since = ev->incarnation;
    }
    SNIC_ASSERT(m->generation == 0 && m->role == SNIC_MEMBER_ROLE_FENCED);
    m->booted = 1;
    m->born = m->rec.incarnation;
    m->log_good = (ev->flags & SNIC_MEMBER_LOG_GOOD) != 0;
    m->base_ns = m->now_ns;
    m->heartbeat_at_ns = m->now_ns;
    member_changed(m);
    m->incarnation_generation = m->generation;
    if (SNIC_MEMBER__BUG(11) && r != NULL && r->decided.epoch != 0)
        m->view_generation = m->generation;
    return 0;
}

static int member_on_message(struct snic_member *m, const struct snic_member_msg *msg)
{
    int r;
    if (msg->cluster != m->opts.cluster) {
        m->foreign++;
        return SNIC_EXDEV;
    }
    if (msg->src >= SNIC_MEMBER_NODES_MAX || msg->src == m->opts.node ||
        msg->epoch > SNIC_MEMBER_EPOCH_MAX) {
        r = SNIC_EPROTO;
    } else {
        switch (msg->type) {
        case SNIC_MEMBER_HEARTBEAT:
            r = member_on_heartbeat(m, msg);
            break;
        case SNIC_MEMBER_GRANT:
            r = member_on_grant(m, msg);
            break;
        case SNIC_MEMBER_PREPARE:
        case SNIC_MEMBER_PROMISE:
        case SNIC_MEMBER_ACCEPT:
        case SNIC_MEMBER_ACCEPTED:
        case SNIC_MEMBER_REJECT:
        case SNIC_MEMBER_DECIDED:
            r = member_on_register(m, msg);
            break;
        case SNIC_MEMBER_FENCE:
            r = member_on_fence(m, msg);
            break;
        case SNIC_MEMBER_FENCE_ACK:
            r = member_on_fence_ack(m, msg);
            break;
        default:
            r = SNIC_EPROTO;
            break;
        }
    }
    m->refused += r != 0;
    return r;
}

/* Which nodes keep writes waiting, and how: the mask replaces the last one of that kind. */
static void member_report_nodes(struct snic_member *m, const struct snic_member_event *ev)
{
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        struct member_peer *p = &m->peers[n];
        int in = member_has(ev->mask, n) && n != m->opts.node;
        uint64_t *since = ev->kind == SNIC_MEMBER_SLOW ? &p->slow_ns : &p->silent_ns;
        if (!in)
            *since = SNIC_NEVER;
        else if (*since == SNIC_NEVER)
            *since = m->now_ns;
        if (ev->kind == SNIC_MEMBER_SILENT)
            p->silent = (uint8_t)in;
    }
}

static int member_on_report(struct snic_member *m, const struct snic_member_event *ev)
{
    switch (ev->kind) {
    case SNIC_MEMBER_SLOW:
    case SNIC_MEMBER_SILENT:
        member_report_nodes(m, ev);
        return 0;
    case SNIC_MEMBER_FLUSH:
        m->flush_ns = snic_min_u64(ev->ns, SNIC_MEMBER_NS_MAX);
        return 0;
    case SNIC_MEMBER_CAUGHT_UP:
        if (m->learner_since == 0 || ev->epoch < m->learner_since || ev->epoch > m->installed)
            return SNIC_ESTALE;
        m->caught_up = 1;
        return 0;
    case SNIC_MEMBER_LOG:
        if ((ev->flags & ~(uint32_t)SNIC_MEMBER_LOG_GOOD) != 0)
            return SNIC_EINVAL;
        m->log_good = (ev->flags & SNIC_MEMBER_LOG_GOOD) != 0;
        return 0;
    case SNIC_MEMBER_NEED_EPOCH:
        if (ev->epoch == 0 || ev->epoch != m->rec.decided.epoch)
            return SNIC_ESTALE;
        m->need_epoch = ev->epoch;
        return 0;
    default:
        return SNIC_EINVAL;
    }
}

static int member_on_override(struct snic_member *m, const struct snic_member_event *ev)
{
    if ((ev->flags & ~(uint32_t)SNIC_MEMBER_ANY_LOG) != 0 ||
        (ev->mask & ~member_configured(m)) != 0 || member_has(ev->mask, m->opts.node))
        return SNIC_EINVAL;
    m->dead = ev->mask;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_has(ev->mask, n))
            m->peers[n].grant_until_ns = 0;
    }
    m->any_log = (ev->flags & SNIC_MEMBER_ANY_LOG) != 0;
    return 0;
}

static int member_event(struct snic_member *m, const struct snic_member_event *ev)
{
    switch (ev->type) {
    case SNIC_MEMBER_STORED:
        if (m->storing == 0 || ev->id != m->storing)
            return SNIC_EINVAL;
        m->stored = m->storing;
        m->storing = 0;
        return 0;
    case SNIC_MEMBER_MESSAGE:
        return ev->msg == NULL ? SNIC_EINVAL : member_on_message(m, ev->msg);
    case SNIC_MEMBER_TICK:
        return 0;
    case SNIC_MEMBER_REPORT:
        return member_on_report(m, ev);
    case SNIC_MEMBER_OVERRIDE:
        return member_on_override(m, ev);
    case SNIC_MEMBER_CHANGE:
        return member_on_change(m, ev);
    case SNIC_MEMBER_CONFIRM:
        return member_confirm(m);
    default:
        return SNIC_EINVAL;
    }
}

/* What time, and what the event has made possible, brings. */
static void member_go_on(struct snic_member *m)
{
    if (m->lease_until_ns != 0 && m->now_ns >= m->lease_until_ns)
        m->lease_until_ns = 0;
    if (m->parked != 0 && m->now_ns >= m->parked_until_ns)
        m->parked_until_ns = m->now_ns;
    if (m->now_ns >= m->heartbeat_at_ns) {
        m->heartbeat_at_ns = m->now_ns + m->opts.heartbeat_ns;
        member_heartbeat(m);
        member_try_vote(m); /* and ask once more those it waits for */
    } else if (m->parked != 0 && m->parked_until_ns == m->now_ns) {
        member_try_vote(m);
    }
    member_on_stored(m);
    member_confirm_go_on(m);
    member_consider(m);
    if (m->storing == 0 && m->stored < m->generation && m->rec.incarnation != 0) {
        m->storing = m->generation;
        m->due.store = 1;
    }
}

int snic_member_step(struct snic_member *m, uint64_t now_ns, const struct snic_member_event *ev)
{
    SNIC_ASSERT(now_ns >= m->now_ns);
    SNIC_ASSERT(member_is_polled(m));
    uint64_t before = m->now_ns;
    int r;
    m->now_ns = now_ns;
    if (ev->type == SNIC_MEMBER_BOOT)
        r = member_boot(m, ev);
    else if (!m->booted)
        r = SNIC_EINVAL;
    else {
        /* This node was suspended and could not hear: silence is counted from now. */
        if (now_ns - before > m->opts.detect_ns / 2 + m->opts.heartbeat_ns)
            m->base_ns = now_ns;
        r = member_event(m, ev);
    }
    if (m->booted)
        member_go_on(m);
    return r;
}

/* ---- Actions ---- */

static void member_fill(const struct snic_member *m, uint32_t type, uint32_t to,
                        struct snic_member_msg *msg)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = (uint8_t)type;
    msg->src = (uint8_t)m->opts.node;
    msg->configured = member_configured(m);
    msg->witness = member_witness(m);
    msg->cluster = m->opts.cluster;
    msg->epoch = m->rec.decided.epoch;
    msg->src_incarnation = member_is_named(m) ? m->rec.incarnation : 0; /* of DECIDED, REJECT */
    SNIC_ASSERT(to < SNIC_MEMBER_NODES_MAX && to != m->opts.node);
    switch (type) {
    case SNIC_MEMBER_HEARTBEAT:
        msg->seq = m->seq;
        msg->hears = member_hears(m);
        msg->dst_incarnation = m->peers[to].incarnation;
        msg->lease_ns = m->opts.lease_ns;
        msg->since = m->rec.since;
        msg->flush_ns = m->flush_ns;
        if (m->lease_requests[m->seq % SNIC_MEMBER__LEASE_REQUESTS].seq == m->seq)
            msg->flags |= SNIC_MEMBER_MSG_LEASE_REQUEST;
        if (m->rec.decided.epoch != 0 && m->role == SNIC_MEMBER_ROLE_FENCED &&
            member_has(member_data(m), m->opts.node) &&
            !member_is_dead_file(&m->rec.decided, m->opts.node, m->rec.since))
            msg->flags |= SNIC_MEMBER_MSG_JOIN;
        if (m->caught_up)
            msg->flags |= SNIC_MEMBER_MSG_CAUGHT_UP;
        if (member_log_is_good(m))
            msg->flags |= SNIC_MEMBER_MSG_LOG_GOOD;
        if ((m->rec.flags & SNIC_MEMBER_REC_FIRST) != 0)
            msg->flags |= SNIC_MEMBER_MSG_FIRST;
        if (member_is_mute(m))
            msg->flags |= SNIC_MEMBER_MSG_MUTE;
        break;
    case SNIC_MEMBER_GRANT:
        msg->seq = m->peers[to].seq;
        msg->dst_incarnation = m->peers[to].incarnation;
        break;
    case SNIC_MEMBER_FENCE:
        msg->dst_incarnation = m->rec.decided.incarnation[to];
        break;
    case SNIC_MEMBER_DECIDED:
        msg->view = m->rec.decided;
        break;
    case SNIC_MEMBER_FENCE_ACK:
        break;
    default: /* of the register */
        msg->epoch = m->rec.decided.epoch + 1;
        msg->ballot = m->rec.promised; /* PROMISE, REJECT */
        if (type == SNIC_MEMBER_PREPARE || type == SNIC_MEMBER_ACCEPT)
            msg->ballot = m->ballot;
        if (type == SNIC_MEMBER_ACCEPT)
            msg->view = m->value;
        if (type == SNIC_MEMBER_ACCEPTED)
            msg->ballot = m->rec.accepted;
        if (type == SNIC_MEMBER_PROMISE) {
            msg->accepted = m->rec.accepted;
            msg->view = m->rec.proposal;
        }
        break;
    }
}

static int member_poll_send(struct snic_member *m, struct snic_member_action *out)
{
    for (uint32_t type = SNIC_MEMBER_HEARTBEAT; type < SNIC_MEMBER_MSG_TYPES; type++) {
        uint16_t to = m->due.send[type];
        if (to == 0)
            continue;
        if (type == SNIC_MEMBER_HEARTBEAT || type == SNIC_MEMBER_GRANT || type == SNIC_MEMBER_FENCE)
            to = (uint16_t)(to & -to); /* each has its own */
        m->due.send[type] &= (uint16_t)~to;
        out->type = SNIC_MEMBER_SEND;
        out->to = to;
        member_fill(m, type, (uint32_t)__builtin_ctz(to), &out->msg);
        return 1;
    }
    return 0;
}

int snic_member_poll(struct snic_member *m, struct snic_member_action *out)
{
    memset(out, 0, sizeof(*out));
    if (m->due.fence) {
        m->due.fence = 0;
        out->type = SNIC_MEMBER_LEASE;
        return 1;
    }
    if (m->due.store) {
        SNIC_ASSERT(m->storing == m->generation); /* M11: what is stored is the record of now */
        m->due.store = 0;
        out->type = SNIC_MEMBER_STORE;
        out->id = m->storing;
        out->record = m->rec;
        return 1;
    }
    if (m->due.view) {
        SNIC_ASSERT(m->installed == m->rec.decided.epoch); /* M4 */
        m->due.view = 0;
        out->type = SNIC_MEMBER_VIEW;
        out->role = m->role;
        out->view = m->rec.decided;
        return 1;
    }
    if (m->due.lease) {
        m->due.lease = 0;
        out->type = SNIC_MEMBER_LEASE;
        out->until_ns = m->lease_until_ns;
        return 1;
    }
    if (m->due.confirmed) {
        m->due.confirmed = 0;
        out->type = SNIC_MEMBER_CONFIRMED;
        out->id = m->confirmed;
        out->until_ns = m->confirmed_ns;
        return 1;
    }
    return member_poll_send(m, out);
}

uint64_t snic_member_deadline_ns(const struct snic_member *m)
{
    uint64_t at = m->heartbeat_at_ns;
    if (!m->booted)
        return SNIC_NEVER;
    if (m->parked != 0)
        at = snic_min_u64(at, m->parked_until_ns);
    if (m->confirm_above != SNIC_NEVER)
        at = snic_min_u64(at, m->confirm_at_ns);
    if (m->phase != MEMBER_IDLE)
        return snic_min_u64(at, snic_min_u64(m->retry_at_ns, m->give_up_ns));
    return snic_min_u64(at, m->want_at_ns);
}

void snic_member_get_status(const struct snic_member *m, struct snic_member_status *out)
{
    memset(out, 0, sizeof(*out));
    out->role = m->role;
    out->incarnation = m->rec.incarnation;
    out->vote = m->booted && !member_is_mute(m);
    out->hears = member_alive(m);
    out->fenced = m->fenced != 0 && m->fenced >= m->rec.decided.epoch;
    out->lease_until_ns = m->lease_until_ns;
    out->refused = m->refused;
    out->proposals = m->proposals;
    out->min_full = member_min_full(m);
    out->writable = (uint32_t)__builtin_popcount(m->rec.decided.full) >= out->min_full;
    out->change = m->change.state;
    out->slow = member_slow(m);
    out->silent = member_silent(m);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++)
        if (member_has(out->hears & member_view_voters(&m->rec.decided), n) &&
            member_since_of(m, n) == m->rec.decided.voter[n])
            out->voting |= member_bit(n);
    out->foreign = m->foreign;
    out->request = m->seq;
    out->confirmed = m->confirmed;
    out->confirmed_ns = m->confirmed_ns;
    out->view = m->rec.decided;
    if (m->booted && m->rec.incarnation == 0)
        out->state = SNIC_MEMBER_LOST;
    else if (!member_is_named(m))
        out->state = SNIC_MEMBER_BOOTING;
    else if (m->lease_until_ns > m->now_ns)
        out->state = SNIC_MEMBER_SERVING;
    else if (m->rec.decided.epoch != 0 &&
             (member_is_dead_file(&m->rec.decided, m->opts.node, m->rec.since) ||
              (!member_has(m->rec.decided.configured, m->opts.node) &&
               m->rec.since <= m->rec.decided.voter[m->opts.node])))
        out->state = SNIC_MEMBER_REPLACED;
    else if (!member_is_majority(m, out->hears))
        out->state = SNIC_MEMBER_NO_MAJORITY;
    else if (m->stuck_ns != SNIC_NEVER) {
        out->state = SNIC_MEMBER_RESTARTING;
        out->missing = member_restart_missing(m);
    } else if (m->role == SNIC_MEMBER_ROLE_FULL)
        out->state = SNIC_MEMBER_NO_LEASE;
    else if (m->role == SNIC_MEMBER_ROLE_LEARNER)
        out->state = SNIC_MEMBER_LEARNING;
    else
        out->state = SNIC_MEMBER_OUTSIDE;
}
