/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The unmount that a signal starts, by a helper process. */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

int km_unmount_helper(const char *at)
{
    int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)syncfs(fd);
        close(fd);
    }
    if (umount2(at, 0) == 0)
        return 0;
    if (errno == EPERM)
        execlp("fusermount3", "fusermount3", "-u", "--", at, (char *)NULL);
    return 1;
}

/* Our own process must not be the one that has files open there. */
static void *unmount_stopper(void *arg)
{
    struct km *m = arg;

    (void)km_refresh_end(m);
    if (atomic_load(&m->refreshing) != KM_REFRESH_NONE)
        (void)pthread_join(m->refresher, NULL);
    atomic_store(&m->refreshing, KM_REFRESH_NONE);
    if (km_helper_reap(km_helper_start(m, KM_UNMOUNT, 0)) == 0)
        return NULL;
    ex_log(EX_WARNING, "%s is in use: files open there fail from now on", m->config->mountpoint);
    km_session_over(m); /* libfuse unmounts what is in use */
    return NULL;
}

void km_unmount_start(struct km *m)
{
    if (atomic_exchange(&m->stopping, 1))
        return;
    m->stopper_runs = pthread_create(&m->stopper, NULL, unmount_stopper, m) == 0;
    if (!m->stopper_runs)
        km_session_over(m);
}
