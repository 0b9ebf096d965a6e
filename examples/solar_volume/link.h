/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume client: its link to the catalog; one per process. */
#ifndef SOLAR_VOLUME_LINK_H
#define SOLAR_VOLUME_LINK_H

#include "volume.h"

/* Servers at a time: as many as a catalog has, so that each keeps its connections. */
enum { LINK_SERVERS = SNIC_CONTROL_SERVERS_MAX };

/* Wait for the lease of a disk, or exit with the reason of its refusal. 0: a signal came first. */
int link_open(struct snic_loop *loop, struct snic_net *net, const char *control,
              const struct snic_control_auth *auth, const char *name, int take,
              const char *key_file, const uint64_t key[2], uint32_t servers,
              struct snic_control_grant *out);
void link_volume(struct snic_volume *v);
/* The disk is open: servers are shown its tokens. */
void link_show(void);
/* A server does not accept the token. */
void link_token(void);
void link_map(uint64_t segment, uint32_t gen);
void link_lease(void);
/* How often a server's number was released for another one, and could not be. */
void link_crowd(uint64_t *released, uint64_t *crowded);
/* The catalog's number of the server that the volume knows as @number. */
uint32_t link_server(uint32_t number);
/* Is the catalog reachable? */
int link_up(void);
/* Why the catalog could not place a segment, if it answered so recently: SNIC_E*; 0. */
int link_refused(uint64_t segment);
/* Orderly: the lease is released. */
void link_close(int orderly);

#endif
