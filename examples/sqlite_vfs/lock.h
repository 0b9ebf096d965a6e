/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the connections of a database share on the host: SQLite's five lock states and the shared
 * memory of WAL, in two files of the volume's lock folder that are named by the file's id. Locks
 * are open file descriptions' (fcntl(2)): each connection has its own, of one process or of
 * several, and the kernel drops them with the process.
 */
#ifndef SV_LOCK_H
#define SV_LOCK_H

#include <sqlite3.h>

#include <limits.h>
#include <stdint.h>

struct sv_lock {
    char path[PATH_MAX]; /* without suffix */
    int fd;
    int level; /* SQLITE_LOCK_* */
    int shm_fd;
    int regions;
    int region_bytes;
    void **region; /* of the wal-index, as many as are mapped */
};

/** @return 0; errno */
int sv_lock_open(struct sv_lock *l, const char *folder, uint64_t file);
void sv_lock_close(struct sv_lock *l);

/** As xLock, xUnlock and xCheckReservedLock. @return SQLITE_OK, SQLITE_BUSY, SQLITE_IOERR_* */
int sv_lock_raise(struct sv_lock *l, int level);
int sv_lock_lower(struct sv_lock *l, int level);
int sv_lock_reserved(struct sv_lock *l, int *out);

/** As xShmMap, xShmLock and xShmUnmap. */
int sv_shm_map(struct sv_lock *l, int index, int bytes, int extend, void volatile **out);
int sv_shm_lock(struct sv_lock *l, int offset, int n, int flags);
void sv_shm_unmap(struct sv_lock *l, int remove);

#endif
