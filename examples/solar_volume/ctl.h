/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume ctl: its parts. */
#ifndef SOLAR_VOLUME_CTL_H
#define SOLAR_VOLUME_CTL_H

#include <stdio.h>

#include "volume.h"

/* The catalog's process. */
int ctl_serve(int argc, char **argv);
/* 1: @p verb is one of an operator's, and *code what it ended with. */
int ctl_verb(const char *verb, int argc, char **argv, int *code);
void ctl_verbs_help(FILE *to);

#endif
