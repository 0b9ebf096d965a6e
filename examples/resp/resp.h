/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/resp.h
 * The Redis protocol, version 2: cutting messages out of a byte stream, taking
 * their arguments, writing replies.
 *
 * Threads     Pure functions; all state is the caller's.
 * Memory      None of its own.
 * Input       Hostile. Every call looks at new bytes only once, so that a message
 *             that comes byte by byte costs linear time.
 */
#ifndef EX_RESP_H
#define EX_RESP_H

#include <stddef.h>
#include <stdint.h>

/** Redis' own bounds. */
#define RESP_INLINE_MAX 65536
#define RESP_BULK_HARD_MAX (512u << 20)
#define RESP_ARGS_MAX 0x7fffffffu
/** Longest line of resp_error() and resp_too_long(). */
#define RESP_ERROR_MAX 192

struct resp_limits {
    uint32_t bulk_max;    /**< a longer argument makes the message oversized            */
    uint32_t message_max; /**< a longer message is oversized; < 2^31                    */
    uint32_t args_max;    /**< so is one of more arguments; 0: any number               */
};

/**
 * Cut one message off @p data, which starts at the message. @p state is 0 for a
 * new message and carries the progress while more bytes are awaited.
 * @return > 0 the message's size (state is 0 again); 0 more bytes are needed;
 *         SNIC_EPROTO broken, see resp_error(); SNIC_EMSGSIZE oversized: from here
 *         on call resp_discard() with the same data
 */
int64_t resp_frame(const unsigned char *data, size_t size, const struct resp_limits *limits,
                   uint64_t *state);

/**
 * Skip an oversized message in bounded memory. @p data continues where the last
 * call stopped.
 * @param state  1 while skipping; 0 when the message has ended
 * @return bytes consumed (0: more are needed); SNIC_EPROTO
 */
int64_t resp_discard(const unsigned char *data, size_t size, uint64_t *state);

/** Is a message being skipped? */
int resp_skipping(uint64_t state);

/** The error line, with CRLF, for data that resp_frame() or resp_discard() refused: SNIC_EPROTO. */
size_t resp_error(const unsigned char *data, size_t size, const struct resp_limits *limits,
                  char out[RESP_ERROR_MAX]);

/** The error line, with CRLF, for a message that was oversized. @p bulk_option: the option that is
 * bulk_max; NULL: none. @return its size */
size_t resp_too_long(const struct resp_limits *limits, const char *bulk_option,
                     char out[RESP_ERROR_MAX]);

struct resp_arg {
    const unsigned char *data;
    uint32_t size;
};

/**
 * Take the arguments of a whole message (as cut by resp_frame()). Array messages
 * are not copied; inline ones are unquoted into @p scratch (>= size bytes).
 * @return how many arguments there are, also beyond @p max (only max are
 *         stored); 0 an empty message, which gets no reply; SNIC_EPROTO unbalanced
 *         quotes or not a whole message
 */
int64_t resp_args(const unsigned char *msg, size_t size, struct resp_arg *args, uint32_t max,
                  unsigned char *scratch);

/** Strict decimal, as Redis reads it: no blanks, no '+', no leading zeros. @return 0; -1 */
int resp_number(const void *text, size_t size, int64_t *out);

/** ":<n>\r\n", "$<n>\r\n" or "*<n>\r\n" into @p out (>= 24 bytes). @return its size */
size_t resp_put_number(char *out, char type, int64_t n);

#endif
