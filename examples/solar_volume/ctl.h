/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume ctl: its parts. */
#ifndef SOLAR_VOLUME_CTL_H
#define SOLAR_VOLUME_CTL_H

#include <stdio.h>

#include "volume.h"

/* The catalog's process. */
int ctl_serve(int argc, char **argv);
/* 1: @p verb is one of an operator's, and *code what it ended with. */
int ctl_verb(const char *verb, int argc, char **argv, int *code);
void ctl_verbs_help(FILE *to);

/* ---- Between ctl_verbs.c and ctl_move.c ---- */

/* A verb that is under way. */
struct ctl_query {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_control_operator *call;
    struct snic_control_msg m; /* the request */
    const char *verb;
    void (*begin)(void);
    const char *control; /* options */
    const char *name;
    const char *segment;
    uint64_t server;
    void (*next)(void); /* when it has ended well, and there is no next page */
    int answered;       /* the catalog has sent a message */
    int over;
    int code;
};
extern struct ctl_query vb;

void ctl_request(uint32_t type);
void ctl_end(void);
void ctl_fail(void);              /* likewise, with exit code 1 */
void ctl_report_gone(int status); /* the connection to the catalog ended so */
/* Verb move: it begins; an item of a list (servers, segments); the status of a MOVE. */
void ctl_move(void);
void ctl_move_item(const struct snic_control_msg *m);
void ctl_move_done(int status);
void ctl_move_free(void);

#endif
