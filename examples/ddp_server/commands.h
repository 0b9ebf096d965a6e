/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file ddp_server/commands.h  The functions of the commands, for their table. */
#ifndef DS_COMMANDS_H
#define DS_COMMANDS_H

#include "node.h"

/* ---- command_string.c ---- */

enum ds_verdict ds_cmd_get(struct ds_request *r, const struct ds_value *v);
int ds_parse_set(struct ds_request *r);
enum ds_verdict ds_cmd_set(struct ds_request *r, const struct ds_value *v);

/* ---- command_key.c ---- */

enum ds_verdict ds_cmd_del(struct ds_request *r, const struct ds_value *v);

/* ---- command_server.c ---- */

void ds_cmd_ping(struct ds_call *k);

#endif
