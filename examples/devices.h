/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/devices.h
 * The option --devices FILE of a program with a switch that learns (qos.h): what FILE has of the
 * device is the switch's to begin with, what it has learned is kept there. Failures are logged.
 */
#ifndef EX_DEVICES_H
#define EX_DEVICES_H

#include "snicstore/io.h"

/** The switch @p io was opened in front of the device or file @p path; @p file NULL: no option. */
void ex_devices_begin(const char *file, const char *path, struct snic_io *io);
/** Before it is closed. */
void ex_devices_keep(const char *file, const char *path, const struct snic_io *io);

#endif
