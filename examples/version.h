/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/version.h
 * --version of the programs.
 */
#ifndef EX_VERSION_H
#define EX_VERSION_H

#include "snicstore/base.h"

#include <stdio.h>

/** Print "PROGRAM (snicstore) MAJOR.MINOR.PATCH" on stdout. */
static inline void ex_version(const char *program)
{
    printf("%s (snicstore) %d.%d.%d\n", program, SNIC_VERSION_MAJOR, SNIC_VERSION_MINOR,
           SNIC_VERSION_PATCH);
}

#endif
