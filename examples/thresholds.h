/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/thresholds.h
 * The options --thresh-min and --thresh-max, microseconds, of a program with a switch (gimbal.h).
 */
#ifndef EX_THRESHOLDS_H
#define EX_THRESHOLDS_H

#include "common.h"

/** 0: not set. Learning begins with the defaults of gimbal.h, so a value beyond the other one's
 *  needs that to be set, too. */
static inline void ex_thresholds_check(uint64_t min_us, uint64_t max_us)
{
    if ((min_us != 0 ? min_us : 250) >= (max_us != 0 ? max_us : 1500))
        ex_usage("--thresh-min must be less than --thresh-max%s",
                 min_us == 0   ? ": it begins with 250 unless it is set, too"
                 : max_us == 0 ? ", which begins with 1500 unless it is set, too"
                               : "");
}

#endif
