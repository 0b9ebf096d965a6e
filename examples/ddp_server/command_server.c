/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on the server and the connection. Error texts are Redis 7's. */
#include "commands.h"

void ds_cmd_ping(struct ds_call *k)
{
    if (k->argc > 2)
        ds_error(k->reply, "ERR wrong number of arguments for 'ping' command");
    else if (k->argc == 2)
        resp_put_bulk(k->reply, k->argv[1].data, k->argv[1].size);
    else
        resp_put_text(k->reply, "+PONG\r\n");
}
