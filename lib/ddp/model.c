/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The five models of ddp.h as data, after the paper's figures 2 and 3. A row has, for each action
 * of a coordinator, the conditions that it waits for; C, P, L are of enum ddp_cond. A row belongs
 * to a write, which carries its number in INV: a node's model is the row of its writes that name no
 * durability.
 *
 * Where a row differs from the paper's:
 * - REnf waits for the coordinator's own persist before reads are let in (H10); the paper's text
 *   names the followers' only, and then a value could be read that a crash un-happens.
 * - Strict: VAL_C does not wait for the coordinator's own persist, which precedes it in program
 *   order (H11); SNIC_DDP_VALC_AFTER_PERSIST is the paper's order.
 * - Scope: gd is never raised: what a [PERSIST]sc makes durable is its scope (amendment A7). In
 *   the rows that never raise gd, a read that must be durable does (read.c).
 * - REnf: gv rises when all have stored it, the lock stays until all have it durable; the table
 *   allows both.
 */
#include "ddp_priv.h"

#define C DDP_C
#define P DDP_P
#define L DDP_L
#define NEVER DDP_NEVER

static const struct ddp_rules ddp_models[] = {
    [SNIC_DDP_SYNCH] = {.release = C | P | L,
                        .gv = C | P | L,
                        .gd = C | P | L,
                        .val = C | P | L,
                        .val_type = SNIC_DDP_VAL,
                        .val_p = NEVER,
                        .answer = C | P | L,
                        .all = C | P | L,
                        .acks = DDP_ONE,
                        .val_durable = 1},
    [SNIC_DDP_STRICT] = {.release = C,
                         .gv = C,
                         .gd = C | P | L,
                         .val = C,
                         .val_type = SNIC_DDP_VAL_C,
                         .val_p = C | P | L,
                         .answer = C | P | L,
                         .all = C | P | L,
                         .acks = DDP_SPLIT,
                         .watch_gd = 1},
    [SNIC_DDP_RENF] = {.release = C | P | L,
                       .gv = C,
                       .gd = C | P | L,
                       .val = C | P | L,
                       .val_type = SNIC_DDP_VAL,
                       .val_p = NEVER,
                       .answer = C,
                       .all = C | P | L,
                       .acks = DDP_SPLIT,
                       .val_durable = 1,
                       .background = 1},
    [SNIC_DDP_EVENT] = {.release = C,
                        .gv = C,
                        .gd = NEVER,
                        .val = C,
                        .val_type = SNIC_DDP_VAL_C,
                        .val_p = NEVER,
                        .answer = C,
                        .all = C,
                        .acks = DDP_C_ONLY,
                        .background = 1},
    [SNIC_DDP_SCOPE] = {.release = C,
                        .gv = C,
                        .gd = NEVER,
                        .val = C,
                        .val_type = SNIC_DDP_VAL_C,
                        .val_p = NEVER,
                        .answer = C,
                        .all = C,
                        .acks = DDP_C_ONLY,
                        .background = 1},
    /* As Event, but the answer waits for the coordinator's own log. */
    [DDP_HERE] = {.release = C,
                  .gv = C,
                  .gd = NEVER,
                  .val = C,
                  .val_type = SNIC_DDP_VAL_C,
                  .val_p = NEVER,
                  .answer = C | L,
                  .all = C | L,
                  .acks = DDP_C_ONLY,
                  .background = 1},
};

#undef C
#undef P
#undef L
#undef NEVER

static uint8_t ddp_rules_first(const struct ddp_rules *u)
{
    const uint8_t all[] = {u->release, u->gv, u->gd, u->val, u->val_p, u->answer, u->all};
    uint32_t first = DDP_NEVER - 1u;
    for (uint32_t i = 0; i < SNIC_COUNTOF(all); i++)
        first &= all[i] == DDP_NEVER ? UINT32_MAX : all[i];
    return (uint8_t)first;
}

void ddp_rules_fill(uint32_t flags, struct ddp_rules *out)
{
    for (uint32_t i = SNIC_DDP_SYNCH; i <= DDP_HERE; i++)
        out[i] = ddp_models[i];
    if ((flags & SNIC_DDP_VALC_AFTER_PERSIST) != 0) {
        out[SNIC_DDP_STRICT].release |= DDP_L;
        out[SNIC_DDP_STRICT].gv |= DDP_L;
        out[SNIC_DDP_STRICT].val |= DDP_L;
    }
    for (uint32_t i = SNIC_DDP_SYNCH; i <= DDP_HERE; i++)
        out[i].first = ddp_rules_first(&out[i]);
}

/* Does a model's read return only what is durable at all members? */
static int ddp_model_reads_durable(uint32_t model)
{
    return model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF;
}

/*
 * The rules of a write. ALL comes in two kinds: reads wait for the logs, too, where the node's own
 * reads promise a durable value; elsewhere they are let in as early as they may.
 */
uint32_t ddp_rule_of(uint32_t model, uint32_t durability)
{
    switch (durability) {
    case SNIC_DDP_DURABILITY_MEMORY:
        return SNIC_DDP_EVENT;
    case SNIC_DDP_DURABILITY_HERE:
        return DDP_HERE;
    case SNIC_DDP_DURABILITY_ALL:
        return ddp_model_reads_durable(model) ? SNIC_DDP_SYNCH : SNIC_DDP_STRICT;
    case SNIC_DDP_DURABILITY_SCOPE:
        return SNIC_DDP_SCOPE;
    default:
        return model;
    }
}

/* 1: a read of this durability returns what is durable at all members; a CAS that failed is one. */
int ddp_reads_durable(uint32_t model, uint32_t durability)
{
    return durability == SNIC_DDP_DURABILITY_DEFAULT ? ddp_model_reads_durable(model)
                                                     : durability == SNIC_DDP_DURABILITY_ALL;
}
