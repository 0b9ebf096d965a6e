/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine, joined to a store and a loop. */
#include "snicstore/fs.h"

SNIC_STATIC_ASSERT(sizeof(((struct snic_kvfs_io *)0)->carrier) >= sizeof(struct snic_kv_req),
                   "a request of the door travels in the engine's operation");
