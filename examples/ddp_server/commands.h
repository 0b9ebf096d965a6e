/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file ddp_server/commands.h  The functions of the commands, for their table and each other. */
#ifndef DS_COMMANDS_H
#define DS_COMMANDS_H

#include "node.h"

#define DS_ONE_KEY "the nodes order each key by itself, so nothing is atomic over several keys"

/* ---- command_string.c ---- */

enum ds_verdict ds_cmd_get(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_strlen(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_getrange(struct ds_request *r, struct ds_value *v);
int ds_parse_set(struct ds_request *r);
enum ds_verdict ds_cmd_set(struct ds_request *r, struct ds_value *v);
int ds_parse_setex(struct ds_request *r);
enum ds_verdict ds_cmd_setnx(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_getset(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_getdel(struct ds_request *r, struct ds_value *v);
int ds_parse_getex(struct ds_request *r);
enum ds_verdict ds_cmd_getex(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_append(struct ds_request *r, struct ds_value *v);
int ds_parse_setrange(struct ds_request *r);
enum ds_verdict ds_cmd_setrange(struct ds_request *r, struct ds_value *v);
int ds_parse_incr(struct ds_request *r);
enum ds_verdict ds_cmd_incr(struct ds_request *r, struct ds_value *v);
int ds_parse_incrbyfloat(struct ds_request *r);
enum ds_verdict ds_cmd_incrbyfloat(struct ds_request *r, struct ds_value *v);

/* ---- command_key.c ---- */

enum ds_verdict ds_cmd_del(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_exists(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_type(struct ds_request *r, struct ds_value *v);
int ds_parse_expire(struct ds_request *r);
enum ds_verdict ds_cmd_expire(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_persist(struct ds_request *r, struct ds_value *v);
enum ds_verdict ds_cmd_ttl(struct ds_request *r, struct ds_value *v);
int ds_parse_object(struct ds_request *r);
enum ds_verdict ds_cmd_object(struct ds_request *r, struct ds_value *v);
/** The TTL until @p expire_ms on the wall clock; 0: that has passed; UINT64_MAX: expire_ms is 0. */
uint64_t ds_ttl_ns(const struct ds_request *r, int64_t expire_ms);

/* ---- command_scan.c ---- */

int ds_route_scan(struct ds_call *k);
void ds_visit_scan(struct ds_request *r);
int ds_route_scankeys(struct ds_call *k);
void ds_visit_scankeys(struct ds_request *r);
void ds_visit_keys(struct ds_request *r);
void ds_visit_dbsize(struct ds_request *r);
void ds_visit_randomkey(struct ds_request *r);
void ds_join_randomkey(struct ds_request *r);

/* ---- command_store.c ---- */

int ds_parse_store(struct ds_request *r);
void ds_finish_store(struct ds_request *r);

/* ---- command_dump.c ---- */

enum ds_verdict ds_cmd_dump(struct ds_request *r, struct ds_value *v);
int ds_parse_restore(struct ds_request *r);
enum ds_verdict ds_cmd_restore(struct ds_request *r, struct ds_value *v);

/* ---- command_monitor.c ---- */

void ds_cmd_latency(struct ds_call *k);
void ds_cmd_memory(struct ds_call *k);
int ds_parse_memory(struct ds_request *r);
enum ds_verdict ds_cmd_memory_usage(struct ds_request *r, struct ds_value *v);

/* ---- slow.c ---- */

void ds_cmd_slowlog(struct ds_call *k);

/* ---- command_client.c ---- */

/** Its number, unlike those of all clients of the node. */
int64_t ds_client_number(const struct ds_shard *s, const struct ds_client *c);
/** Its line of CLIENT LIST. */
void ds_client_line(struct resp_reply *r, struct ds_shard *s, const struct ds_client *c);
void ds_visit_client_list(struct ds_request *r);
void ds_join_client_list(struct ds_request *r);
void ds_visit_client_kill(struct ds_request *r);
void ds_join_client_kill(struct ds_request *r);

/* ---- command_session.c ---- */

void ds_cmd_auth(struct ds_call *k);
void ds_cmd_hello(struct ds_call *k);
void ds_cmd_reset(struct ds_call *k);
void ds_cmd_quit(struct ds_call *k);
void ds_cmd_select(struct ds_call *k);
void ds_cmd_client(struct ds_call *k);
void ds_cmd_multi(struct ds_call *k);
void ds_cmd_exec(struct ds_call *k);

/* ---- command_durability.c ---- */

/** @return the level's number; -1 it is none */
int ds_durability_of(const struct resp_arg *a);
/** DURABILITY or READLEVEL. @return 1: a command follows, which k->argv is now; 0 the reply is put
 */
int ds_durability_take(struct ds_call *k);
void ds_cmd_durability(struct ds_call *k);
void ds_visit_scope(struct ds_request *r);
void ds_join_ok(struct ds_request *r);

/* ---- command_server.c ---- */

void ds_cmd_ping(struct ds_call *k);
void ds_cmd_echo(struct ds_call *k);
void ds_cmd_time(struct ds_call *k);
void ds_cmd_info(struct ds_call *k);
/** What INFO shows, of all shards, and how many of them serve. */
void ds_info_sum(struct ds_node *n, struct ds_snapshot *sum, uint32_t *serving);
void ds_cmd_config(struct ds_call *k);
void ds_cmd_command(struct ds_call *k);
void ds_cmd_cluster(struct ds_call *k);
void ds_cmd_nodes(struct ds_call *k);
void ds_cmd_role(struct ds_call *k);
void ds_cmd_shutdown(struct ds_call *k);
/** A copy of the password, "" if there is none. */
void ds_node_password(struct ds_node *n, char out[RESP_PASSWORD_MAX]);

/* ---- command_admin.c ---- */

void ds_cmd_admin(struct ds_call *k);
void ds_visit_members(struct ds_request *r);
void ds_join_members(struct ds_request *r);

/* ---- watch.c ---- */

void ds_cmd_watchkey(struct ds_call *k);
void ds_cmd_unwatchkey(struct ds_call *k);
/** The client has gone, or its connection begins anew. */
void ds_watch_end_all(struct ds_client *c);
/** The timer: of clients that have not taken what they were sent. */
void ds_watch_retry(struct snic_timer *t, uint64_t now_ns);
/** The timer: watches that found no time are filled. */
void ds_watch_turn(struct snic_timer *t, uint64_t now_ns);

#endif
