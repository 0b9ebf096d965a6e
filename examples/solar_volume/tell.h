/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume client: the log lines about servers, and about I/O that waits; one per process. */
#ifndef SOLAR_VOLUME_TELL_H
#define SOLAR_VOLUME_TELL_H

#include "volume.h"

struct tell {
    struct snic_loop *loop;
    struct snic_volume *v;
    const char *server;  /* without a catalog: the one */
    const char *control; /* the catalog, or NULL */
    const char *disk;
    uint32_t luna;
    uint32_t sealed;
};

/* Borrowed texts. From now on it checks every second. */
void tell_begin(const struct tell *t);
void tell_end(void);
/* The volume's events. */
void tell_suspect(void *ctx, uint32_t server, int is);
void tell_slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks);

#endif
