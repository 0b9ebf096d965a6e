/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Names of databases: VOLUME/NAME or VOLUME/FOLDER/NAME, where VOLUME is the path of an image or of
 * a DPU's socket.
 */
#ifndef SV_PATH_H
#define SV_PATH_H

#include "snicstore/files.h"

#include <limits.h>

/** Longest name of a database: SQLite appends "-mj" and nine digits for a super-journal. */
#define SV_NAME_MAX (SNIC_FILES_NAME_MAX - 12)

struct sv_path {
    char volume[PATH_MAX];
    char folder[SNIC_FILES_NAME_MAX + 1]; /* "": the root */
    char name[SNIC_FILES_NAME_MAX + 1];
};

/**
 * Take a path apart at the first of its files that is no directory, or that @p is_open knows:
 * a volume that is open is found although its name was removed.
 * @return 0; SNIC_ENOENT no image is on the way; SNIC_ENAMETOOLONG; SNIC_EINVAL not one name, or
 *         a folder and a name, behind the image
 */
int sv_path_split(const char *path, int (*is_open)(const char *volume), struct sv_path *out);

#endif
