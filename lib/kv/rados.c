/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on librados. */
#include "snicstore/kv.h"

#include <stdio.h>

int snic_kv_rados_open(struct snic_kv **out, struct snic_loop *l,
                       const struct snic_kv_rados_opts *o, int *error, char *text)
{
    (void)out;
    (void)l;
    (void)o;
    if (error != NULL)
        *error = 0;
    if (text != NULL)
        snprintf(text, 256, "built without librados");
    return SNIC_ENOTSUP;
}
