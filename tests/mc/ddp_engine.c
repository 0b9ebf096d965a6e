/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine's sources once more, for the explorer: an assertion that fails is a violation found,
 * not the end of the program. (Mutated copies of the sources are built the same way: mutate.py.)
 */
_Noreturn void dn_assert_fail(const char *file, int line, const char *text);
#define SNIC_ASSERT_FAIL(file, line, text) dn_assert_fail(file, line, text)
struct snic_ddp;
void dn_handles(const struct snic_ddp *d, int held[16]);
void dn_forget_past(struct snic_ddp *d);

#include "ddp/core.c"
#include "ddp/model.c"
/* A restart compares fewer ranges of keys: each is a message whose place in the order counts. The
 * state, which model.c's headers have laid out, keeps room for all. */
#undef SNIC_DDP__RANGES
#define SNIC_DDP__RANGES 2
#include "ddp/emit.c"
#include "ddp/record.c"
#include "ddp/timer.c"
#include "ddp/flight.c"
#include "ddp/write.c"
#include "ddp/read.c"
#include "ddp/follow.c"
#include "ddp/replay.c"
#include "ddp/scope.c"
#include "ddp/cas.c"
#include "ddp/epoch.c"
#include "ddp/donor.c"
#include "ddp/run.c"
#include "ddp/learn.c"
#include "ddp/restart.c"
#include "ddp/purge.c"
#include "ddp/canon.c"
#include "ddp/check.c"
#include "ddp/ddp.c"

/* Here, where the engine's layout is this one's. */

void dn_handles(const struct snic_ddp *d, int held[16])
{
    for (uint32_t i = 0; i < d->recs.high; i++) {
        const struct ddp_rec *r = ddp_rec_at(d, i);
        if (r->vts != 0 && (r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            held[r->value & 15]++;
    }
    for (uint32_t i = 0; i < d->writes.high; i++) {
        const struct ddp_write *w = ddp_write_at(d, i);
        if ((w->flags & (DDP_W_USED | DDP_W_OWNS)) == (DDP_W_USED | DDP_W_OWNS))
            held[w->value & 15]++;
    }
}

void dn_forget_past(struct snic_ddp *d)
{
    memset(&d->counters, 0, sizeof(d->counters));
    memset(&d->ring, 0, sizeof(d->ring));
    memset(d->actions, 0, sizeof(d->actions));
}
