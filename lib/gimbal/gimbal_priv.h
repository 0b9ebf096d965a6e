/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Gimbal's inside: shared by the files of this module and its test.
 */
#ifndef SNIC_GIMBAL_PRIV_H
#define SNIC_GIMBAL_PRIV_H

#include "gimbal/learn_priv.h"

#define SNIC_GIMBAL__NIL UINT32_MAX
#define SNIC_GIMBAL__NO_SLOT 255
/* One byte in the buckets' unit: a rate in bytes/s times a time in ns. */
#define SNIC_GIMBAL__BYTE UINT64_C(1000000000)
/* Rounds that the calendar holds, and its words of 64 bits. */
#define SNIC_GIMBAL__ROUNDS 1024
#define SNIC_GIMBAL__WORDS (SNIC_GIMBAL__ROUNDS / 64)
/* Slots of a tenant have a bit each in a word. */
#define SNIC_GIMBAL__SLOTS 64
/* Of a tenant's bytes_per_second and ios_per_second. */
#define SNIC_GIMBAL__CAP_MAX ((uint64_t)1 << 40)
/* Their buckets, ns: one percent of a second. */
#define SNIC_GIMBAL__CATCH_UP UINT64_C(10000000)
/* Slots that a weight is turned into, beyond it slots get larger. */
#define SNIC_GIMBAL__LANES 16
/* Classes of slots by the logarithm of their I/Os. */
#define SNIC_GIMBAL__GRAINS 32

/* Where a flow is. */
enum gimbal_where {
    GIMBAL_IDLE = 0, /* nothing queued, known to be so at the next visit, or express alone */
    GIMBAL_LISTED,   /* on the calendar */
    GIMBAL_CURRENT,  /* its turn now */
    GIMBAL_DEFERRED, /* without a slot */
    GIMBAL_PARKED,   /* its caps' timer is armed */
    GIMBAL_INNER     /* of a tenant of a group: on the group's heap */
};

enum gimbal_flag {
    GIMBAL_ADDED = 1,
    GIMBAL_REMOVED = 2, /* accepts no more; freed with its last I/O */
    GIMBAL_COUNTED = 4, /* among the active */
    GIMBAL_LINGERS = 8, /* counted, but without I/O */
    GIMBAL_CAPPED = 16,
    GIMBAL_GROUP = 32,
    GIMBAL_FLOORED = 64
};

enum gimbal_io_state { GIMBAL_IO_FREE = 0, GIMBAL_IO_QUEUED = 0x51, GIMBAL_IO_OUT = 0x52 };

/* A virtual slot: free, open (collecting) or full. */
struct gimbal_slot {
    uint64_t sent_ns;  /* its last I/O */
    uint64_t since_ns; /* on the watch list */
    uint32_t next;     /* the watch list, by slot number */
    uint32_t prev;
    uint32_t use;      /* counts its uses; an I/O of an earlier use is a lost one */
    uint32_t out;      /* I/Os on the device */
    uint32_t ios;      /* I/Os sent */
    uint32_t weighted; /* of its present part */
    uint16_t parts;    /* left to fill */
    uint8_t used;
    uint8_t full;
    uint8_t watched;
};

/* A speed limit as the time that a unit costs: (units * mantissa) >> shift is ns. */
struct gimbal_pace {
    uint32_t mantissa;
    uint32_t shift;
    uint64_t free_ns; /* when what was sent is paid for */
    uint64_t part;    /* below 1 ns, in 2^-64 ns */
    uint64_t limit;   /* per second; of a cap that is gone, the last one */
    uint64_t rest;    /* of a change: units times ns, below limit */
    uint64_t reach_ns;
    uint64_t reach_from_ns;
};

/* Of a heap (heap.c). */
struct gimbal_node {
    uint64_t key;
    struct gimbal_node *child; /* the first */
    struct gimbal_node *next;  /* sibling */
    struct gimbal_node *prev;
};

struct gimbal_tenant;

/*
 * A tenant's reads, or its writes. Flows are numbered: twice the tenant's index, plus op. A group
 * is a tenant without queues, with an index behind all tenants'. A flow has two parts to play: it
 * owns I/Os, and it carries them, in turns and slots. A tenant of a group owns, its group carries.
 */
struct gimbal_flow {
    /* Read on each visit of the round robin. */
    uint32_t next; /* the list it is on, by flow */
    uint32_t prev;
    uint64_t deficit;
    uint64_t free_slots; /* one bit each */
    uint32_t quantum;    /* its part of the tenant's */
    uint32_t debt;       /* of express I/Os */
    uint64_t served;     /* the switch's, up to which debt was repaid outside of rounds */
    uint32_t round;      /* up to which it is credited */
    uint32_t due;        /* listed: in which round */
    uint32_t queued;     /* that it owns; of a group, that it carries */
    uint32_t inflight;   /* that it carries */
    uint32_t sent;       /* that it owns, on the device */
    uint32_t last_ios;   /* of a completed slot, for credit */
    uint32_t fill_ios;   /* of the slot that was filled last */
    uint8_t where;
    uint8_t op;      /* enum snic_gimbal_op */
    uint8_t ready;   /* priorities with I/Os, one bit each */
    uint8_t turn;    /* the priority that sent last */
    uint8_t left;    /* I/Os left in its turn */
    uint8_t open;    /* slot, or SNIC_GIMBAL__NO_SLOT */
    uint8_t used;    /* slots open or full */
    uint8_t grain;   /* logarithm of the I/Os of a slot's part; 0 with writes */
    uint8_t counted; /* its grain is: it had an I/O since its tenant became active */
    uint8_t express; /* on the express list */
    uint32_t lost;
    uint32_t opened; /* slots so far */
    uint32_t express_next;
    uint32_t express_prev;
    struct gimbal_tenant *tenant;
    struct gimbal_slot *slots;
    /* The last I/O of each priority's circular list; its next is the first. */
    struct snic_gimbal_io *last[SNIC_GIMBAL_PRIORITIES];
    struct snic_timer timer; /* of caps */
    /* The heap of a group's flow, of its tenants' flows with I/Os; of those, their place. */
    struct gimbal_node *inner_root;
    struct gimbal_node inner; /* key: its tag when its next I/O has left */
    uint64_t inner_tag;       /* what it has sent, per weight; of a group's flow: virtual time */
};

struct gimbal_tenant {
    struct gimbal_flow flow[2]; /* by enum snic_gimbal_op */
    uint32_t weight;
    uint32_t quantum;
    uint8_t flags;
    uint8_t lanes; /* slots of one share */
    /* What a completion writes. */
    uint64_t bytes[2];
    uint64_t ios[2];
    uint64_t wait_ns;
    uint64_t device_ns;
    uint64_t errors;
    /* The rest is rarely used. */
    uint8_t priority_weight[SNIC_GIMBAL_PRIORITIES];
    struct gimbal_pace pace[2]; /* bytes, I/Os */
    uint64_t idle_ns;           /* since when it lingers */
    uint32_t linger_next;       /* the linger list, by tenant */
    uint32_t linger_prev;
    uint8_t capped_op;             /* of the last I/O sent under caps */
    uint8_t floor_op;              /* that the lane of floors sent last */
    uint8_t laned;                 /* on the lane of floors */
    uint8_t floor_waits;           /* in its group's heap of those that wait for its caps */
    struct gimbal_pace floor[2];   /* bytes, I/Os; free_ns: due, by the clock of its group */
    struct snic_timer floor_timer; /* queued, and not due yet */
    struct gimbal_tenant *lane_next;
    struct gimbal_tenant *lane_prev;
    uint64_t floor_ios;
    struct gimbal_node floor_node; /* of that heap; key: when it is due */
    uint64_t floor_capped_ns;      /* when caps kept the lane from it last; 0: never */
    uint32_t floor_out;            /* what its client needs out, for credit */
    struct gimbal_tenant *group;   /* or NULL */
    uint32_t members;              /* of a group */
    uint32_t busy_weight;          /* of a group: of its tenants with I/Os inside */
    uint32_t inner_inverse;        /* 2^16 / weight, rounded up */
    uint32_t inner_part[2];        /* of inner_weight */
    /* Of a group. */
    uint32_t inner_weight[2]; /* of the flows with I/Os inside, in halves */
    uint32_t inner_io;        /* bytes that an I/O counts for at least under its caps */
    uint64_t inner_op_tag[2]; /* what reads and writes have sent under its caps, per weight */
    uint64_t inner_op_now;
    struct gimbal_node *floor_root; /* the heap of tenants whose floors wait for its caps */
    uint64_t floor_wait_ns;         /* when the caps let the first one go */
    uint64_t floor_slow_ns;         /* by how much its tenants' floors' clock is slow */
};

/* Latency monitor of an I/O type. */
struct gimbal_monitor {
    uint64_t ewma_ns;
    uint64_t thresh_ns;
    uint32_t state;
};

struct gimbal_list {
    uint32_t first;
    uint32_t last;
};

struct snic_gimbal {
    uint64_t now_ns;
    uint64_t deadline_ns;
    uint64_t timer_ns;           /* nothing below is due before */
    struct snic_gimbal_io *held; /* the current flow's, lacks tokens only */
    struct gimbal_flow *current;
    struct gimbal_tenant *tenants;
    uint32_t round;
    uint32_t slots; /* a weight's share */
    uint32_t active;
    uint32_t active_weight;
    uint32_t grain_bits; /* bit k: grains[k] is not 0 */
    uint32_t queued;
    uint32_t inflight;
    uint32_t write_cost;
    /* The buckets. */
    uint64_t tokens[2];
    uint64_t cap[2];
    uint64_t filled_ns;
    uint32_t share;      /* of reads, in 2^-32 */
    uint32_t stretch[2]; /* total earned per token of a type, in 2^-24, rounded up */
    /* The controller. */
    uint64_t target_rate;
    uint64_t completion_rate; /* of the last window, 0: none yet */
    uint64_t usual_rate;      /* of the windows of the last tenth of a second or so */
    uint32_t rate_open;       /* rate_max is the default, not a limit that was set */
    uint64_t window_bytes;
    uint64_t window_ns;
    uint64_t done_ns; /* the last completion, or the first start on an empty device */
    uint64_t cost_ns; /* when the write cost is looked at again */
    uint32_t cost_writes;
    struct gimbal_monitor monitor[2];
    uint64_t entered[4];
    /* Slots with I/Os out, longest first; what lingers, what is deferred. */
    uint64_t alive_ns;  /* the device completed something, or began to work */
    uint64_t probe_ns;  /* a dead device's last slot abandoned */
    uint64_t paused_ns; /* learning: the end of the device's last pause */
    struct gimbal_list watch;
    struct gimbal_list linger;
    struct gimbal_list deferred;
    struct gimbal_list express;
    uint64_t served;       /* costs of all I/Os sent, per weight of the active tenants */
    uint64_t served_share; /* 2^32 / active_weight, rounded up */
    uint32_t lost;
    uint32_t count;   /* tenants added */
    uint32_t groups;  /* added */
    uint32_t objects; /* tenants and groups that there may be */
    /* Floors. */
    struct gimbal_tenant *lane_first; /* those due */
    struct gimbal_tenant *lane_last;
    int64_t lane_left;      /* costs that the lane may send while others wait */
    uint64_t floor_late_ns; /* the most, since floor_ns */
    uint64_t floor_ns;      /* when the cut is looked at again */
    uint32_t floor_part;    /* of each floor that holds, in 1/SNIC_GIMBAL_FLOOR_ONE */
    uint32_t floor_rise;    /* by which 2^-n it rises next */
    uint32_t floor_stretch; /* 1 / floor_part, likewise */
    uint32_t floors;        /* tenants and groups that have one */
    uint64_t floor_ios;
    uint32_t slot_objects;
    uint32_t grains[SNIC_GIMBAL__GRAINS]; /* flows of active tenants, of each grain */
    struct snic_gimbal_opts o;
    struct gimbal_tuning set; /* by the options; 0: follows what is learned */
    uint64_t tuned_ns;        /* when it changed last */
    uint64_t tunings;
    struct gimbal_learn learn;
    struct snic_wheel wheel;
    /* The calendar. */
    uint64_t words; /* bit w: occupied[w] is not 0 */
    uint64_t occupied[SNIC_GIMBAL__WORDS];
    struct gimbal_list rounds[SNIC_GIMBAL__ROUNDS];
    struct gimbal_slot *all_slots;
};

static inline uint32_t gimbal_index(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    return (uint32_t)(t - g->tenants);
}

static inline uint32_t gimbal_flow_index(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    return 2 * gimbal_index(g, f->tenant) + f->op;
}

static inline struct gimbal_flow *gimbal_flow_at(const struct snic_gimbal *g, uint32_t number)
{
    return &g->tenants[number / 2].flow[number % 2];
}

static inline struct gimbal_flow *gimbal_flow_of(const struct snic_gimbal *g,
                                                 const struct snic_gimbal_io *io)
{
    return &g->tenants[io->tenant].flow[io->op];
}

static inline struct gimbal_flow *gimbal_flow_sibling(const struct gimbal_flow *f)
{
    return &f->tenant->flow[f->op ^ 1];
}

/* What carries the flow's I/Os: its group's flow, or itself. */
static inline struct gimbal_flow *gimbal_carrier(struct gimbal_flow *f)
{
    return f->tenant->group != NULL ? &f->tenant->group->flow[f->op] : f;
}

/* Of a group's flow: its tenants' flow that is next; NULL: none has I/Os, or it is a tenant's. */
static inline struct gimbal_flow *gimbal_inner_next(const struct gimbal_flow *c)
{
    return c->inner_root != NULL ? SNIC_CONTAINER(c->inner_root, struct gimbal_flow, inner) : NULL;
}

/* Of a group: the tenant whose floor waits for its caps and is due first; NULL: none. */
static inline struct gimbal_tenant *gimbal_floor_first(const struct gimbal_tenant *group)
{
    return group->floor_root != NULL
               ? SNIC_CONTAINER(group->floor_root, struct gimbal_tenant, floor_node)
               : NULL;
}

/* The I/Os that it owns, queued and on the device. */
static inline uint32_t gimbal_inside(const struct gimbal_tenant *t)
{
    return t->flow[0].queued + t->flow[0].sent + t->flow[1].queued + t->flow[1].sent;
}

/* The I/Os that it carries. */
static inline uint32_t gimbal_carried(const struct gimbal_tenant *t)
{
    uint32_t queued = t->group == NULL ? t->flow[0].queued + t->flow[1].queued : 0;
    return queued + t->flow[0].inflight + t->flow[1].inflight;
}

/*
 * 1 while no tenant gains at another's expense if slots overlap: no active tenant's slots
 * are of single I/Os or have writes, and all hold equally many, up to a factor of two.
 */
static inline int gimbal_alike(const struct snic_gimbal *g)
{
    return (g->grain_bits & 1) == 0 && (g->grain_bits & (g->grain_bits - 1)) == 0;
}

/* What an I/O weighs now: its size, for writes times the write cost. */
static inline uint32_t gimbal_weighted(const struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    if (io->op == SNIC_GIMBAL_READ)
        return io->size;
    return (uint32_t)((uint64_t)io->size * g->write_cost / SNIC_GIMBAL_COST_ONE);
}

/* bucket.c */
void gimbal_bucket_init(struct snic_gimbal *g);
void gimbal_bucket_share(struct snic_gimbal *g);
void gimbal_bucket_fill(struct snic_gimbal *g, uint64_t now);
int gimbal_bucket_take(struct snic_gimbal *g, const struct snic_gimbal_io *io);
int gimbal_bucket_same(const struct snic_gimbal *g, const struct snic_gimbal_io *a,
                       const struct snic_gimbal_io *b);
void gimbal_bucket_hold(struct snic_gimbal *g, const struct snic_gimbal_io *io);
void gimbal_bucket_release(struct snic_gimbal *g, const struct snic_gimbal_io *io);
uint64_t gimbal_bucket_ready_ns(const struct snic_gimbal *g, const struct snic_gimbal_io *io);
void gimbal_bucket_discard(struct snic_gimbal *g);
uint64_t gimbal_bucket_reads(const struct snic_gimbal *g);
int gimbal_bucket_check(const struct snic_gimbal *g);

/* congestion.c */
void gimbal_congestion_init(struct snic_gimbal *g);
void gimbal_congestion_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, uint64_t now);
void gimbal_congestion_limits(struct snic_gimbal *g);
int gimbal_congestion_check(const struct snic_gimbal *g);

/* cost.c */
void gimbal_cost_init(struct snic_gimbal *g);
void gimbal_cost_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, uint64_t now);

/* tune.c */
void gimbal_tune_init(struct snic_gimbal *g, const struct snic_gimbal_opts *o);
void gimbal_tune_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, int timed);
int gimbal_tune_quiet(struct snic_gimbal *g);
int gimbal_tune_check(const struct snic_gimbal *g);

static inline int gimbal_learns(const struct snic_gimbal *g)
{
    return (g->o.flags & SNIC_GIMBAL_LEARN) != 0;
}

/* slot.c */
void gimbal_slot_share(struct snic_gimbal *g);
void gimbal_slot_init(struct snic_gimbal *g, struct gimbal_flow *f);
int gimbal_slot_open(struct snic_gimbal *g, struct gimbal_flow *f);
int gimbal_slot_more(struct gimbal_flow *f);
void gimbal_slot_active(struct snic_gimbal *g, struct gimbal_tenant *t, int active);
void gimbal_slot_count(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_slot_weight(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t weight);
void gimbal_slot_send(struct snic_gimbal *g, struct gimbal_flow *f, struct snic_gimbal_io *io);
void gimbal_slot_done(struct snic_gimbal *g, struct gimbal_flow *f,
                      const struct snic_gimbal_io *io);
uint64_t gimbal_slot_watch(struct snic_gimbal *g, uint64_t now);
void gimbal_slot_drop(struct snic_gimbal *g, struct gimbal_flow *f);
uint32_t gimbal_slot_credit(const struct snic_gimbal *g, const struct gimbal_tenant *t);
int gimbal_slot_check(const struct snic_gimbal *g);

/* round.c */
void gimbal_list_append(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_flow *f);
void gimbal_list_remove(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_flow *f);
void gimbal_round_init(struct snic_gimbal *g);
void gimbal_round_join(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_round_replace(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_round_wait(struct snic_gimbal *g, struct gimbal_flow *f, uint32_t cost);
void gimbal_round_behind(struct snic_gimbal *g, struct gimbal_flow *f,
                         const struct gimbal_flow *other);
void gimbal_round_quit(struct snic_gimbal *g, struct gimbal_flow *f, enum gimbal_where where);
void gimbal_round_repay(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_round_leave(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_round_weight(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t quantum);
struct gimbal_flow *gimbal_round_next(struct snic_gimbal *g);
int gimbal_round_check(const struct snic_gimbal *g);

/* express.c */
void gimbal_express_offer(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_express_leave(struct snic_gimbal *g, struct gimbal_flow *f);
struct snic_gimbal_io *gimbal_express_next(struct snic_gimbal *g);
void gimbal_express_sent(struct snic_gimbal *g, struct gimbal_flow *f,
                         const struct snic_gimbal_io *io);
int gimbal_express_check(const struct snic_gimbal *g);

/* queue.c */
struct snic_gimbal_io *gimbal_flow_first(const struct gimbal_flow *f, unsigned priority);
struct snic_gimbal_io *gimbal_flow_head(const struct gimbal_flow *f);
void gimbal_flow_send(struct gimbal_flow *f, struct snic_gimbal_io *io);
void gimbal_flow_push(struct gimbal_flow *f, struct snic_gimbal_io *io);
void gimbal_flow_take(struct gimbal_flow *f, struct snic_gimbal_io *io);

/* heap.c */
static inline int gimbal_key_before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}
void gimbal_heap_insert(struct gimbal_node **root, struct gimbal_node *n);
void gimbal_heap_remove(struct gimbal_node **root, struct gimbal_node *n);
int gimbal_heap_check(const struct gimbal_node *root, const struct gimbal_node *n, uint32_t *below);

/* group.c */
struct gimbal_flow *gimbal_group_queued(const struct snic_gimbal *g, struct gimbal_flow *f,
                                        const struct snic_gimbal_io *io);
void gimbal_group_taken(const struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_group_sent(const struct snic_gimbal *g, struct gimbal_flow *f,
                       const struct snic_gimbal_io *io);
void gimbal_group_join(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_group_enter(const struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_group_leave(struct gimbal_flow *f);
void gimbal_group_busy(struct gimbal_tenant *t, int member);
uint64_t gimbal_group_floor_ns(const struct snic_gimbal *g, const struct gimbal_flow *f,
                               const struct snic_gimbal_io *io);
int gimbal_group_passes(const struct snic_gimbal *g, const struct gimbal_flow *f,
                        const struct snic_gimbal_io *io);
int gimbal_group_check(const struct snic_gimbal *g);

/* floor.c */
void gimbal_floor_init(struct snic_gimbal *g);
void gimbal_floor_set(struct snic_gimbal *g, struct gimbal_tenant *t,
                      const struct snic_gimbal_tenant_opts *o);
void gimbal_floor_begin(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t queued);
void gimbal_floor_offer(struct snic_gimbal *g, struct gimbal_tenant *t);
void gimbal_floor_cancelled(struct snic_gimbal *g, struct gimbal_tenant *t);
void gimbal_floor_move(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct gimbal_tenant *to);
void gimbal_floor_fired(struct snic_timer *timer, uint64_t now);
void gimbal_floor_expired(struct snic_gimbal *g, struct gimbal_tenant *t);
struct snic_gimbal_io *gimbal_floor_next(struct snic_gimbal *g);
void gimbal_floor_pay(struct snic_gimbal *g, struct gimbal_tenant *t,
                      const struct snic_gimbal_io *io);
void gimbal_floor_sent(struct snic_gimbal *g, struct gimbal_flow *c,
                       const struct snic_gimbal_io *io);
uint32_t gimbal_floor_credit(const struct snic_gimbal *g, struct gimbal_tenant *t,
                             const struct snic_gimbal_io *io);
void gimbal_floor_turn(struct snic_gimbal *g, uint32_t weighted);
void gimbal_floor_adapt(struct snic_gimbal *g);
uint64_t gimbal_floor_now(const struct snic_gimbal *g, const struct gimbal_pace *p);
int gimbal_floor_late(const struct snic_gimbal *g, const struct gimbal_tenant *t);
int gimbal_floor_check(const struct snic_gimbal *g);

/* tenant.c */
void gimbal_tenant_free(struct snic_gimbal *g, struct gimbal_tenant *t);
void gimbal_tenant_active(struct snic_gimbal *g, struct gimbal_tenant *t);
void gimbal_tenant_empty(struct snic_gimbal *g, struct gimbal_tenant *t);
uint64_t gimbal_tenant_linger(struct snic_gimbal *g, uint64_t now);
void gimbal_tenant_uncount(struct snic_gimbal *g, struct gimbal_tenant *t);
int gimbal_tenant_check(const struct snic_gimbal *g);

/* cap.c */
void gimbal_cap_pace(struct gimbal_pace *p, uint64_t per_second);
uint64_t gimbal_cap_time(const struct gimbal_pace *p, uint32_t units);
void gimbal_cap_set(struct gimbal_tenant *t, const struct snic_gimbal_tenant_opts *o, uint64_t now,
                    uint32_t size_max);
uint64_t gimbal_cap_ready_ns(struct gimbal_tenant *t, const struct snic_gimbal_io *io,
                             uint64_t now);
void gimbal_cap_pay(struct gimbal_tenant *t, const struct snic_gimbal_io *io, uint64_t now);
uint64_t gimbal_cap_cost_ns(const struct gimbal_tenant *t, uint32_t size);
void gimbal_cap_park(struct snic_gimbal *g, struct gimbal_flow *f, uint64_t ready_ns);
void gimbal_cap_members(struct snic_gimbal *g, struct gimbal_flow *c);
void gimbal_cap_unpark(struct snic_gimbal *g, struct gimbal_flow *f);
void gimbal_cap_fired(struct snic_timer *t, uint64_t now);

/* ---- opts.c: all defaults filled in; NULL, or which option is wrong: "NAME: what" ---- */

const char *gimbal_opts_fill(struct snic_gimbal_opts *full, const struct snic_gimbal_opts *o);
/* 1: @o, which is right, leaves rate_max to its default. */
int gimbal_opts_rate_open(const struct snic_gimbal_opts *o);
/* @o may be NULL: defaults. */
const char *gimbal_tenant_opts_fill(struct snic_gimbal_tenant_opts *full,
                                    const struct snic_gimbal_tenant_opts *o);

#endif /* SNIC_GIMBAL_PRIV_H */
