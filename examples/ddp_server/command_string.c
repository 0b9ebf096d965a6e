/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on strings. Error texts are Redis 7's. */
#include "commands.h"

enum ds_verdict ds_cmd_get(struct ds_request *r, const struct ds_value *v)
{
    if (v->present)
        resp_put_bulk(&r->reply, v->data, v->size);
    else
        resp_put_null(&r->reply);
    return DS_REPLY;
}

int ds_parse_set(struct ds_request *r)
{
    if (ds_request_out(r, r->argv[2].data, r->argv[2].size) != 0)
        return -1;
    r->blind = 1;
    resp_put_text(&r->reply, "+OK\r\n");
    return 0;
}

enum ds_verdict ds_cmd_set(struct ds_request *r, const struct ds_value *v)
{
    (void)v;
    (void)r;
    return DS_PUT;
}
