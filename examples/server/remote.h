/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/remote.h
 * A namespace of an NVMe/TCP target as a program's device, named by a URI (nvmehost.h).
 */
#ifndef EX_SERVER_REMOTE_H
#define EX_SERVER_REMOTE_H

#include "memory.h"
#include "snicstore.h"

struct ex_remote {
    struct snic_net *net; /**< NULL: not open                                              */
    struct snic_io *io;
    struct ex_memory memory;
    int lock; /**< a socket that keeps other programs of this machine out, or -1           */
};

/** 1 if @p name is a URI of a remote device rather than a path, else 0. */
int ex_remote_is(const char *name);
/**
 * Connect, for ten seconds at most, and lock the namespace against other hosts and other programs
 * of this one, unless the name has lock=0; exits with a clear line on failure. @p auth_keys: a file
 * of secrets (secret.h), or NULL. @p depth 0: the default.
 */
void ex_remote_open(struct ex_remote *r, struct snic_loop *loop, const char *uri,
                    const char *auth_keys, uint32_t depth);
/** After its handle was closed; harmless when it is not open. */
void ex_remote_close(struct ex_remote *r);
/** 1 if all of [at, end) reads as zeros; what cannot be read does not. Turns the loop. */
int ex_remote_zeros(struct snic_io *io, uint64_t at, uint64_t end);

#endif
