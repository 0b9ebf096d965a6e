/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the tests of power loss share: a small image on one of several kinds of disks, mounted by
 * each run, and the states of a model before each operation of a sequence.
 */
#ifndef SNIC_TESTS_POWERSEQ_H
#define SNIC_TESTS_POWERSEQ_H

#include "filefix.h"
#include "filemodel.h"

#define OPS_MAX 64u
#define SEQUENCE_DISKS 4u

struct sequence {
    struct filefix fx;
    struct model before[OPS_MAX + 1]; /* state before operation i */
    struct model_op op[OPS_MAX];
    uint32_t ops;
    uint32_t completed;
    struct model end; /* after the last run, with the ids */
    uint32_t mounts;  /* unmount and mount again after so many operations */
};

/** Sectors, alignments and what the device can. */
extern const struct snic_disk_opts sequence_disks[SEQUENCE_DISKS];

/** World, disk of this kind, image; nothing is mounted. */
void sequence_open(struct sequence *s, const struct snic_disk_opts *d);
/** @p io: the handle that was there after sequence_open(). */
void sequence_close(struct sequence *s, struct snic_io *io);
/** Mount what @p io holds; it must go. */
struct snic_files *sequence_mount(struct sequence *s, struct snic_io *io);
/** It still works: a file is made, written, read and deleted. */
void sequence_usable(struct snic_files *f);

#endif /* SNIC_TESTS_POWERSEQ_H */
