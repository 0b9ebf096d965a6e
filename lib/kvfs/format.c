/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records: keys, checksums, layouts. */
#include "snicstore/kvfs_format.h"

SNIC_STATIC_ASSERT(SNIC_KVFS_HEAD == 8, "on disk");
