/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The five models of ddp.h as data, after the paper's figure 7. A row has, for each action of a
 * coordinator, the conditions that it waits for.
 *
 * What a follower may let be read, so VAL of Synch, waits for the coordinator's own dFIFO, too. A
 * and D would suffice if a store into both FIFOs were one moment; but the slower one may be under
 * way when the vFIFO has drained, and a value read then is in no log of the coordinator's. For the
 * same reason gv waits for the own vFIFO: gv means that all have stored it. D is not in `release`:
 * ddpnic_eval unlocks nothing that is not out of the vFIFO.
 */
#include "ddpnic_priv.h"

#define C DDP_C
#define P DDP_P
#define V DDP_V
#define F DDP_L /* durable: in the dFIFO */
#define D DDP_D
#define NEVER DDP_NEVER

static const struct ddp_rules ddpnic_models[] = {
    [SNIC_DDP_SYNCH] = {.release = C | P | F,
                        .gv = C | P | V | F,
                        .gd = C | P | F,
                        .val = C | P | F | D,
                        .val_type = SNIC_DDP_VAL,
                        .val_p = NEVER,
                        .answer = C | P | V | F,
                        .all = C | P | V | F | D,
                        .acks = DDP_ONE,
                        .val_durable = 1,
                        .short_gd = 1},
    [SNIC_DDP_STRICT] = {.release = C,
                         .gv = C | V,
                         .gd = C | P | F,
                         .val = C | D,
                         .val_type = SNIC_DDP_VAL_C,
                         .val_p = C | P | F,
                         .answer = C | P | F,
                         .all = C | P | V | F | D,
                         .acks = DDP_SPLIT,
                         .watch_gd = 1,
                         .short_gd = 1},
    [SNIC_DDP_RENF] = {.release = C | P | F,
                       .gv = C | V,
                       .gd = C | P | F,
                       .val = C | P | F | D,
                       .val_type = SNIC_DDP_VAL,
                       .val_p = NEVER,
                       .answer = C | V,
                       .all = C | P | V | F | D,
                       .acks = DDP_SPLIT,
                       .val_durable = 1,
                       .background = 1},
    [SNIC_DDP_EVENT] = {.release = C,
                        .gv = C | V,
                        .gd = NEVER,
                        .val = C | D,
                        .val_type = SNIC_DDP_VAL_C,
                        .val_p = NEVER,
                        .answer = C | V,
                        .all = C | V | D,
                        .acks = DDP_C_ONLY,
                        .background = 1},
    [SNIC_DDP_SCOPE] = {.release = C,
                        .gv = C | V,
                        .gd = NEVER,
                        .val = C | D,
                        .val_type = SNIC_DDP_VAL_C,
                        .val_p = NEVER,
                        .answer = C | V,
                        .all = C | V | D,
                        .acks = DDP_C_ONLY,
                        .background = 1},
};

#undef C
#undef P
#undef V
#undef F
#undef D
#undef NEVER

void ddpnic_rules_of(uint32_t model, struct ddp_rules *out)
{
    SNIC_ASSERT(model >= SNIC_DDP_SYNCH && model <= SNIC_DDP_SCOPE);
    *out = ddpnic_models[model];
}
