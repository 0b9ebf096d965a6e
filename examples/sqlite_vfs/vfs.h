/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The VFS "snicstore": registered by the extension, or by a program that is linked with it. */
#ifndef SV_VFS_H
#define SV_VFS_H

/** Register it, once per process. @return SQLITE_OK; SQLITE_NOMEM, SQLITE_ERROR */
int sv_vfs_register(void);

#endif
