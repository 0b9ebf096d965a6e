/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Notifications to the kernel: what it keeps is invalid. They are encoded by fuse.h, also where
 * libfuse reads /dev/fuse: that of an epoch, which invalidates all names at once, it may not know.
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NOTIFY_FOREVER 1e9 /* seconds: longer than any mount lasts */

enum { NOTIFY_EPOCH_MINOR = 44 }; /* of the protocol: the kernel knows SNIC_FUSE_NOTIFY_INC_EPOCH */

void km_notify_begin(struct km *m, uint32_t minor)
{
    m->init_minor = minor;
    m->timeout = m->config->exclusive ? NOTIFY_FOREVER : (double)m->config->timeout;
    if (!km_notify_has_epochs(m) && (!m->config->exclusive || m->remote != NULL) && m->timeout > 1)
        m->timeout = 1; /* no notification of others' changes, or of names that a death undoes */
}

int km_notify_has_epochs(const struct km *m)
{
    return m->init_minor >= NOTIFY_EPOCH_MINOR;
}

uint64_t km_notify_expire(struct km *m)
{
    const struct snic_fuse_conn conn = {.minor = m->init_minor};
    struct snic_fuse_answer a;

    if (!km_notify_has_epochs(m) || snic_fuse_notify_epoch(&a, &conn) != 0)
        return (uint64_t)(m->timeout * 1e9);
    if (write(m->fd, &a.head, a.head.len) < 0 && errno != ENOTCONN && errno != ENODEV)
        ex_log(EX_WARNING, "the kernel cannot invalidate names: %s", strerror(errno));
    return 0;
}

void km_notify_invalid(const struct km *m, uint64_t ino)
{
    struct snic_fuse_answer a;

    if (m->se == NULL || !m->mounted_here)
        return;
    snic_fuse_notify_inode(&a, ino, -1, 0);
    if (write(m->fd, &a.head, a.head.len) < 0)
        return; /* it does not know the inode, or is unmounted */
}
