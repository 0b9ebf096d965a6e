/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a mounted file system looks like, as text: paths, attributes, contents; no times. */
#ifndef SNIC_TESTS_TEST_KVFS_SNAP_H
#define SNIC_TESTS_TEST_KVFS_SNAP_H

#include "test_kvfs_util.h"

enum { SNAP_MAX = 1 << 16 };

/* Into SNAP_MAX bytes, sorted by path; inode numbers are left out. The largest of them. */
uint64_t snap_tree(struct kvt *t, char *out);

#endif /* SNIC_TESTS_TEST_KVFS_SNAP_H */
