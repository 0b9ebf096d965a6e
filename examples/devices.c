/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "devices.h"

#include "common.h"
#include "device_profile.h"

void ex_devices_begin(const char *file, const char *path, struct snic_io *io)
{
    struct snic_gimbal_profile p = {.opts_size = sizeof(p)};
    char name[EX_DEVICE_NAME_MAX];
    char why[EX_PROFILE_WHY_MAX];
    int r;

    if (file == NULL || path == NULL)
        return;
    if (ex_device_name(path, name, why) != 0) {
        ex_log(EX_INFO, "what is learned of the device is not kept (--devices): %s", why);
        return;
    }
    r = ex_profile_load(file, name, &p, why);
    if (r < 0)
        ex_log(EX_WARNING, "--devices is ignored: %s", why);
    else if (r == 0 && snic_qos_profile_set(io, &p) != 0)
        ex_log(EX_WARNING, "--devices is ignored: %s has values out of range for '%s'", file, name);
    else if (r == 0)
        ex_log(EX_INFO, "the device is known (--devices): %s", name);
}

void ex_devices_keep(const char *file, const char *path, const struct snic_io *io)
{
    struct snic_gimbal_learned l;
    char name[EX_DEVICE_NAME_MAX];
    char why[EX_PROFILE_WHY_MAX];

    if (file == NULL || path == NULL)
        return;
    snic_qos_get_learned(io, &l);
    if (l.batches == 0 || ex_device_name(path, name, why) != 0)
        return; /* nothing was measured, or begin has logged why */
    if (ex_profile_save(file, name, &l.profile, why) != 0)
        ex_log(EX_WARNING, "what was learned of the device is not kept (--devices): %s", why);
}
