/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** What the tests of dma shm share. */
#ifndef SNIC_TESTS_DMA_SHM_UTIL_H
#define SNIC_TESTS_DMA_SHM_UTIL_H

#include <stdio.h>

#include "conformance_dma.h"
#include "support.h"

static inline struct snic_loop *loop_open(void)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    return l;
}

static inline const char *socket_path(void)
{
    static char path[256];
    static int number;
    char name[32];
    (void)snprintf(name, sizeof(name), "s%d", number++);
    support_tmpname(path, sizeof(path), name);
    return path;
}

#endif /* SNIC_TESTS_DMA_SHM_UTIL_H */
