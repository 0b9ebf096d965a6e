/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume client: its link to the catalog; one per process. */
#ifndef SOLAR_VOLUME_LINK_H
#define SOLAR_VOLUME_LINK_H

#include "volume.h"

enum { LINK_SERVERS = 16 };

/* Wait for the lease of a disk, or exit saying why it cannot be had. 0: a signal came first. */
int link_open(struct snic_loop *loop, struct snic_net *net, const char *control, const char *name,
              int take, const char *key_file, const uint64_t key[2],
              struct snic_control_grant *out);
void link_volume(struct snic_volume *v);
void link_map(uint64_t segment, uint32_t gen);
void link_lease(void);
/* The catalog's number of the server that the volume knows as @number. */
uint32_t link_server(uint32_t number);
/* Is the catalog there? */
int link_up(void);
/* What the catalog said last of a segment that it could not place, if that was of late; 0. */
int link_refused(uint64_t segment);
/* Orderly: the lease is given back. */
void link_close(int orderly);

#endif
