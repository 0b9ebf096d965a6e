/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB. */
#include "snicstore/kv.h"

#include <stdio.h>

int snic_kv_lmdb_open(struct snic_kv **out, struct snic_loop *l, const struct snic_kv_lmdb_opts *o,
                      int *error, char *text)
{
    (void)out;
    (void)l;
    (void)o;
    if (error != NULL)
        *error = 0;
    if (text != NULL)
        snprintf(text, 256, "built without LMDB");
    return SNIC_ENOTSUP;
}
