/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file resp/config.h  CONFIG GET and SET on settings.h's settings. */
#ifndef EX_RESP_CONFIG_H
#define EX_RESP_CONFIG_H

#include "reply.h"
#include "settings.h"

struct resp_config {
    struct resp_reply *reply;
    const struct resp_arg *argv;
    uint32_t argc;
    struct resp_settings *settings;
    /** Settings that options fix when the server starts. @return the name, NULL past the end */
    const char *(*fixed)(void *ctx, size_t i, char *value, size_t max);
    void *ctx;
    int password_needed; /**< SET must not leave none */
    int changed;         /**< out: SET did change something */
};

/** @return 1: the subcommand is GET, SET, REWRITE or HELP, and the reply is put; 0 another one */
int resp_config_run(struct resp_config *g);

#endif
