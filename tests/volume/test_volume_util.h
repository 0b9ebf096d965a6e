/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What tests of block servers and their client begin with, over either transport. */
#ifndef SNIC_TEST_VOLUME_UTIL_H
#define SNIC_TEST_VOLUME_UTIL_H

#include <stdlib.h>

#include "support.h"
#include "volfix.h"

static struct volfix fix;
static unsigned char *buffer;

/* Each file's own. */
static int setup(uint32_t transport);

static inline int setup_solar(void **state)
{
    (void)state;
    return setup(SNIC_VOLUME_SOLAR);
}

static inline int setup_luna(void **state)
{
    (void)state;
    return setup(SNIC_VOLUME_LUNA);
}

static inline int teardown(void **state)
{
    (void)state;
    volfix_check(&fix);
    volfix_end(&fix);
    free(buffer);
    return 0;
}

static inline int all_are(const unsigned char *p, size_t size, int value)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != value)
            return 0;
    return 1;
}

#endif /* SNIC_TEST_VOLUME_UTIL_H */
