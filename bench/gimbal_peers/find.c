/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The schedulers by name. */
#include "sched.h"

const struct sched_ops *sched_find(const char *name)
{
    static const struct sched_ops *const all[] = {&sched_fifo, &sched_reflex, &sched_parda,
                                                  &sched_flashfq, &sched_gimbal};
    for (size_t i = 0; i < SNIC_COUNTOF(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
