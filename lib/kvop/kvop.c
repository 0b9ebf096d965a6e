/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Keys in order, operations checked, scan output packed. */
#include "snicstore/kvop.h"

SNIC_STATIC_ASSERT(sizeof(struct snic_kvop_key) == 64, "keys are compared and copied as one line");

int snic_kvop_key_compare(const struct snic_kvop_key *a, const struct snic_kvop_key *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order != 0 ? order : (int)a->size - (int)b->size;
}
