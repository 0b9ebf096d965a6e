/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What SQLite calls when it loads the extension. It stays loaded: databases depend on its VFS. */
#include "vfs.h"

#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
                                                                  const sqlite3_api_routines *api);

int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
    int rc;
    SQLITE_EXTENSION_INIT2(api);
    (void)db;
    rc = sv_vfs_register();
    if (rc == SQLITE_OK)
        return SQLITE_OK_LOAD_PERMANENTLY;
    *error = sqlite3_mprintf("cannot register the VFS \"snicstore\"");
    return rc;
}
