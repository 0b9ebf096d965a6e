/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SV_VFS_PRIV_H
#define SV_VFS_PRIV_H

#include "lock.h"
#include "volume.h"

/* A loaded extension calls SQLite through the table that its init function receives. */
#include <sqlite3ext.h>
#ifndef SQLITE_CORE
extern const sqlite3_api_routines *sqlite3_api;
#endif

/** An open file; sqlite3_file comes first. */
struct sv_file {
    sqlite3_file base;
    struct sv_volume *volume;
    struct snic_filelib_handle handle;
    const char *path;     /* SQLite's, valid while the file is open */
    struct sv_lock *lock; /* of a main database, else NULL */
    char last[256];       /* the last failure, for PRAGMA snicstore_error */
    uint64_t dir;
    int delete_on_close;
    int persist_wal;
};

extern const sqlite3_io_methods sv_methods;

/** Report a failure to SQLite's log and remember it in @p f unless that is NULL. @return code */
int sv_report(struct sv_file *f, int code, const char *path, const char *what, int error);

#endif
