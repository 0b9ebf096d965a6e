/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A volume: an image of the file service, mounted by a DPU thread of this process, and the file
 * library's synchronous calls on it. All databases of an image that a process has open share one.
 */
#ifndef SV_VOLUME_H
#define SV_VOLUME_H

#include "snicstore/filelib_sync.h"

#include <limits.h>

#define SV_WHY 256

struct sv_volume {
    struct snic_filelib_sync sync;
    char path[PATH_MAX];
    char locks[PATH_MAX]; /* the folder with the locks and the shared memory of its databases */
};

/**
 * Open, or open once more; mounts the image, and formats it if the file is nothing but a hole.
 * @param why  SV_WHY bytes: what failed, and why
 * @return 0; SNIC_E*
 */
int sv_volume_get(const char *path, struct sv_volume **out, char *why);
/** The last put unmounts. */
void sv_volume_put(struct sv_volume *v);

#endif
