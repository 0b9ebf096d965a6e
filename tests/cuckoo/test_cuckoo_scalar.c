/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The cache table once more, in portable C, for test_cuckoo_twin.c. */
#define SNIC_NO_SIMD
#include "test_cuckoo_rename.h"

#include "cuckoo/cuckoo.c"
#include "cuckoo/cuckoo_read.c"
#include "cuckoo/cuckoo_write.c"
