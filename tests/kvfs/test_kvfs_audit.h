/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads all records of a store that holds an unmounted file system, and fails the test where they
 * do not fit each other: names and inodes, counts, first and further names, parents, flags; and
 * whether every directory is below the root.
 */
#ifndef SNIC_TESTS_TEST_KVFS_AUDIT_H
#define SNIC_TESTS_TEST_KVFS_AUDIT_H

#include "test_kvfs_util.h"

struct audit_counts {
    uint64_t inodes; /* with a name, and the root                                             */
    uint64_t names;
    uint64_t orphans;
};

/* `first` 0: first names need not be up to date (sessions that were not alone). */
void audit_store(struct snic_kvmem *m, int first, struct audit_counts *out);
/* Sync what is deferred, then the same of a mounted engine without requests. */
void audit_mounted(struct kvt *t);

#endif /* SNIC_TESTS_TEST_KVFS_AUDIT_H */
