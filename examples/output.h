/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/output.h
 * For programs whose result is what they print: a full disk must not look like success.
 */
#ifndef EX_OUTPUT_H
#define EX_OUTPUT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ex_output_code;

static inline void ex_output_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    (void)fprintf(stderr, "%s: cannot write to stdout: %s\n", program_invocation_short_name,
                  strerror(errno));
    _exit(ex_output_code);
}

/** At its exit the program ends with @p code if not everything was written to stdout. */
static inline void ex_output_must(int code)
{
    ex_output_code = code;
    (void)atexit(ex_output_end);
}

#endif
