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
#include <stdatomic.h>
#include <stdint.h>

/** The DPU has a write lock of this file of the folder, "host-" and the host's number in hex, as
 *  long as requests of that host can take effect. */
#define SV_HOST_NAME "host-%016" PRIx64

struct sv_lock {
    char path[PATH_MAX]; /* without suffix */
    const char *folder;
    uint64_t host;            /* of the volume; 0: no other process has it open */
    const _Atomic int *ended; /* of the volume */
    uint32_t owned;           /* bit per slot of the lock file that names this host (K4) */
    int fd;
    int level; /* SQLITE_LOCK_* */
    int shm_fd;
    int regions;
    int region_bytes;
    void **region; /* of the wal-index, as many as are mapped */
};

/** folder, host and ended are set, and borrowed until close. @return 0; errno */
int sv_lock_open(struct sv_lock *l, uint64_t file);
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
