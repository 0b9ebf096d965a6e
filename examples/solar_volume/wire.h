/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume server: the wire keys that it proves to the catalog and to other servers, and
 * accepts from those that copy segments from here. They are read again when their files change;
 * connections that are open keep the key that they began with.
 */
#ifndef SOLAR_VOLUME_WIRE_H
#define SOLAR_VOLUME_WIRE_H

#include "../common.h"

/* @p before: NULL, or a key that is accepted, too. Exits with a clear line when one is wrong.
 * @return lives until wire_end() */
const struct snic_control_auth *wire_begin(const char *wire_key, const char *before, uint64_t seed);
/* Read again what has changed. */
void wire_look(void);
void wire_end(void);

#endif
