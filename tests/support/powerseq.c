/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "powerseq.h"

#include "support.h"

const struct snic_disk_opts sequence_disks[SEQUENCE_DISKS] = {
    {.sector = 4096, .align = 1, .caps = SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO},
    {.sector = 512, .align = 512, .caps = SNIC_IO_CAP_DISCARD},
    {.sector = 4096, .align = 4096, .caps = SNIC_IO_CAP_FUA},
    {.sector = 512, .align = 1, .caps = SNIC_IO_CAP_ZERO},
};

void sequence_open(struct sequence *s, const struct snic_disk_opts *d)
{
    memset(&s->fx, 0, sizeof(s->fx));
    s->fx.disk_opts = *d;
    s->fx.disk_opts.size = 1u << 20;
    s->fx.format.segment_bytes = 8192;
    s->fx.format.files_max = 24;
    s->fx.format.dirs_max = 4;
    s->fx.mount.depth = 16;
    s->fx.mount.bounce_count = 2;
    s->fx.mount.bounce_bytes = 8192;
    filefix_open(&s->fx);
    assert_int_equal(snic_files_format(s->fx.io, &s->fx.format), 0);
    snic_disk_sync(s->fx.disk);
}

void sequence_close(struct sequence *s, struct snic_io *io)
{
    s->fx.io = io;
    s->fx.files = NULL;
    filefix_close(&s->fx);
}

struct snic_files *sequence_mount(struct sequence *s, struct snic_io *io)
{
    s->fx.io = io;
    assert_int_equal(filefix_try_mount(&s->fx), 0);
    return s->fx.files;
}

void sequence_usable(struct snic_files *f)
{
    unsigned char byte = 0;
    uint64_t id;
    assert_int_equal(filefix_create(f, 0, "probe", &id), 0);
    assert_int_equal(filefix_write(f, id, 5000, "x", 1, SNIC_FILES_SYNC), 1);
    assert_int_equal(filefix_read(f, id, 5000, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(filefix_delete(f, 0, "probe"), 0);
    assert_int_equal(snic_files_check(f), 0);
}
