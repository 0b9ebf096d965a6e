/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared by all stores. */
#include "snicstore/kv.h"

SNIC_STATIC_ASSERT(sizeof(((struct snic_kv_req *)0)->backend) == 96, "backends rely on it");
