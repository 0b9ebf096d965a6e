/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* mount(2) and umount2(2) of FUSE, as root. */
#include "snicstore/fusedev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

enum { FUSEDEV_NAME_MAX = 64, FUSEDEV_OPTIONS_MAX = 3072 };

/* mount(2) takes a comma for the end of an option. */
static int mount_valid(const char *name, const char *options)
{
    size_t n = strlen(name);
    return n > 0 && n <= FUSEDEV_NAME_MAX && strpbrk(name, ",\\") == NULL &&
           (options == NULL || strlen(options) <= FUSEDEV_OPTIONS_MAX);
}

int snic_fusedev_mount(const char *dir, const char *name, const char *options, int *fd)
{
    char data[FUSEDEV_OPTIONS_MAX + 256];
    char type[FUSEDEV_NAME_MAX + 8];
    int dev, rc;
    if (!mount_valid(name, options))
        return SNIC_EINVAL;
    dev = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (dev < 0)
        return snic_error_from_os(errno);
    snprintf(type, sizeof(type), "fuse.%s", name);
    snprintf(data, sizeof(data),
             "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,default_permissions%s%s", dev,
             (unsigned)geteuid(), (unsigned)getegid(), options != NULL ? "," : "",
             options != NULL ? options : "");
    if (mount(name, dir, type, MS_NOSUID | MS_NODEV, data) != 0) {
        rc = snic_error_from_os(errno);
        (void)close(dev);
        return rc;
    }
    *fd = dev;
    return 0;
}

int snic_fusedev_unmount(const char *dir)
{
    return umount2(dir, MNT_DETACH) == 0 ? 0 : snic_error_from_os(errno);
}
