/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/reply.h
 * Replies of the Redis protocol, versions 2 and 3, in a buffer that grows; and Redis' patterns.
 *
 * Threads     All state is the caller's.
 * Memory      malloc(). Without it `failed` is set, and what is put is lost: the caller replies
 *             with an error instead.
 */
#ifndef EX_RESP_REPLY_H
#define EX_RESP_REPLY_H

#include "resp.h"
#include "snicstore/base.h"

#include <stdarg.h>

/** All zero: empty, version 2. */
struct resp_reply {
    char *data;
    size_t size;
    size_t room;
    int failed;      /**< there was no memory */
    int resp3;       /**< version 3 */
    uint64_t errors; /**< put so far */
    int borrows;     /**< 1: a value that is put may be borrowed; see resp_put_value()   */
    size_t value_at; /**< where the borrowed value belongs into data                     */
    size_t value_size;
    const void *value; /**< NULL: none is borrowed                                       */
};

void resp_put(struct resp_reply *r, const void *data, size_t size);
/** Put in front of what was put since r->size was @p at. */
void resp_put_before(struct resp_reply *r, size_t at, const void *data, size_t size);
void resp_put_text(struct resp_reply *r, const char *text);
/** At most 1023 bytes. */
void resp_put_vformat(struct resp_reply *r, const char *format, va_list ap);
/** The number @p n behind @p type, as a line. */
void resp_put_count(struct resp_reply *r, char type, int64_t n);
void resp_put_bulk(struct resp_reply *r, const void *data, size_t size);
/** The same; where the reply borrows, @p data is not copied and has to stay until it is sent. */
void resp_put_value(struct resp_reply *r, const void *data, size_t size);
/** The pieces of the reply, the borrowed value among them. @return their number */
uint32_t resp_reply_pieces(const struct resp_reply *r, struct snic_iov iov[3]);
/** Bytes of all pieces. */
static inline size_t resp_reply_bytes(const struct resp_reply *r)
{
    return r->size + (r->value != NULL ? r->value_size : 0);
}
/** Empty it; what it may borrow is up to the caller again. */
static inline void resp_reply_clear(struct resp_reply *r)
{
    r->size = 0;
    r->value = NULL;
}
/** The head of a map of @p n pairs. */
void resp_put_map(struct resp_reply *r, int64_t n);
/** The head of a set. */
void resp_put_set(struct resp_reply *r, int64_t n);
void resp_put_null(struct resp_reply *r);
void resp_put_null_array(struct resp_reply *r);
/** A text for people: a verbatim string where there is version 3. */
void resp_put_verbatim(struct resp_reply *r, const void *data, size_t size);
/** "-<text>\r\n"; control characters become blanks, as Redis does. At most 511 bytes. */
void resp_put_verror(struct resp_reply *r, const char *format, va_list ap);
void resp_put_error(struct resp_reply *r, const char *format, ...) SNIC_PRINTF(2, 3);
/** A text per line, as HELP answers. */
void resp_put_help(struct resp_reply *r, const char *const *lines, size_t count);
/** Give back the memory; empty afterwards. */
void resp_reply_free(struct resp_reply *r);

/** Does the argument @p a equal the lower-case @p word, in any case? */
static inline int resp_arg_is(const struct resp_arg *a, const char *word)
{
    for (uint32_t i = 0; i < a->size; i++) {
        unsigned char c = a->data[i];

        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c + 32);
        if (c != (unsigned char)word[i] || c == 0)
            return 0;
    }
    return word[a->size] == 0;
}

/** Redis' glob. Linear in pattern times text, whatever the pattern. */
int resp_glob(const unsigned char *pattern, size_t pattern_size, const unsigned char *text,
              size_t size);

#endif
