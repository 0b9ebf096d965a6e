/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume client: the log lines about servers, and about I/O that waits; one per process. */
#ifndef SOLAR_VOLUME_REPORT_H
#define SOLAR_VOLUME_REPORT_H

#include "volume.h"

struct report {
    struct snic_loop *loop;
    struct snic_volume *v;
    const char *server;  /* without a catalog: the one */
    const char *control; /* the catalog, or NULL */
    const char *disk;
    uint32_t luna;
    uint32_t sealed;
};

/* Borrowed texts. From now on it checks every second. */
void report_begin(const struct report *t);
void report_end(void);
/* The volume's events. */
void report_suspect(void *ctx, uint32_t server, int is);
void report_slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks);

#endif
