/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/common.h
 * What every program here shares: options, leveled logs, statistics (lines and a
 * Prometheus page), orderly shutdown, CPU accounting.
 */
#ifndef EX_COMMON_H
#define EX_COMMON_H

#include "snicstore.h"

/* ---- Options ---- */

enum ex_kind {
    EX_FLAG,   /**< --name, target int = 1                                               */
    EX_TEXT,   /**< --name TEXT, target const char *                                     */
    EX_NUMBER, /**< --name N, target uint64_t, within [min, max]; a time where value is
                    "SECONDS" or "US": in that unit, or with us, ms, s, m or h           */
    EX_SIZE,   /**< --name N[K|M|G|T], target uint64_t bytes, within [min, max]          */
    EX_PARSE,  /**< --name TEXT, parse(target, text) != 0 refuses it                     */
    EX_RENAMED /**< a former name, refused with the present one, which is value          */
};

struct ex_option {
    const char *name;
    enum ex_kind kind;
    void *target;
    const char *value; /**< how the help names the value, NULL for flags               */
    const char *help;
    uint64_t min;
    uint64_t max;
    int (*parse)(void *target, const char *text);
};

/**
 * Parse the command line; "--name=value" works too. --help prints everything,
 * --version the version, and both exit 0; a mistake prints one line that names
 * it and exits 2.
 */
void ex_options(int argc, char **argv, const struct ex_option *o, size_t count,
                const char *summary);

/** A whole number, with @p size also one with K, M, G or T. @return 0; -1: @p text is none; -2: it
    is more than 64 bits have */
int ex_number(const char *text, int size, uint64_t *out);
/** What --help shows after the name of the program; "[OPTION]..." unless it is set before. */
extern const char *ex_synopsis;

/** What ex_usage() and ex_die() exit with: 2 and 1, unless what calls the program has codes of
    its own. */
extern int ex_exit_usage, ex_exit_failure;

/** Print "PROGRAM: MESSAGE (--help lists the options)" and exit 2: a mistake on the command line.
 */
void ex_usage(const char *format, ...) SNIC_PRINTF(1, 2) __attribute__((noreturn));
/** The value @p text of option --@p name as an address; ex_usage() if it is none. */
void ex_address(const char *name, const char *text, struct snic_net_addr *out);

/* ---- Logs: one line on stderr ---- */

enum ex_level { EX_ERROR, EX_WARNING, EX_INFO, EX_DEBUG };

/** error, warning, info or debug; for EX_PARSE. */
int ex_log_parse(void *level, const char *text);
/** Lines begin with time, process and @p role as a server's log does, or, with NULL and before
    this call, with the program's name as a tool's messages do. */
void ex_log_set(enum ex_level level, const char *role);
void ex_log(enum ex_level level, const char *format, ...) SNIC_PRINTF(2, 3);
/** Log an error and exit 1. */
void ex_die(const char *format, ...) SNIC_PRINTF(1, 2) __attribute__((noreturn));

/** Clients beyond --connections, as of the last line about them. */
struct ex_refused {
    uint64_t count;
    uint64_t logged_ns;
};
/** @p refused so far, of @p conns_max: a line for those that are new, at most once a second. */
void ex_report_refused(struct ex_refused *last, uint64_t refused, uint64_t conns_max, uint64_t now);
/** Room for @p count open files of option --@p name, and some; exits with a clear line if the limit
    of the process cannot be raised to it. */
void ex_open_files(const char *name, uint64_t count);
/** Why listening at @p address, or on the UNIX socket of that path, ended with SNIC_E* @p r. */
const char *ex_listen_error(const char *address, int r);
/** Make the names in the folder that holds @p path durable. 0; -1 errno */
int ex_folder_sync(const char *path);
/** Exits if @p os_error is that a new file of @p size bytes, what @p why asks for, has no room. */
void ex_no_room(const char *path, uint64_t size, const char *why, int os_error);
/** A client that waits for its server: without progress for timeout_s it exits with an error. */
struct ex_wait {
    struct snic_timer timer;
    struct snic_loop *loop;
    uint64_t timeout_s;
    uint64_t moved_ns;
    const char *server; /**< its address                            */
    const char *kind;   /**< what it should be: "a Redis server"    */
    int moved;          /**< there was progress                     */
};
/** loop, timeout_s, server and kind are set. */
void ex_wait_start(struct ex_wait *w);
/** Something was answered. */
void ex_wait_moved(struct ex_wait *w);
void ex_wait_stop(struct ex_wait *w);
/** A loop on io_uring, busy-polling so long before it sleeps; exits with a clear line when the
    system has none. */
struct snic_loop *ex_loop_open(uint32_t spin_us);
/** What an open of a loop that returned @p rc and left @p os_error failed of, and what to do. */
void ex_io_uring_why(int rc, int os_error, char *text, size_t size);
/** How long a server waits for its predecessor's address: taken_wait_ms of net. */
#define EX_TAKEN_WAIT_MS 3000
/** snic_io_uring_open(), which waits 3 s at most for a process that has the file locked. */
int ex_io_open(struct snic_io **io, struct snic_loop *loop, const struct snic_io_uring_opts *o,
               int *os_error);

/* ---- Statistics ---- */

struct ex_metric {
    const char *name; /**< letters, digits, '_'                       */
    uint64_t value;
    int counter; /**< grows only; otherwise a gauge              */
};

#define EX_METRICS_MAX 512

struct ex_stats;

/** Fill in the metrics, at most EX_METRICS_MAX. @return how many */
typedef size_t (*ex_stats_fn)(void *ctx, struct ex_metric *out);

/**
 * Print a line of name=value pairs on stdout every @p seconds (0: never), and
 * serve a Prometheus page at @p address (NULL: not). @p net may be NULL without one.
 * @return 0 or SNIC_E*, with the error logged
 */
int ex_stats_start(struct ex_stats **out, struct snic_loop *loop, struct snic_net *net,
                   const char *prefix, uint64_t seconds, const char *address, ex_stats_fn fill,
                   void *ctx);
/** More of the page, in Prometheus' text format: what has labels. @return of malloc(), @p size
    bytes; NULL: nothing */
typedef char *(*ex_stats_page_fn)(void *ctx, size_t *size);
/** Append it to the page; its ctx is that of start. Before the loop runs. */
void ex_stats_page(struct ex_stats *s, ex_stats_page_fn page);
/** Before the net handle and the loop are closed. */
void ex_stats_stop(struct ex_stats *s);

/* ---- Shutdown ---- */

/** Call fn(ctx) on the loop's thread at SIGTERM, SIGINT or, where it is not ignored, SIGHUP,
    each time; one loop per process. */
void ex_signals(struct snic_loop *loop, void (*fn)(void *ctx), void *ctx);
/** Was the program started with the signal ignored, as nohup does? */
int ex_signal_ignored(int number);
/** After this signals are ignored; before the loop closes. */
void ex_signals_off(void);

/* ---- A tool's connection ---- */

struct sockaddr;
/** A blocking stream socket that is connected with @p to, of @p size bytes; connect(), send() and
    recv() end after @p seconds. It survives a stop of the process; send() and recv() end with EINTR
    then. @return a descriptor; -1 errno */
int ex_connect(const struct sockaddr *to, uint32_t size, uint64_t seconds);

/* ---- CPU time ---- */

/** Of the calling thread and of the process, user and system, in ns. */
uint64_t ex_cpu_thread_ns(void);
uint64_t ex_cpu_process_ns(void);

#endif
