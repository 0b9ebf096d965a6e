/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "commands.h"

void ds_watch_end_all(struct ds_shard *s, struct ds_client *c)
{
    (void)s;
    (void)c;
}
