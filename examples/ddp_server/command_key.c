/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on keys whatever they hold. */
#include "commands.h"

enum ds_verdict ds_cmd_del(struct ds_request *r, const struct ds_value *v)
{
    r->number = v->present;
    return v->present ? DS_DELETE : DS_REPLY;
}
