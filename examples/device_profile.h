/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/device_profile.h
 * What a switch has learned of devices, kept in a text file, and the names of devices in it.
 *
 *     snicstore devices 1
 *     READ_NS WRITE_NS READ_RATE READ_RATE WRITE_RATE WRITE_RATE NAME     one line per device
 *     end CRC32C                                                         of all lines before
 *
 * A file that is damaged, or of another version, is ignored with a reason. It is replaced as a
 * whole, so a reader sees the old or the new one; of two programs that save at the same time the
 * second wins: what is lost is measured again. Threads of one program may call at any time.
 */
#ifndef EX_DEVICE_PROFILE_H
#define EX_DEVICE_PROFILE_H

#include "snicstore/gimbal.h"

#define EX_DEVICE_NAME_MAX 1024
/** Devices in a file; the one saved longest ago makes room. */
#define EX_DEVICES_MAX 128
#define EX_PROFILE_WHY_MAX 256

/**
 * The name of the device or file at @p path: "disk MODEL SERIAL"; of a file, and of a loop device's
 * file, "file UUID PATH" with the file system's UUID, or what statfs(2) has instead.
 * @return 0; -1 it has none, and @p why is the reason
 */
int ex_device_name(const char *path, char name[EX_DEVICE_NAME_MAX], char why[EX_PROFILE_WHY_MAX]);
/** @return 0; 1 nothing is kept of the device; -1 the file is ignored, and @p why is the reason */
int ex_profile_load(const char *file, const char *name, struct snic_gimbal_profile *out,
                    char why[EX_PROFILE_WHY_MAX]);
/**
 * Keep @p p. A damaged file is replaced, one of another version is not.
 * @return 0; -1 @p why is the reason
 */
int ex_profile_save(const char *file, const char *name, const struct snic_gimbal_profile *p,
                    char why[EX_PROFILE_WHY_MAX]);

#endif
