/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * RESP2 framing and arguments.
 *
 * A framing state packs what must survive between calls into one word:
 *   I1 bit 63 set: a frame under way; bits 0..30 the offset up to which the message is
 *      parsed, bits 31..61 the arguments still to come (RESP_ARGS_MAX fits).
 *   I2 bit 62 set: discarding; bits 0..30 the bytes of the current argument still to
 *      skip, its CRLF included, bits 31..61 the arguments still to come.
 *   I3 0: between messages.
 */
#include "resp.h"

#include "snicstore/base.h"

#include <stdio.h>
#include <string.h>

#define RESP_FRAMING ((uint64_t)1 << 63)
#define RESP_SKIPPING ((uint64_t)1 << 62)
#define RESP_LOW 0x7fffffffu
#define RESP_ARGS_SHIFT 31
#define RESP_ARGS_MASK 0x7fffffffu

/* Longest count line that is waited for: Redis gives up after its inline bound. */
#define RESP_LINE_MAX RESP_INLINE_MAX

enum resp_fault {
    RESP_FINE,
    RESP_BIG_INLINE,
    RESP_BIG_MBULK,
    RESP_BAD_MBULK,
    RESP_BIG_BULK,
    RESP_NO_DOLLAR,
    RESP_BAD_BULK,
    RESP_QUOTES
};

int resp_number(const void *text, size_t size, int64_t *out)
{
    const char *s = text;
    int negative = size > 0 && s[0] == '-';
    size_t i = negative ? 1 : 0;
    uint64_t v = 0;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;

    if (size == i || size - i > 19)
        return -1;
    if (s[i] == '0' && (size > 1))
        return -1;
    for (; i < size; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    if (v > limit)
        return -1;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

size_t resp_put_number(char *out, char type, int64_t n)
{
    char digits[24];
    size_t count = 0;
    size_t at = 0;
    uint64_t v = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

    do {
        digits[count++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    out[at++] = type;
    if (n < 0)
        out[at++] = '-';
    while (count > 0)
        out[at++] = digits[--count];
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}

/*
 * The line "<type><number>\r\n" at data[at]. As in Redis the byte after '\r' is not
 * looked at. 1: *number and *next are set; 0: incomplete; -1: not a number; -2: too long.
 */
static int resp_count_line(const unsigned char *data, size_t size, size_t at, int64_t *number,
                           size_t *next)
{
    const unsigned char *end;
    size_t room = size - at;
    size_t digits = at + 1;
    int64_t n = 0;

    /* The usual case: a few digits without a leading zero. All else follows below. */
    while (digits < size && digits < at + 9 && data[digits] >= '0' && data[digits] <= '9')
        n = n * 10 + (data[digits++] - '0');
    if (digits + 1 < size && data[digits] == '\r' && n > 0 && data[at + 1] != '0') {
        *number = n;
        *next = digits + 2;
        return 1;
    }
    end = memchr(data + at, '\r', room < RESP_LINE_MAX ? room : RESP_LINE_MAX);
    if (end == NULL)
        return room >= RESP_LINE_MAX ? -2 : 0;
    if ((size_t)(end - data) + 2 > size)
        return 0;
    *next = (size_t)(end - data) + 2;
    return resp_number(data + at + 1, (size_t)(end - data) - at - 1, number) == 0 ? 1 : -1;
}

static int64_t resp_frame_inline(const unsigned char *data, size_t size, uint64_t *state,
                                 enum resp_fault *fault)
{
    size_t from = (*state & RESP_FRAMING) != 0 ? (size_t)(*state & RESP_LOW) : 0;
    const unsigned char *end = memchr(data + from, '\n', size - from);

    if (end == NULL) {
        if (size > RESP_INLINE_MAX) {
            *fault = RESP_BIG_INLINE;
            return SNIC_EPROTO;
        }
        *state = RESP_FRAMING | size;
        return 0;
    }
    *state = 0;
    return (int64_t)(end - data) + 1;
}

/* The array's first line: sets the state (I1), or returns the size of an empty message. */
static int64_t resp_frame_array(const unsigned char *data, size_t size, uint64_t *state,
                                enum resp_fault *fault)
{
    int64_t count;
    size_t next = 0;
    int r = resp_count_line(data, size, 0, &count, &next);

    if (r == 0)
        return 0;
    if (r < 0 || count > RESP_ARGS_MAX) {
        *fault = r == -2 ? RESP_BIG_MBULK : RESP_BAD_MBULK;
        return SNIC_EPROTO;
    }
    if (count <= 0) {
        *state = 0;
        return (int64_t)next;
    }
    *state = RESP_FRAMING | ((uint64_t)count << RESP_ARGS_SHIFT) | next;
    return 0;
}

/* One argument's header at data[at]. 1, 0, or SNIC_EPROTO with *fault set. */
static int resp_bulk_line(const unsigned char *data, size_t size, size_t at, int64_t *bulk,
                          size_t *next, enum resp_fault *fault)
{
    int r;

    if (at >= size)
        return 0;
    if (data[at] != '$') {
        /* Redis waits for the whole line before it complains. */
        if (memchr(data + at, '\r', size - at) == NULL && size - at < RESP_LINE_MAX)
            return 0;
        *fault = RESP_NO_DOLLAR;
        return SNIC_EPROTO;
    }
    r = resp_count_line(data, size, at, bulk, next);
    if (r == 0)
        return 0;
    if (r < 0 || *bulk < 0 || *bulk > RESP_BULK_HARD_MAX) {
        *fault = r == -2 ? RESP_BIG_BULK : RESP_BAD_BULK;
        return SNIC_EPROTO;
    }
    return 1;
}

static int64_t resp_frame_why(const unsigned char *data, size_t size,
                              const struct resp_limits *limits, uint64_t *state,
                              enum resp_fault *fault, size_t *fault_at)
{
    uint64_t args;
    size_t at;

    if (size == 0)
        return 0;
    if (data[0] != '*')
        return resp_frame_inline(data, size, state, fault);
    if (*state == 0) {
        int64_t r = resp_frame_array(data, size, state, fault);

        if (r != 0 || *state == 0)
            return r;
    }
    at = (size_t)(*state & RESP_LOW);
    args = (*state >> RESP_ARGS_SHIFT) & RESP_ARGS_MASK;
    if (limits->args_max != 0 && args > limits->args_max)
        return SNIC_EMSGSIZE;
    while (args > 0) {
        int64_t bulk;
        size_t next = 0;
        int r = resp_bulk_line(data, size, at, &bulk, &next, fault);

        *fault_at = at;
        if (r < 0)
            return r;
        if (r == 0)
            break;
        if (bulk > limits->bulk_max || next + (uint64_t)bulk + 2 > limits->message_max) {
            *state = RESP_FRAMING | (args << RESP_ARGS_SHIFT) | at;
            return SNIC_EMSGSIZE;
        }
        if (size - next < (size_t)bulk + 2)
            break;
        at = next + (size_t)bulk + 2;
        args--;
    }
    if (args == 0) {
        *state = 0;
        return (int64_t)at;
    }
    *state = RESP_FRAMING | (args << RESP_ARGS_SHIFT) | at;
    return size > limits->message_max ? SNIC_EMSGSIZE : 0;
}

int64_t resp_frame(const unsigned char *data, size_t size, const struct resp_limits *limits,
                   uint64_t *state)
{
    enum resp_fault fault = RESP_FINE;
    size_t at = 0;

    return resp_frame_why(data, size, limits, state, &fault, &at);
}

int64_t resp_discard(const unsigned char *data, size_t size, uint64_t *state)
{
    uint64_t args = (*state >> RESP_ARGS_SHIFT) & RESP_ARGS_MASK;
    uint64_t skip = (*state & RESP_SKIPPING) != 0 ? *state & RESP_LOW : 0;
    size_t at = (*state & RESP_SKIPPING) != 0 ? 0 : (size_t)(*state & RESP_LOW);

    for (;;) {
        uint64_t have = size - at;
        enum resp_fault fault = RESP_FINE;
        int64_t bulk;
        size_t next = 0;
        int r;

        if (skip > have) {
            *state = RESP_SKIPPING | (args << RESP_ARGS_SHIFT) | (skip - have);
            return (int64_t)size;
        }
        at += (size_t)skip;
        skip = 0;
        if (args == 0) {
            *state = 0;
            return (int64_t)at;
        }
        r = resp_bulk_line(data, size, at, &bulk, &next, &fault);
        if (r < 0)
            return r;
        if (r == 0) {
            *state = RESP_SKIPPING | (args << RESP_ARGS_SHIFT);
            return (int64_t)at;
        }
        at = next;
        skip = (uint64_t)bulk + 2;
        args--;
    }
}

int resp_skipping(uint64_t state)
{
    return (state & RESP_SKIPPING) != 0;
}

size_t resp_error(const unsigned char *data, size_t size, const struct resp_limits *limits,
                  char out[RESP_ERROR_MAX])
{
    static const char *const texts[] = {
        [RESP_FINE] = "unexpected input",
        [RESP_BIG_INLINE] = "too big inline request",
        [RESP_BIG_MBULK] = "too big mbulk count string",
        [RESP_BAD_MBULK] = "invalid multibulk length",
        [RESP_BIG_BULK] = "too big bulk count string",
        [RESP_NO_DOLLAR] = "expected '$', got '%c'",
        [RESP_BAD_BULK] = "invalid bulk length",
        [RESP_QUOTES] = "unbalanced quotes in request",
    };
    enum resp_fault fault = RESP_FINE;
    uint64_t state = 0;
    size_t at = 0;
    int64_t r = resp_frame_why(data, size, limits, &state, &fault, &at);
    int n;

    if (r > 0) /* the frame is whole, so the arguments were at fault */
        fault = RESP_QUOTES;
    if (fault == RESP_NO_DOLLAR) {
        unsigned char c = data[at];

        n = snprintf(out, RESP_ERROR_MAX, "-ERR Protocol error: expected '$', got '%c'\r\n",
                     c < 32 || c > 126 ? ' ' : c);
    } else {
        n = snprintf(out, RESP_ERROR_MAX, "-ERR Protocol error: %s\r\n", texts[fault]);
    }
    return n < 0 ? 0 : (size_t)n;
}

size_t resp_too_long(const struct resp_limits *limits, const char *bulk_option,
                     char out[RESP_ERROR_MAX])
{
    char option[24] = "";
    char args[64] = "";
    int n;

    if (bulk_option != NULL)
        (void)snprintf(option, sizeof(option), " (%s)", bulk_option);
    if (limits->args_max != 0)
        (void)snprintf(args, sizeof(args), ", or has more than %u of them", limits->args_max);
    n = snprintf(out, RESP_ERROR_MAX,
                 "-ERR the command is longer than %u bytes (--message-max), or one of its "
                 "arguments than %u%s%s\r\n",
                 limits->message_max, limits->bulk_max, option, args);
    return n < 0 ? 0 : (size_t)n;
}

static int resp_hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int resp_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0;
}

/* One escape of a "..." string at s[*i] == '\\'; Redis' sdssplitargs() rules. */
static unsigned char resp_escape(const unsigned char *s, size_t size, size_t *i)
{
    static const char from[] = "nrtba";
    static const unsigned char to[] = {'\n', '\r', '\t', '\b', '\a'};
    const char *p;

    if (*i + 3 < size && s[*i + 1] == 'x' && resp_hex(s[*i + 2]) >= 0 && resp_hex(s[*i + 3]) >= 0) {
        unsigned char c = (unsigned char)(resp_hex(s[*i + 2]) * 16 + resp_hex(s[*i + 3]));

        *i += 4;
        return c;
    }
    p = memchr(from, s[*i + 1], sizeof(from) - 1);
    *i += 2;
    return p != NULL ? to[p - from] : s[*i - 1];
}

/* A quoted string from s[*i] (the opening quote): its size, or -1 unbalanced. */
static int64_t resp_quoted(const unsigned char *s, size_t size, size_t *i, unsigned char *out)
{
    unsigned char quote = s[(*i)++];
    int64_t n = 0;

    while (*i < size && s[*i] != quote) {
        if (quote == '"' && s[*i] == '\\' && *i + 1 < size)
            out[n++] = resp_escape(s, size, i);
        else if (quote == '\'' && s[*i] == '\\' && *i + 1 < size && s[*i + 1] == '\'') {
            out[n++] = '\'';
            *i += 2;
        } else
            out[n++] = s[(*i)++];
    }
    if (*i >= size)
        return -1;
    (*i)++;
    return *i < size && !resp_blank(s[*i]) ? -1 : n;
}

static int64_t resp_args_inline(const unsigned char *s, size_t size, struct resp_arg *args,
                                uint32_t max, unsigned char *out)
{
    int64_t count = 0;
    size_t i = 0;

    while (i < size) {
        unsigned char *start = out;

        while (i < size && resp_blank(s[i]))
            i++;
        if (i >= size)
            break;
        while (i < size && !resp_blank(s[i])) {
            if (s[i] == '"' || s[i] == '\'') {
                int64_t n = resp_quoted(s, size, &i, out);

                if (n < 0)
                    return SNIC_EPROTO;
                out += n;
                break;
            }
            *out++ = s[i++];
        }
        if (count < max) {
            args[count].data = start;
            args[count].size = (uint32_t)(out - start);
        }
        count++;
    }
    return count;
}

int64_t resp_args(const unsigned char *msg, size_t size, struct resp_arg *args, uint32_t max,
                  unsigned char *scratch)
{
    int64_t count;
    size_t at = 0;

    if (size == 0)
        return SNIC_EPROTO;
    if (msg[0] != '*') {
        size_t line = size - 1; /* without '\n' */

        if (line > 0 && msg[line - 1] == '\r')
            line--;
        return resp_args_inline(msg, line, args, max, scratch);
    }
    if (resp_count_line(msg, size, 0, &count, &at) != 1 || count > RESP_ARGS_MAX)
        return SNIC_EPROTO;
    for (int64_t i = 0; i < count; i++) {
        enum resp_fault fault = RESP_FINE;
        int64_t bulk;
        size_t next = 0;

        if (resp_bulk_line(msg, size, at, &bulk, &next, &fault) != 1 ||
            (uint64_t)bulk + 2 > size - next)
            return SNIC_EPROTO;
        if (i < max) {
            args[i].data = msg + next;
            args[i].size = (uint32_t)bulk;
        }
        at = next + (size_t)bulk + 2;
    }
    return count < 0 ? 0 : count;
}
