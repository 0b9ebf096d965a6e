/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A volume: an image of the file service, and the file library's synchronous calls on it. The DPU
 * role is a thread of this process, or, where the path is a socket, the process that listens there
 * (sqlite_dpu). All databases of a volume that a process has open share one.
 */
#ifndef SV_VOLUME_H
#define SV_VOLUME_H

#include "image.h"

#include "snicstore/filelib_sync.h"

#include <limits.h>
#include <stdatomic.h>

struct sv_volume {
    struct snic_filelib_sync sync;
    uint64_t host;     /* names this process' link in the lock folder; 0: it is the only one */
    _Atomic int ended; /* the link is gone: outcomes of its last requests are unknown        */
    char path[PATH_MAX];
    char locks[PATH_MAX]; /* the folder with the locks and the shared memory of its databases   */
};

/**
 * Open, or open once more; a link that has ended is replaced.
 * @param why  SV_WHY bytes: what failed, and why
 * @return 0; SNIC_E*
 */
int sv_volume_get(const char *path, struct sv_volume **out, char *why);
/** 1: this process has it open, and its link has not ended. */
int sv_volume_is_open(const char *path);
/** The last put unmounts. */
void sv_volume_put(struct sv_volume *v);

#endif
