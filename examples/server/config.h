/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/config.h
 * The options that every server of two roles has, and what a process checks and sets with them
 * before it plays its role.
 */
#ifndef EX_SERVER_CONFIG_H
#define EX_SERVER_CONFIG_H

#include "../common.h"

enum ex_role {
    EX_ROLE_SUPERVISOR, /**< starts the DPU role and the host role as processes */
    EX_ROLE_DPU,
    EX_ROLE_HOST,
    EX_ROLE_SINGLE,  /**< both roles as threads of one process               */
    EX_ROLE_MONOLITH /**< one role with its own sockets and plain files      */
};

struct ex_server {
    const char *name; /**< begins the names of metrics; the monolith's in the log            */
    enum ex_role role;
    int monolith;          /**< --monolith                                                   */
    int single_process;    /**< --single-process, where the program has it                   */
    const char *listen;    /**< ADDRESS:PORT of clients                                      */
    const char *file;      /**< image file or block device (DPU role)                        */
    const char *auth_keys; /**< secrets for a remote image; NULL: none                       */
    const char *directory; /**< of the monolith's files                                      */
    const char *socket;    /**< UNIX socket between the roles; NULL: FILE.sock               */
    int buffered;          /**< no O_DIRECT                                                  */
    uint64_t conns_max;
    uint64_t timeout_s; /**< idle clients are closed after so long; 0: never                 */
    uint64_t spin_us;   /**< the loop polls so long before it sleeps                         */
    uint64_t stats;     /**< seconds between lines of figures; 0: none                       */
    const char *metrics;
    enum ex_level log_level;
    char help[4][112]; /**< of options whose default is in this struct                        */
    char socket_path[4096];
};

#define EX_SERVER_OPTIONS 13

/** The options of all servers; @p s has the defaults. @return EX_SERVER_OPTIONS */
size_t ex_server_options(struct ex_server *s, struct ex_option *out);
/**
 * The command line was read: the role, the log, signals, the limit of open files, the socket's
 * path. Finds the mistakes that can be found before anything is opened.
 */
void ex_server_begin(struct ex_server *s);
/** CPU time of the role: of its thread in a single process, else of the process. */
uint64_t ex_server_cpu_ns(const struct ex_server *s);
/** The network for so many clients and the metrics page; exits with a clear line on failure. */
struct snic_net *ex_server_net(const struct ex_server *s, struct snic_loop *loop);

#endif
