/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/arguments.h
 * Options of SET and EXPIRE, times, numbers. Where a function refuses an argument, the error, in
 * Redis' words, is in the reply.
 */
#ifndef EX_RESP_ARGUMENTS_H
#define EX_RESP_ARGUMENTS_H

#include "reply.h"

/* ---- SET, GETEX ---- */

enum {
    RESP_SET_NX = 1,
    RESP_SET_XX = 2,
    RESP_SET_GET = 4,
    RESP_SET_KEEPTTL = 8,
    RESP_SET_PERSIST = 16
};

struct resp_set {
    uint32_t flags;
    uint32_t timed;    /**< argument with the time, 0: none */
    uint32_t unit_ms;  /**< of it                           */
    int absolute;      /**< EXAT, PXAT                      */
    int64_t expire_ms; /**< 0: none                         */
};

/** Options from argument @p i on, of those in @p allowed and times. 0, or the error is put. */
int resp_set_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc, uint32_t i,
                     uint32_t allowed, struct resp_set *o);
/** The time that they name, on the wall clock, which has @p now_ms. 0, or the error is put. */
int resp_set_expiry(struct resp_reply *r, const struct resp_arg *argv, const char *command,
                    int64_t now_ms, struct resp_set *o);

/* ---- EXPIRE ---- */

/**
 * A time argument as an absolute wall clock in ms. @p unit_ms: 1000 or 1; @p absolute: EXAT and the
 * like.
 * @return 0; -1 not a number; -2 out of range
 */
int resp_expiry(const struct resp_arg *a, uint64_t unit_ms, int absolute, int64_t now_ms,
                int64_t *out);
struct resp_expire {
    uint32_t flags;
    int64_t when_ms;
};
/** EXPIRE's arguments, or a relative's with the name @p command. 0, or the error is put. */
int resp_expire_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc,
                        const char *command, int64_t now_ms, struct resp_expire *o);
/** May the time become o->when_ms? @p has_ms: what the key has, 0: none, which counts as
 * infinitely late. */
int resp_expire_allowed(const struct resp_expire *o, int64_t has_ms);
/** The reply of TTL and its relatives; @p has_ms as above. */
int64_t resp_ttl(const char *command, int64_t has_ms, int64_t now_ms);

/* ---- Numbers ---- */

/** Longest text of a floating-point number, both ways, as Redis has it. */
#define RESP_FLOAT_MAX 5120

/** A whole argument as a number, read as strtold() reads it. @return 0; -1 */
int resp_float(const unsigned char *text, size_t size, long double *out);
/** 17 digits behind the point, without zeros at the end. @return the text's length */
size_t resp_float_print(char out[RESP_FLOAT_MAX], long double v);
/** The signed step of INCR, DECR, INCRBY, DECRBY. 0, or the error is put. */
int resp_step(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc, int down,
              int64_t *step);
/** Add @p step to the number in @p text. 0, or the error is put. */
int resp_increment(struct resp_reply *r, const struct resp_arg *text, int64_t step, int64_t *out);
/** The part of @p size bytes that GETRANGE means. 0: *from and *count; or the error is put. */
int resp_range(struct resp_reply *r, const struct resp_arg *argv, uint64_t size, uint64_t *from,
               uint64_t *count);

#endif
