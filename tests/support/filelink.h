/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A host with the file library and a DPU with the file service, in one world: two nodes, a dma
 * link between them, a simulated disk behind the DPU.
 */
#ifndef SNIC_TESTS_FILELINK_H
#define SNIC_TESTS_FILELINK_H

#include "filefix.h"

#include "snicstore/channel.h"
#include "snicstore/filelib.h"

struct filelink {
    struct filefix fx; /* node 0: the DPU */
    struct snic_loop *host_loop;
    int sim; /* dma sim (unmapped), else local */
    struct snic_dma *host_dma;
    struct snic_dma *dpu_dma;
    struct snic_channel_hub *host_hub;
    struct snic_channel_hub *dpu_hub;
    void *host_hub_mem;
    void *dpu_hub_mem;
    struct snic_files_server *server;
    void *server_mem;
    struct snic_files_server_opts serve;
    struct snic_filelib *group;
    void *group_mem;
    struct snic_filelib_opts open;
    int gone; /* reason that the server heard, 1 while none */
    int deaths;
};

/** Disk, service, link, group; options set before in fx, serve, open, sim. */
void filelink_open(struct filelink *l);
/** Only the link: dma and hubs. */
void filelink_connect(struct filelink *l);
void filelink_group_open(struct filelink *l);
void filelink_group_close(struct filelink *l);
/** Close the server if there is one. */
void filelink_server_close(struct filelink *l);
/** Close hubs and dma. */
void filelink_disconnect(struct filelink *l);
void filelink_close(struct filelink *l);

int64_t filelink_write(struct snic_filelib *g, uint64_t file, uint64_t at, const void *p, size_t n,
                       unsigned flags);
int64_t filelink_read(struct snic_filelib *g, uint64_t file, uint64_t at, void *p, size_t n);
int64_t filelink_named(struct snic_filelib *g, int op, uint64_t dir, const char *name,
                       uint64_t *id);

#endif /* SNIC_TESTS_FILELINK_H */
