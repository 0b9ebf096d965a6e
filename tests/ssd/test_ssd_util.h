/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A model in guarded memory, and how to run it. */
#ifndef SNIC_TESTS_SSD_UTIL_H
#define SNIC_TESTS_SSD_UTIL_H

#include "support.h"

#include "snicstore/ssd.h"

#include <string.h>

/*
 * A device of round numbers: fetch 1000 (reads) and 2000 (writes), link 4 bytes per ns, sense
 * 50000, 1000 per part, program 100000 for 16 KiB; no jitter, no penalties, four dies.
 */
static inline struct snic_ssd_opts ssd_plain(uint32_t condition)
{
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.condition = condition;
    o.queues = 4;
    o.length_max = 65536;
    o.fetch_read_ns = 1000;
    o.fetch_write_ns = 2000;
    o.split_ns = 500;
    o.link_read = 4096;
    o.link_write = 4096;
    o.post_read_ns = 10;
    o.post_write_ns = 20;
    o.buffer_bytes = 131072;
    o.dies = 4;
    o.read_ns = 50000;
    o.read_part_ns = 1000;
    o.read_unit = 16384;
    o.read_striped = 1024;
    o.program_ns = 100000;
    o.write_share = 512;
    o.switch_ns = 0;
    o.jitter = 0;
    o.write_amplification = 100;
    o.stall_ns = 0;
    return o;
}

static inline struct snic_ssd *ssd_open(const struct snic_ssd_opts *o)
{
    struct snic_ssd *d = NULL;
    size_t size = snic_ssd_memsize(o);
    assert_int_not_equal(size, 0);
    void *mem = support_guard_alloc(size, SNIC_SSD_ALIGN);
    assert_int_equal(snic_ssd_init(&d, mem, size, o), 0);
    assert_int_equal(snic_ssd_check(d), 0);
    return d;
}

/* With whatever is inside. */
static inline void ssd_drop(struct snic_ssd *d)
{
    assert_int_equal(snic_ssd_check(d), 0);
    support_guard_free(d);
}

static inline void ssd_close(struct snic_ssd *d)
{
    assert_int_equal(snic_ssd_check(d), 0);
    support_guard_free(snic_ssd_fini(d));
}

static inline void ssd_send(struct snic_ssd *d, struct snic_ssd_cmd *cmd, uint8_t op,
                            uint32_t queue, uint64_t offset, uint32_t length, uint64_t now)
{
    *cmd = (struct snic_ssd_cmd){.op = op, .queue = queue, .offset = offset, .length = length};
    assert_int_equal(snic_ssd_submit(d, cmd, now), 0);
    assert_int_equal(snic_ssd_check(d), 0);
}

/* The next completion, event by event. */
static inline struct snic_ssd_cmd *ssd_wait(struct snic_ssd *d)
{
    for (;;) {
        uint64_t at = snic_ssd_deadline_ns(d);
        if (at == SNIC_NEVER)
            return NULL;
        struct snic_ssd_cmd *cmd = snic_ssd_poll(d, at);
        assert_int_equal(snic_ssd_check(d), 0);
        if (cmd != NULL)
            return cmd;
    }
}

/* The next completion is that of cmd, at this time. */
#define SSD_EXPECT(d, cmd, at)                                                                     \
    do {                                                                                           \
        assert_ptr_equal(ssd_wait(d), cmd);                                                        \
        assert_int_equal((cmd)->done_ns, at);                                                      \
    } while (0)

#endif /* SNIC_TESTS_SSD_UTIL_H */
