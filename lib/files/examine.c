/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The checker: superblocks, then what mount does, with every finding reported.
 */
#include "files/files_priv.h"

static const char *examine_super_wrong(int rc)
{
    switch (rc) {
    case SNIC_ENOENT:
        return "no superblock where one must be, copy";
    case SNIC_EVERSION:
        return "superblock of another version, copy";
    case SNIC_ECORRUPT:
        return "superblock with a wrong checksum or impossible numbers, copy";
    default:
        return "superblock cannot be read, copy";
    }
}

/* Both copies. One that is wrong is an error also when the other one serves. */
static void examine_supers(struct snic_io *io, snic_files_finding_fn finding, void *ctx)
{
    struct snic_files_info info[2];
    int rc[2] = {SNIC_ENOENT, SNIC_ENOENT};
    uint32_t i;
    memset(info, 0, sizeof(info));
    for (i = 0; i < 2 && io->geometry.size >= SNIC_FILES__SLOTS_OFFSET; i++) {
        rc[i] = files_super_read(io, i, &info[i]);
        if (rc[i] == 0)
            continue;
        finding(ctx, rc[i], examine_super_wrong(rc[i]), i);
        finding(ctx, 0, "  that is at byte", i == 0 ? 0 : SNIC_FILES__COPY_OFFSET);
    }
    if (rc[0] == 0 && rc[1] == 0 && memcmp(&info[0], &info[1], sizeof(info[0])) != 0)
        finding(ctx, SNIC_ECORRUPT, "two superblocks that differ, copies", 2);
    for (i = 0; i < 2; i++)
        if (rc[i] == 0 && info[i].size > io->geometry.size)
            finding(ctx, SNIC_ERANGE, "image longer than the device, bytes", info[i].size);
}

int snic_files_examine(struct snic_io *io, void *mem, size_t mem_size,
                       snic_files_finding_fn finding, void *ctx)
{
    struct files_loaded l;
    struct snic_files *f = NULL;
    int rc;
    memset(&l, 0, sizeof(l));
    l.finding = finding;
    l.ctx = ctx;
    examine_supers(io, finding, ctx);
    rc = files_prepare(&f, mem, mem_size, io, NULL);
    if (rc == 0)
        rc = files_read_image(f, &l);
    if (rc == 0)
        rc = snic_files_check(f);
    if (rc != 0) {
        finding(ctx, rc, "cannot be mounted", 0);
        return rc;
    }
    finding(ctx, 0, "files", f->files);
    finding(ctx, 0, "directories", f->dirs);
    finding(ctx, 0, "free segments", f->free_segs);
    return 0;
}
