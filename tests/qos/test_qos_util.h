/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Switches for the tests of qos. */
#ifndef SNIC_TESTS_QOS_UTIL_H
#define SNIC_TESTS_QOS_UTIL_H

#include "support.h"

#include "snicstore/qos.h"

#include <stdlib.h>

/* Handles of conformance_io_close() have no owner of their memory: freed at the end. */
static void *qx_memory[256];
static size_t qx_memory_count;

static inline void qx_free(void)
{
    while (qx_memory_count > 0)
        free(qx_memory[--qx_memory_count]);
}

static inline int qx_open(struct snic_io **out, struct snic_io *inner,
                          const struct snic_qos_opts *o)
{
    size_t size = snic_qos_memsize(inner, o);
    void *mem = aligned_alloc(SNIC_QOS_ALIGN, size != 0 ? size : SNIC_QOS_ALIGN);
    assert_true(qx_memory_count < SNIC_COUNTOF(qx_memory));
    qx_memory[qx_memory_count++] = mem;
    return snic_qos_open(out, mem, size, inner, o);
}

#endif
