/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/script.h
 * The scripts that EVAL supports. There is no Lua here: a script is read into tokens, and what its
 * tokens are is looked up among those of the usual lock scripts of client libraries. Blanks,
 * comments, quotes, semicolons, upper or lower case of strings, the names of local variables and
 * pcall for call make no difference.
 *
 * Threads     Pure functions. Memory: none of its own.
 * Input       Hostile.
 */
#ifndef KV_SCRIPT_H
#define KV_SCRIPT_H

#include "sha1.h"

/** What a script does. "Equal": the value of KEYS[1] is ARGV[1]. */
enum script_kind {
    SCRIPT_UNKNOWN,
    SCRIPT_DELETE, /**< equal: DEL, 1; else 0. Redlock, redis-py's Lock.release          */
    SCRIPT_DELETE_OR_ABSENT, /**< the same, but -1 where the key is absent (redsync) */
    SCRIPT_PEXPIRE,    /**< equal: PEXPIRE ARGV[2], 1; else 0. redis-py's Lock.reacquire     */
    SCRIPT_EXPIRE,     /**< the same with EXPIRE                                             */
    SCRIPT_EXTEND,     /**< equal, and has a time: PEXPIRE ARGV[2], plus what is left unless
                            ARGV[3] is not "0"; 1; else 0. redis-py's Lock.extend            */
    SCRIPT_PTTL,       /**< equal: PTTL; else -3                                             */
    SCRIPT_SET,        /**< equal: SET ARGV[2]; else 0                                       */
    SCRIPT_LOCK_ALL,   /**< no key of KEYS there: SET each to ARGV[1] PX ARGV[2], their count;
                            else 0. node-redlock, and the next two                           */
    SCRIPT_UNLOCK_ALL, /**< DEL each key of KEYS whose value is ARGV[1]; how many            */
    SCRIPT_EXTEND_ALL  /**< all of KEYS are ARGV[1]: SET each with PX ARGV[2]; their count   */
};

enum script_kind script_recognise(const unsigned char *text, size_t size);
/** The hash that script_recognise() looks up. @return 0; -1: not in its language */
int script_fingerprint(const unsigned char *text, size_t size, unsigned char out[SHA1_SIZE]);

#endif
