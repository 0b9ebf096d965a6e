/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What tests of the control plane begin with: three servers, one disk, room for all of it. */
#ifndef SNIC_TEST_CONTROL_UTIL_H
#define SNIC_TEST_CONTROL_UTIL_H

#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

static struct ctlfix fix;
static unsigned char *buffer;

static inline int setup(void **state)
{
    (void)state;
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    ctlfix_start(&fix, support_seed(), 3);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    ctlfix_check(&fix);
    ctlfix_end(&fix);
    free(buffer);
    return 0;
}

static inline void message(struct snic_control_msg *m, uint32_t type, const char *name)
{
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)type;
    memcpy(m->name, name, strlen(name));
}

static inline struct snic_control_item where(uint32_t vd, uint64_t segment)
{
    struct snic_control_item it;
    assert_int_equal(snic_control_find(fix.ctl, vd, segment, &it), 0);
    return it;
}

/* A disk, attached by client 0, all of it written with 7. */
static inline void attached(void)
{
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    memset(buffer, 7, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
}

#endif /* SNIC_TEST_CONTROL_UTIL_H */
