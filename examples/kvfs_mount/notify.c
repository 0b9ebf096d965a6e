/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Notifications to the kernel: what it keeps is invalid. That of an epoch, which invalidates all
 * names at once, libfuse may not know: it is written here as the kernel's own struct.
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <unistd.h>

enum {
    NOTIFY_EPOCH_MINOR = 44, /* of the protocol: the kernel knows FUSE_NOTIFY_INC_EPOCH */
    NOTIFY_EPOCH_CODE = 8
};

int km_notify_has_epochs(const struct km *m)
{
    return m->init_minor >= NOTIFY_EPOCH_MINOR;
}

uint64_t km_notify_expire(struct km *m)
{
    struct fuse_out_header h = {.len = sizeof(h), .error = NOTIFY_EPOCH_CODE};

    if (!km_notify_has_epochs(m))
        return (uint64_t)(m->timeout * 1e9);
    if (write(m->fd, &h, sizeof(h)) < 0 && errno != ENOTCONN && errno != ENODEV)
        ex_log(EX_WARNING, "the kernel cannot invalidate names: %s", strerror(errno));
    return 0;
}

void km_notify_invalid(const struct km *m, uint64_t ino)
{
    if (m->se != NULL && m->mounted_here)
        (void)fuse_lowlevel_notify_inval_inode(m->se, ino, -1, 0);
}
