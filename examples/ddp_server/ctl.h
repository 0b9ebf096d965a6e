/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ddp_server/ctl.h
 * `ddp_server ctl`: the operator's tool. It is a client of the nodes' port, one request at a time,
 * that proves the cluster's key.
 */
#ifndef DS_CTL_H
#define DS_CTL_H

#include "../common.h"

#include <stdio.h>

/** `ddp_server ctl`. @return the program's exit code */
int ds_ctl(int argc, char **argv);

struct ctl {
    const char *verb;
    const char *connect;
    const char *config;
    const char *key_file;
    const char *file;
    const char *address;
    const char *client;
    const char *ended;
    uint64_t node;
    int any_log;
    int yes;
    int connected;   /**< with --connect */
    int connect_one; /**< it names one node */
    int witness;
    int if_absent;
    unsigned char key[32];
    void *secret;
};

/** The end of a noun behind a number. */
static inline const char *ctl_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- ctl_link.c ---- */

struct ctl_link {
    int fd;
    const char *address;
    char *data;
    size_t size;
    size_t at;
    size_t room;
    char lost[160]; /**< why the connection ended; "": it has not */
};

struct ctl_reply {
    char type; /**< '+', '-', ':', '$', '*'; '_': nil */
    int64_t number;
    char *text; /**< of '+', '-', '$', with a zero byte behind it */
    size_t size;
    struct ctl_reply *items;
    size_t count;
};

/** Connects and, with a key, proves it. @return 0; -1 with the reason in @p error */
int ctl_link_open(struct ctl_link *l, const char *address, const struct ctl *c, char *error,
                  size_t error_size);
void ctl_link_close(struct ctl_link *l);
/** Sends a command of @p count arguments. */
void ctl_link_send(struct ctl_link *l, const struct snic_iov *argv, size_t count);
/** Takes a reply; an error when the connection has ended. */
void ctl_link_take(struct ctl_link *l, struct ctl_reply *r);
/** A command of words, and its reply. */
void ctl_link_command(struct ctl_link *l, struct ctl_reply *r, const char *const *words,
                      size_t count);
void ctl_reply_free(struct ctl_reply *r);
/** Is it an error that the same command need not get a moment later: a node without lease, ...? */
int ctl_reply_passing(const struct ctl_reply *r);
/** Of an array of names and values the value of @p name; NULL: there is none. */
const struct ctl_reply *ctl_reply_find(const struct ctl_reply *r, const char *name);

/* ---- ctl_backup.c ---- */

void ctl_backup(struct ctl_link *l, const struct ctl *c);
void ctl_restore(struct ctl_link *l, const struct ctl *c);

#endif
