/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/gimbal.h
 * The storage switch of Gimbal (Min et al., SIGCOMM 2021, section 3 and appendix C): one per
 * device, shared by tenants, each with priority queues. It decides which I/O starts next and when,
 * so that the device stays busy, its latency low, and every tenant has its fair share of what
 * I/Os cost rather than of their number or bytes.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. I/Os are the caller's,
 *             borrowed from submit until complete or cancel. About 7 KiB per tenant of
 *             tenants_max, as much per group of groups_max, and 20 KiB.
 * Threads     [owner] one thread owns a switch; memsize is [any].
 * Progress    No call blocks. Amortised O(1) work per I/O, whatever the number of tenants, the
 *             sizes and the rounds skipped (in a group: the logarithm of the number of its tenants
 *             that have I/Os queued); no floating point, and no division of 64 bits but once
 *             per window, period or option.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds, bytes per second; of weights and write costs see their fields.
 *
 * How it is driven. Time comes in with each call. Arriving I/Os are passed to submit; after each
 * submit and each complete, poll is called until it returns NULL, and every I/O it returns is
 * started on the device at once; deadline is the time of the next poll if nothing happens before.
 *
 *     struct snic_gimbal_opts o = {.opts_size = sizeof(o)};
 *     size = snic_gimbal_memsize(&o);
 *     r = snic_gimbal_init(&g, aligned_alloc(SNIC_GIMBAL_ALIGN, size), size, &o, now);
 *     r = snic_gimbal_tenant_add(g, 0, NULL);
 *
 *     struct snic_gimbal_io io = {.tenant = 0, .size = 4096, .op = SNIC_GIMBAL_READ};
 *     r = snic_gimbal_submit(g, &io, now);
 *     while ((next = snic_gimbal_poll(g, now)) != NULL)
 *         start(next);                           // on the device, by the caller
 *     sleep_until(snic_gimbal_deadline_ns(g));   // or until the device has completed something:
 *     snic_gimbal_complete(g, next, 1, now);     // then poll again
 *
 * The way of an I/O. A tenant has two flows, its reads and its writes, each with queues by priority
 * and virtual slots of its own; order is kept within a priority of a flow. The flows take turns by
 * deficit round robin: a visit adds quantum_bytes per weight, half of it while both flows of the
 * tenant take turns; an I/O costs its size, a write its size times the write cost. Then it needs
 * room in one of its flow's virtual slots and, if the tenant has caps, their permission; a flow
 * without is passed over until it has. The chosen I/O then waits for the tokens of its type, and
 * all behind it wait with it: the round robin's choice is never reordered.
 *
 * The express lane. Two kinds of reads do not take turns, and pass an I/O that waits for tokens,
 * if they are not larger than quantum_bytes / SNIC_GIMBAL_EXPRESS_PART:
 *   - a read of priority SNIC_GIMBAL_EXPRESS or above, while its tenant has at most
 *     SNIC_GIMBAL_EXPRESS_DEPTH reads inside (queued or on the device);
 *   - the only I/O that its tenant has inside.
 * They need a slot, caps and read tokens as all do; their size becomes their flow's debt. The debt
 * is at most quantum_bytes / SNIC_GIMBAL_EXPRESS_PART for the first kind and quantum_bytes for the
 * second; a read that would exceed it takes turns. Debt is repaid, while the flow takes turns, from
 * its quanta before its deficit grows, and otherwise by the flow's share, by weight, of the costs
 * of all that is sent. So over any time a tenant gets by the lane at most its share and that debt.
 * SNIC_GIMBAL_NO_EXPRESS: all take turns.
 *
 * Virtual slots (section 3.5). A slot takes I/Os until their costs reach slot_bytes, and is free
 * when they have completed; half of them, while the tenant's other flow is on the device, so that
 * one that reads and writes has no more there than another. A tenant of weight w has w times the
 * share of a tenant of weight 1, which is slot_threshold / the sum of the weights of all active
 * tenants, rounded up, for each of its flows. A tenant is active from its first I/O until idle_ns
 * after its last: a client that sends one I/O after the other does not lose its slots to the others
 * between two.
 *   A slot of many I/Os waits for its slowest, a slot of a single large one for no other: this
 * evens out small and large I/Os (the paper's figure 7), and it leaves the device with too little
 * to do when all are small. So a flow may open a slot more while its I/Os out are fewer than
 * slot_overlap of what its slots hold: all active tenants, or none. All, if every one's slots hold
 * equally many reads (up to a factor of two), and more than one; none as soon as one writes, or
 * reads larger than another. SNIC_GIMBAL_SLOT_BARRIER: always none.
 *
 * Congestion control (Algorithm 1) sets the target rate on each completion by its type's latency,
 * averaged (EWMA) and compared with a floating threshold; Algorithm 4's two buckets turn it into
 * tokens. The write cost rises while writes are slow and falls while they are fast (section 3.4).
 *
 * Credits (section 3.6). complete leaves in the I/O how many I/Os the tenant's client may have
 * out: the slots it has times the I/Os of the slot completed last, or of slots before it if they
 * held more, an eighth less with each slot since, added up over the flows that it has used since it
 * became active; and slot_overlap of it while slots overlap. A client that sends more waits in the
 * queue; beyond queue_max it is refused.
 *
 * Groups. A tenant may belong to a group, which takes part as one tenant would: it has the weight,
 * the slots, the turns, the express debt and the caps of one, however many tenants belong to it.
 * Inside the group, reads are shared by weight, and so are writes (start-time fair queueing): the
 * next tenant is the one that will have received least, per weight, when its next I/O has left.
 * What counts is an I/O's cost. In a group with caps it is what the I/O takes from these, for reads
 * and writes together: so tenants of equal weight receive equal bytes (or I/Os, if that is the
 * cap), whatever the sizes of their I/Os. A tenant whose queue was empty for a while is preferred
 * for quantum_bytes per weight at most; one that the express lane or a floor served beyond its
 * share waits for quantum_bytes per weight and one I/O at most. What a tenant received in one group
 * does not count in the next. Its own caps and priorities count as before. There are two levels, no
 * groups of groups. A tenant may move at any time: what it has queued moves, what is on the device
 * is completed in the slots in which it was sent. A tenant's credit is its share of the group's.
 *
 * Floors. A tenant or group with I/Os queued gets at least its floor, less one percent and one I/O
 * in any second, whatever the others do, as long as the device can deliver the sum of the floors
 * that are used, and its group's caps allow the sum of those of its tenants. One that has sent less
 * since it has I/Os queued has its next I/O sent before the round robin's and before a held one. It
 * needs caps and the tokens of its type as all do, and may open slots beyond its share. All that is
 * sent counts towards the floor, and what the lane of floors sends becomes debt, of quantum_bytes
 * at most, so that a tenant has the larger of floor and share, not their sum. A floor costs nothing
 * while the tenant has nothing queued, and of that time one percent of a second at most is made up
 * for; a tenant that was late although it had I/Os queued catches up on SNIC_GIMBAL_FLOOR_LATE_NS
 * at most. I/Os larger than bucket_bytes take turns. Credit is at least what a client needs to have
 * out for its floor. When the owner polls later than one of the tenant's I/Os takes of its group's
 * cap, single small reads of others may take what the floor needs of that.
 *   The floors of a group's tenants may add up to more than its caps. While those that are used do,
 * each of these tenants gets the same part of its floor, whatever the sizes and types of their
 * I/Os, and the group's other tenants may get nothing; floor_part does not fall for that. When the
 * floors used fit the caps again, each has its floor again, and catches up as above.
 *   Of the costs of all that is sent, floors have 7/8 at most while others wait. When a floor is
 * late for SNIC_GIMBAL_FLOOR_LATE_NS / 4, all are cut in proportion, and restored in small steps
 * when none is: floor_part in the view, the floors that hold now in the views of tenants.
 *
 * Starvation. As long as the device completes each I/O within device_ns and the owner
 * polls at deadlines, the n-th I/O to leave of a flow by its turns (by its priorities') leaves
 * within n times snic_gimbal_wait_max_ns(): with Q = quantum_bytes, C = size_max times the worst
 * write cost, A tenants, W the sum of their weights, w the tenant's weight and
 * k = (C + Q) / (Q w / 2) rounds, rounded up, plus two, that is
 *
 *     device_ns + 2 (k Q W + A (2 C + Q) W / w) / rate_min, and what its caps cost for size_max.
 *
 * The second summand has what each flow's deficit, and each tenant's express debt, let pass. Groups
 * count as tenants of their weights, w of a tenant of a group is the group's times the tenant's
 * part of its members' weights, and while there are floors all but device_ns is eight times as
 * long. What its caps cost is one I/O's time. A tenant of a group with caps waits, beyond this
 * bound, while the group's other tenants use these: it has its part, by weight, of what their
 * floors leave of the caps.
 *
 * A device that loses I/Os. The slot of I/Os that are out for lost_ns (at the latest after twice
 * that, if it is not full) is abandoned: its tenant gets another. The I/Os stay in flight, keep
 * their part of queue_max and are completed as usual, once, whenever they come. When the device
 * has completed nothing at all for lost_ns, one slot is abandoned per lost_ns, of all tenants: so a
 * dead device gets no more than all slots, and then one slot of I/Os per lost_ns.
 *
 * Learning the device (SNIC_GIMBAL_LEARN). thresh_min_ns, thresh_max_ns, write_cost_worst,
 * slot_threshold and rate_max, where they are 0, begin with their defaults, or with what follows
 * from a profile that was stored (snic_gimbal_profile_set()), and then follow the device:
 *   - The latency of I/Os that have the device for themselves is measured (the upper quartile of
 *     eight), twice a second if there are such: thresh_min_ns is 1.25 times that of a read of
 *     128 KiB, or of a write if that takes longer. Where the traffic leaves none alone the switch
 *     sends eight I/Os one by one: after init, when rate or latency differ by more than an eighth
 *     (a quarter beside writes) from the half second before, and every 4 s (a quiet time: 8 ms at
 *     most, 62 ms until something is known and of devices that take milliseconds). The controller
 *     learns nothing from these. Other sizes, and writes where there are no reads, are scaled by
 *     the latencies of the SSD that the defaults were made for.
 *     What is learned raises thresholds and never lowers them below the defaults: a fast device
 *     that pauses, or answers some reads from memory, would be held far below its rate. The price:
 *     on a device faster than the defaults' one latencies are those that the defaults allow, unless
 *     lower thresholds are set.
 *   - The rate of reads while the device has more than it can do gives thresh_max_ns: six times
 *     thresh_min_ns, or the time that 2.75 times the slots take at that rate if that is more. It
 *     gives the slots, too, eight or one and a half times what that rate needs at that latency,
 *     and rate_max.
 *   - write_cost_worst is 9, or how many times the rate of writes alone that of reads alone of
 *     the same size was, if that is more, up to 18: the cost itself falls as soon as writes are
 *     fast.
 *   - When the device has completed nothing for thresh_max_ns, and that again per slot_bytes of the
 *     I/O, all of it has paused: that is no congestion, and I/Os sent before teach the controller
 *     nothing.
 *   - A rate at which I/Os lacked tokens is the switch's: it lowers nothing that is known.
 * A latency that falls is followed at once, one that rises by more than an eighth when two batches
 * of measurements agree; the first batch after init decides alone, so what was stored and is wrong
 * is gone after eight I/Os, its rates included.
 *
 * Departures from the paper, with the reasons; where a flag is named, it is the printed form.
 *  1. Tokens are kept on overload; Algorithm 1 line 14 discards them, which punishes reads for the
 *     latency of writes on a fragmented device (SNIC_GIMBAL_DISCARD).
 *  2. A slot closes at slot_bytes; Algorithm 2 line 7 above it, and two I/Os of 128 KiB go into one
 *     (SNIC_GIMBAL_SLOT_ABOVE).
 *  3. Slots overlap when all I/Os are small reads alike, see above (SNIC_GIMBAL_SLOT_BARRIER).
 *  4. An overload sets the target to the completion rate of the last window or, if that is more, to
 *     the usual one (the windows' EWMA of weight 1/8), 7/8 of it while not all read alike: one
 *     stall does not reset it to a low moment. Below those 7/8 it rises by steps 16 times as large:
 *     a device that was overloaded would lag behind the others for long. A window holds
 *     rate_window_ns in which the device had I/Os; a gap between completions counts for no more
 *     than one. A window without completions is ignored.
 *  5. Algorithm 4 line 11 as printed lets one bucket overwrite the other; here each overflow goes
 *     to the other bucket and each is limited. A request larger than a bucket waits for a bucket
 *     of its size. (SNIC_GIMBAL_ONE_BUCKET is appendix C.1's single one.)
 *  6. The states compare as section 3.3's text (a threshold belongs to the state above it), not
 *     with Algorithm 1's ">". Thresholds stay within their limits, midpoints are rounded up, the
 *     target rate has a floor and a ceiling.
 *  7. Rounds in which a tenant could only collect deficit are skipped by arithmetic, so that an
 *     8 MiB write at cost 9 costs no more work than a 4 KiB read.
 *  8. A tenant that runs out of slots keeps what is left of its turn, one quantum at most, frozen;
 *     the paper takes it, which costs light tenants more than heavy ones.
 *  9. The I/Os of a slot, for credit, fall by an eighth a slot at most: by the latest slot alone,
 *     one large write lets its tenant's client send one small read at a time until these have
 *     filled a slot (SNIC_GIMBAL_CREDIT_LATEST).
 * 10. Reads and writes have queues and slots of their own: in one, a tenant's large writes fill the
 *     slot that its small reads need.
 * 11. The express lane: otherwise writes that wait for tokens stop everybody, and one small read
 *     beside sixteen writers takes four times as long as without a switch.
 * 12. Slots per share are rounded up (the paper's division leaves five tenants with five slots of
 *     eight), and the default rate_max gives way to a faster device.
 * 13. Beyond the paper: weights, caps, floors, groups, priorities' weights, abandoned slots,
 *     tenants added and removed at run time.
 */
#ifndef SNIC_GIMBAL_H
#define SNIC_GIMBAL_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory. Must not be moved or copied once initialised. */
struct snic_gimbal;

#define SNIC_GIMBAL_ALIGN SNIC_CACHELINE
#define SNIC_GIMBAL_TENANTS_MAX 4096
#define SNIC_GIMBAL_PRIORITIES 8
/** The express lane: from which priority on, of tenants with how many reads inside at most, and
 * what part of a quantum a read, and the debt of such a tenant, may have. */
#define SNIC_GIMBAL_EXPRESS 6
#define SNIC_GIMBAL_EXPRESS_DEPTH 8
#define SNIC_GIMBAL_EXPRESS_PART 8
#define SNIC_GIMBAL_WEIGHT_MAX 256
#define SNIC_GIMBAL_GROUPS_MAX 1024
/** floor_part is fixed point: this is 1.0. */
#define SNIC_GIMBAL_FLOOR_ONE 65536
/** How late a floor may be and still catch up. */
#define SNIC_GIMBAL_FLOOR_LATE_NS UINT64_C(200000000)
/** Largest values of options: queue_max; size_max and bucket_bytes; slot_bytes and quantum_bytes.
 */
#define SNIC_GIMBAL_QUEUE_MAX (1u << 20)
#define SNIC_GIMBAL_SIZE_MAX (64u << 20)
#define SNIC_GIMBAL_SLOT_MAX (4u << 20)
/** Of the write cost (32), of rates and bytes_per_second (1 TB/s), of times (18 minutes). */
#define SNIC_GIMBAL_COST_MAX 512
#define SNIC_GIMBAL_RATE_MAX ((uint64_t)1 << 40)
#define SNIC_GIMBAL_NS_MAX ((uint64_t)1 << 40)
/** Write costs are fixed point: this is 1.0. */
#define SNIC_GIMBAL_COST_ONE 16
/** slot_overlap is fixed point: this is 1.0. Its default is 1.25: a little more than one slot keeps
 * the SSD model busy; 1.5 and 2 do not keep it busier, only let more wait in it. */
#define SNIC_GIMBAL_OVERLAP_ONE 256
#define SNIC_GIMBAL_OVERLAP 320

enum snic_gimbal_op { SNIC_GIMBAL_READ = 0, SNIC_GIMBAL_WRITE = 1 };

/** How an I/O ended, for snic_gimbal_complete(). */
enum snic_gimbal_outcome {
    SNIC_GIMBAL_FAILED = 0, /**< counted as an error; its latency is not measured            */
    SNIC_GIMBAL_DONE = 1,   /**< its bytes are counted and its latency measured              */
    SNIC_GIMBAL_UNTIMED = 2 /**< neither an error nor a measure of the device: one that moved
                                 no bytes (a discard), or was withdrawn before it was sent  */
};

/** The printed algorithms where ours depart from them; see the departures above. */
#define SNIC_GIMBAL_DISCARD (1u << 0)       /**< Alg. 1 line 14: drop tokens when overloaded      */
#define SNIC_GIMBAL_SLOT_ABOVE (1u << 1)    /**< Alg. 2 line 7: a slot closes above its size      */
#define SNIC_GIMBAL_SLOT_BARRIER (1u << 2)  /**< section 3.5: always wait for a slot's last I/O */
#define SNIC_GIMBAL_ONE_BUCKET (1u << 3)    /**< appendix C.1's single bucket                     */
#define SNIC_GIMBAL_CREDIT_LATEST (1u << 4) /**< section 3.6: credit by the latest slot alone   */
#define SNIC_GIMBAL_NO_EXPRESS (1u << 5)    /**< section 3.5: every I/O takes turns              */
/** Learn the device: see above. Options that are set stay as they are. */
#define SNIC_GIMBAL_LEARN (1u << 6)

/**
 * Zero it, set opts_size; a field that is 0 takes its default. Ranges hold for what is then there:
 * who sets thresh_max_ns below the default of thresh_min_ns, or rate_min above that of rate_start,
 * sets both. Times are 1..SNIC_GIMBAL_NS_MAX, rates 1..SNIC_GIMBAL_RATE_MAX.
 */
struct snic_gimbal_opts {
    uint32_t opts_size;
    uint32_t flags;            /**< SNIC_GIMBAL_*; unknown bits give SNIC_EINVAL           */
    uint32_t tenants_max;      /**< 1..SNIC_GIMBAL_TENANTS_MAX; default 64                 */
    uint32_t queue_max;        /**< I/Os queued or in flight per tenant,
                                    1..SNIC_GIMBAL_QUEUE_MAX; default 4096                 */
    uint32_t size_max;         /**< largest I/O, 1..SNIC_GIMBAL_SIZE_MAX; default 8 MiB    */
    uint32_t slot_bytes;       /**< a virtual slot, 512..SNIC_GIMBAL_SLOT_MAX; default
                                    128 KiB                                                */
    uint32_t slot_threshold;   /**< slots one lone tenant gets, 1..64; default 8           */
    uint32_t quantum_bytes;    /**< per round and weight, 512..SNIC_GIMBAL_SLOT_MAX;
                                    default 128 KiB                                        */
    uint64_t thresh_min_ns;    /**< below thresh_max_ns; default 250 us                    */
    uint64_t thresh_max_ns;    /**< default 1500 us                                        */
    uint32_t alpha_d_shift;    /**< EWMA weight 2^-n, 1..8; default 1                      */
    uint32_t alpha_t_shift;    /**< threshold decay 2^-n, 1..8; default 1                  */
    uint32_t beta;             /**< probing factor, 1..1024; default 8                     */
    uint32_t write_cost_worst; /**< in 1/SNIC_GIMBAL_COST_ONE, also at start;
                                    SNIC_GIMBAL_COST_ONE..SNIC_GIMBAL_COST_MAX (1 to 32);
                                    default 9 x                                            */
    uint32_t write_cost_delta; /**< likewise, 1..SNIC_GIMBAL_COST_MAX; default 0.5 x       */
    uint32_t bucket_bytes;     /**< each bucket, 512..SNIC_GIMBAL_SIZE_MAX; default 256 KiB */
    uint64_t rate_start;       /**< bytes/s, rate_min..rate_max; default 50 MB/s           */
    uint64_t rate_min;         /**< floor; default 4 MB/s                                  */
    uint64_t rate_max;         /**< ceiling; default 8 GB/s, or twice the usual completion
                                    rate if that is more                                   */
    uint64_t cost_period_ns;   /**< of the write cost's updates; default 20 ms             */
    uint64_t rate_window_ns;   /**< of the completion rate; default 10 ms                  */
    uint64_t lost_ns;          /**< I/Os out for longer hold no slot; default 2 s          */
    uint64_t idle_ns;          /**< without I/O, still active for so long; default 1 ms    */
    uint32_t slot_overlap;     /**< see virtual slots; 1..16 * SNIC_GIMBAL_OVERLAP_ONE;
                                    default SNIC_GIMBAL_OVERLAP                            */
    uint32_t groups_max;       /**< 0..SNIC_GIMBAL_GROUPS_MAX; default 0: no groups        */
};

/** Of a tenant or a group. Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_gimbal_tenant_opts {
    uint32_t opts_size;
    uint32_t weight; /**< 1..SNIC_GIMBAL_WEIGHT_MAX; default 1 */
    /**
     * Caps, 0: none, at most 2^40. In any second a tenant gets no more than its cap plus one
     * percent of it, or plus one I/O if that is more; a tenant with enough I/Os falls short of its
     * cap by that much at most, if the others leave it the time. Over a second in which the cap was
     * changed, however often, its average counts. Reads and writes that wait for a cap take turns.
     */
    uint64_t bytes_per_second;
    uint64_t ios_per_second;
    /** By priority: I/Os per cycle, in which the most urgent go first; default 1 << priority. */
    uint8_t priority_weight[SNIC_GIMBAL_PRIORITIES];
    /** Floors, 0: none, at most 2^40, and at most the cap of the same kind. See above. */
    uint64_t floor_bytes_per_second;
    uint64_t floor_ios_per_second;
    uint32_t group;    /**< the tenant's, 1..groups_max, which was added; 0: none; of a group: 0 */
    uint32_t reserved; /**< 0                                                              */
};

/**
 * Embed it and fill tenant, size, op, priority before submit; SNIC_CONTAINER finds the owner. The
 * rest may hold anything before.
 */
struct snic_gimbal_io {
    struct snic_link link; /**< the switch's while borrowed                                */
    uint32_t tenant;       /**< index 0..tenants_max-1                                     */
    uint32_t size;         /**< 1..size_max                                                */
    uint8_t op;            /**< enum snic_gimbal_op                                        */
    uint8_t priority;      /**< 0..7, 7 the most urgent; see the express lane              */
    uint16_t state;        /**< the switch's; 0 after complete and cancel                  */
    uint32_t weighted;     /**< out, with poll: what it costs                              */
    uint32_t slot;         /**< the switch's                                               */
    uint32_t credit;       /**< out, with complete: the tenant's credit                    */
    uint64_t queued_ns;    /**< out: submit                                                */
    uint64_t sent_ns;      /**< out: poll                                                  */
};

/** Of an I/O type, by its latency's EWMA: section 3.3. */
enum snic_gimbal_state {
    SNIC_GIMBAL_UNDERUTILISED = 0, /**< below thresh_min: rate += beta size                */
    SNIC_GIMBAL_AVOIDANCE = 1,     /**< below the threshold: rate += size                  */
    SNIC_GIMBAL_CONGESTED = 2,     /**< below thresh_max: rate -= size                     */
    SNIC_GIMBAL_OVERLOADED = 3     /**< rate = completion rate - size                      */
};

/** The virtual view of the device (section 3.7): a snapshot, cheap to read. */
struct snic_gimbal_view {
    uint64_t target_rate;
    uint64_t completion_rate; /**< of the last window; 0: none yet                         */
    uint64_t read_headroom;   /**< bytes/s of the target rate that reads get               */
    uint64_t write_headroom;  /**< the rest                                                */
    uint64_t ewma_ns[2];      /**< by enum snic_gimbal_op                                  */
    uint64_t thresh_ns[2];
    uint32_t state[2];   /**< enum snic_gimbal_state                                  */
    uint32_t write_cost; /**< in 1/SNIC_GIMBAL_COST_ONE                               */
    uint32_t tenants;    /**< added                                                   */
    uint32_t active;     /**< of them, those of a group together                      */
    uint32_t slots;      /**< per weight now                                          */
    uint32_t queued;
    uint32_t inflight;
    uint64_t lost;       /**< in flight, of abandoned slots                           */
    uint64_t entered[4]; /**< times each state was entered, both types                */
    uint32_t floor_part; /**< of each floor, that holds now, in 1/SNIC_GIMBAL_FLOOR_ONE */
    uint32_t floors;     /**< tenants and groups with a floor                         */
    uint32_t groups;     /**< added                                                   */
    uint32_t reserved;
    uint64_t floor_ios; /**< sent before their turn for a floor                      */
};

struct snic_gimbal_tenant_view {
    uint32_t credit;
    uint32_t queued;
    uint32_t inflight;
    uint32_t weight;
    uint64_t bytes[2]; /**< completed with ok, by op                                      */
    uint64_t ios[2];
    uint64_t wait_ns;   /**< sum of poll - submit                                          */
    uint64_t device_ns; /**< sum of complete - poll                                        */
    uint32_t deferred;  /**< 1: a flow is without a free slot                              */
    uint32_t draining;  /**< 1: removed, I/Os still inside                                 */
    uint64_t errors;    /**< ended as FAILED                                              */
    uint32_t lost;      /**< in flight, of abandoned slots                                 */
    uint32_t parked;    /**< 1: a flow waits for its own caps                              */
    uint64_t floor_bytes_per_second; /**< that hold now: after the cut                    */
    uint64_t floor_ios_per_second;
    uint64_t floor_ios; /**< sent before their turn for its floor                         */
    uint32_t late;      /**< 1: has I/Os queued and is behind its floor                   */
    uint32_t group;     /**< 0: none                                                      */
    uint32_t members;   /**< of a group: tenants that belong to it                        */
    uint32_t reserved;
};

/**
 * What was learned of a device, to be kept for the next time it is opened. 0: not known. Zero it,
 * set opts_size.
 */
struct snic_gimbal_profile {
    uint32_t opts_size;
    uint32_t reserved;      /**< 0                                                        */
    uint64_t read_ns;       /**< a read of 128 KiB alone, at most 10^9                    */
    uint64_t write_ns;      /**< likewise a write                                         */
    uint64_t read_rate[2];  /**< bytes/s of reads alone: below 32 KiB, others; at most
                                 SNIC_GIMBAL_RATE_MAX                                     */
    uint64_t write_rate[2]; /**< likewise                                                 */
};

/** What a switch that learns uses now, and from what it follows. */
struct snic_gimbal_learned {
    struct snic_gimbal_profile profile;
    uint64_t thresh_min_ns;
    uint64_t thresh_max_ns;
    uint64_t rate_max;
    uint32_t write_cost_worst;
    uint32_t slot_threshold;
    uint64_t changed_ns; /**< when one of these changed last; 0: not since init            */
    uint64_t changes;
    uint64_t batches; /**< of measurements                                               */
    uint64_t quiets;  /**< quiet times that were begun                                   */
    uint32_t stored;  /**< 1: no batch yet, these follow from a stored profile           */
    uint32_t reserved;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_gimbal_opts_wrong(const struct snic_gimbal_opts *o) SNIC_NONNULL(1);
/** Likewise of a tenant or a group; @p o may be NULL: defaults. [any] */
SNIC_API const char *snic_gimbal_tenant_opts_wrong(const struct snic_gimbal_tenant_opts *o);
/** Bytes snic_gimbal_init() needs for @p o, a multiple of SNIC_GIMBAL_ALIGN; 0: invalid. [any] */
SNIC_API size_t snic_gimbal_memsize(const struct snic_gimbal_opts *o) SNIC_NONNULL(1);
/**
 * Build a switch without tenants in @p mem, which stays the caller's, aligned to
 * SNIC_GIMBAL_ALIGN. @p out is untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_init(struct snic_gimbal **out, void *mem, size_t size,
                                             const struct snic_gimbal_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** The memory given to init; asserts that no I/O is inside. [owner] */
SNIC_API void *snic_gimbal_fini(struct snic_gimbal *g) SNIC_NONNULL(1);

/**
 * Add a tenant under a free index. @p o may be NULL: defaults. [owner]
 * @return 0; SNIC_EINVAL index or option out of range, or no such group; SNIC_EEXIST it is there
 *         already; SNIC_EBUSY one removed still has I/Os inside
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_add(struct snic_gimbal *g, uint32_t tenant,
                                                   const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1);
/**
 * Change weight, caps, floors, group and priorities' weights, all of them to those of @p o; I/Os
 * inside stay. It takes effect as of the last call that had a time. What was sent under a cap stays
 * owed under the next one, also if there was none in between; what was saved up stays saved, at
 * most a hundredth of a second's. The first cap of a tenant that had none begins with nothing
 * saved. [owner]
 * @return 0; SNIC_EINVAL option out of range, or no such group; SNIC_ENOENT no such tenant, or
 *         removed
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_set(struct snic_gimbal *g, uint32_t tenant,
                                                   const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1, 3);
/**
 * Accept no more of a tenant; what is inside goes its way, then the index is free. An I/O that the
 * device never completes keeps the index busy. [owner]
 * @return 0; SNIC_ENOENT no such tenant, or removed before
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_remove(struct snic_gimbal *g, uint32_t tenant)
    SNIC_NONNULL(1);

/**
 * Add the group @p group, 1..groups_max. Of @p o, which may be NULL, weight, caps and floors count;
 * group is 0. [owner]
 * @return 0; SNIC_EINVAL number or option out of range; SNIC_EEXIST it is there already
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_group_add(struct snic_gimbal *g, uint32_t group,
                                                  const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1);
/** As snic_gimbal_tenant_set(), of a group. [owner] @return 0; SNIC_EINVAL; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_gimbal_group_set(struct snic_gimbal *g, uint32_t group,
                                                  const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1, 3);
/**
 * Remove a group without tenants. [owner]
 * @return 0; SNIC_ENOENT no such group; SNIC_EBUSY it has tenants (those that were removed count
 *         until their last I/O), or I/Os of one that left are on the device
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_group_remove(struct snic_gimbal *g, uint32_t group)
    SNIC_NONNULL(1);

/**
 * Queue an I/O: borrowed until complete or cancel. In this and all calls a @p now_ns that goes
 * back counts as the latest seen. [owner]
 * @return 0; SNIC_EINVAL size, op or priority; SNIC_ENOENT no such tenant, or removed; SNIC_EBUSY
 *         the tenant has queue_max I/Os inside
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_submit(struct snic_gimbal *g, struct snic_gimbal_io *io,
                                               uint64_t now_ns) SNIC_NONNULL(1, 2);
/** The next I/O to start on the device now, or NULL. [owner] */
SNIC_API struct snic_gimbal_io *snic_gimbal_poll(struct snic_gimbal *g, uint64_t now_ns)
    SNIC_NONNULL(1);
/**
 * When poll may return an I/O, if nothing else is called before. After a poll that returned none it
 * lies in the future; SNIC_NEVER: not before a submit or a complete. An I/O that waits only for
 * tokens is returned at that time; at other deadlines poll may return none. [owner]
 */
SNIC_API uint64_t snic_gimbal_deadline_ns(const struct snic_gimbal *g) SNIC_NONNULL(1);
/**
 * An I/O that poll gave (asserted) goes to the device only now: its latency counts from here.
 * [owner]
 */
SNIC_API void snic_gimbal_begin(struct snic_gimbal *g, struct snic_gimbal_io *io, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/**
 * The device finished an I/O that poll gave (asserted): it is the caller's again. [owner]
 * @param outcome  enum snic_gimbal_outcome (asserted)
 */
SNIC_API void snic_gimbal_complete(struct snic_gimbal *g, struct snic_gimbal_io *io, int outcome,
                                   uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * Take back an I/O that waits. It must be inside (asserted). [owner]
 * @return 0; SNIC_EBUSY poll has given it out already
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_cancel(struct snic_gimbal *g, struct snic_gimbal_io *io,
                                               uint64_t now_ns) SNIC_NONNULL(1, 2);

/**
 * Begin with what was learned of this device before. It is checked as soon as there are I/Os, and
 * what has been measured since init goes before it. [owner]
 * @return 0; SNIC_EINVAL a value out of range, or the switch does not learn
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_profile_set(struct snic_gimbal *g,
                                                    const struct snic_gimbal_profile *p)
    SNIC_NONNULL(1, 2);
/** What was learned; without SNIC_GIMBAL_LEARN the options, and an empty profile. [owner] */
SNIC_API void snic_gimbal_get_learned(const struct snic_gimbal *g, struct snic_gimbal_learned *out)
    SNIC_NONNULL(1, 2);

/** The whole device as of the last call. [owner] */
SNIC_API void snic_gimbal_get_view(const struct snic_gimbal *g, struct snic_gimbal_view *out)
    SNIC_NONNULL(1, 2);
/** One tenant, also one that is draining. [owner] @return 0; SNIC_ENOENT no such tenant */
SNIC_API SNIC_NODISCARD int snic_gimbal_get_tenant_view(const struct snic_gimbal *g,
                                                        uint32_t tenant,
                                                        struct snic_gimbal_tenant_view *out)
    SNIC_NONNULL(1, 3);
/** One group: sums over what its tenants did while they belonged to it. [owner] @return 0;
 * SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_gimbal_get_group_view(const struct snic_gimbal *g, uint32_t group,
                                                       struct snic_gimbal_tenant_view *out)
    SNIC_NONNULL(1, 3);
/**
 * The bound of "Starvation" above for one I/O of @p tenant beside the tenants there are now, not
 * with SNIC_GIMBAL_DISCARD, and without what the caps of its group let the group's other tenants
 * send before; @p device_ns: the longest that the device takes, with lost I/Os
 * 2 lost_ns. 0: no such tenant; UINT64_MAX: not representable. [owner]
 */
SNIC_API uint64_t snic_gimbal_wait_max_ns(const struct snic_gimbal *g, uint32_t tenant,
                                          uint64_t device_ns) SNIC_NONNULL(1);
/**
 * Every structural invariant. O(tenants_max + I/Os queued). [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_gimbal_check(const struct snic_gimbal *g) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_GIMBAL_H */
