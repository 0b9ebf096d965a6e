/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/session.h
 * Arguments and replies of HELLO, AUTH and CLIENT SETNAME. Where a function refuses an argument,
 * the error, in Redis' words, is in the reply.
 */
#ifndef EX_RESP_SESSION_H
#define EX_RESP_SESSION_H

#include "reply.h"

/** The version that INFO and HELLO have: the Redis whose semantics the servers follow. */
#define RESP_REDIS_VERSION "7.0.15"

/** May @p a be a connection's name, with fewer than @p max bytes? 1, or the error is put. */
int resp_name_valid(struct resp_reply *r, const struct resp_arg *a, size_t max);
/** @p user NULL: the default one; @p want "": any password will do. 0, or the error is put. */
int resp_login(struct resp_reply *r, const char *want, const struct resp_arg *user,
               const struct resp_arg *password);
/** AUTH. 0: it is the right password; or the error is put. */
int resp_auth(struct resp_reply *r, const char *want, const struct resp_arg *argv, uint32_t argc);

struct resp_hello {
    int64_t version;              /**< 0: as it is */
    const struct resp_arg *name;  /**< NULL: none */
    const struct resp_arg *login; /**< user, and behind it password; NULL: none */
};
/** HELLO's arguments; a name has fewer than @p name_max bytes. 0, or the error is put. */
int resp_hello_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc,
                       size_t name_max, struct resp_hello *h);
/** The error of a client that has not authenticated. */
void resp_hello_no_auth(struct resp_reply *r);
void resp_hello_greet(struct resp_reply *r, int64_t id);

#endif
