/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Namespaces for experiments: memory that takes the times of a modelled SSD (ssd.h), by the names
 * of its profiles. The models are those of the benchmarks, as they are.
 */
#include "target.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*preset)(struct snic_ssd_opts *o);
    enum snic_ssd_condition condition;
} profiles[] = {
    {"dct983", snic_ssd_opts_dct983, SNIC_SSD_CLEAN},
    {"dct983-fragmented", snic_ssd_opts_dct983, SNIC_SSD_FRAGMENTED},
    {"dct983-ageing", snic_ssd_opts_dct983, SNIC_SSD_AGEING},
    {"p3600", snic_ssd_opts_p3600, SNIC_SSD_CLEAN},
    {"p3600-fragmented", snic_ssd_opts_p3600, SNIC_SSD_FRAGMENTED},
    {"p3600-ageing", snic_ssd_opts_p3600, SNIC_SSD_AGEING},
};

int tg_ssd_find(const char *name, uint32_t *out, struct tg_error *e)
{
    for (uint32_t i = 0; i < SNIC_COUNTOF(profiles); i++)
        if (strcmp(profiles[i].name, name) == 0) {
            *out = i + 1;
            return 0;
        }
    return tg_fail(e, "ssd '%s': not dct983 or p3600, or one of them and -fragmented or -ageing",
                   name);
}

const char *tg_ssd_name(uint32_t profile)
{
    return profiles[profile - 1].name;
}

int tg_ssd_open(struct snic_io **out, struct snic_loop *loop, struct snic_disk *disk,
                uint32_t profile)
{
    struct snic_ssd_opts o;
    profiles[profile - 1].preset(&o);
    o.condition = profiles[profile - 1].condition;
    o.seed = 1;
    return snic_io_ssd_open(out, loop, disk, &o);
}
