/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/supervisor.h
 * Runs the DPU role and the host role of a program as two processes.
 */
#ifndef EX_SERVER_SUPERVISOR_H
#define EX_SERVER_SUPERVISOR_H

/**
 * Start this program again, once with "--role dpu" and once with "--role host" behind its own
 * arguments, and "--hash-seed SEED" where @p seed is not NULL; restart a role that dies; pass
 * SIGTERM, SIGINT, SIGHUP and SIGQUIT on as SIGTERM. @return the exit status, when both have ended
 */
int ex_supervise(const char *seed, int argc, char **argv);

#endif
