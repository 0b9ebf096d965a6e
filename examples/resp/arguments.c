/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Arguments of commands on strings. Error texts are Redis 7's. */
#include "arguments.h"

#include "snicstore/base.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_NUMBER "ERR value is not an integer or out of range"

static int arguments_number(struct resp_reply *r, const struct resp_arg *a, int64_t *out)
{
    if (resp_number(a->data, a->size, out) == 0)
        return 0;
    resp_put_error(r, NOT_A_NUMBER);
    return -1;
}

/* ---- Times ---- */

int resp_expiry(const struct resp_arg *a, uint64_t unit_ms, int absolute, int64_t now_ms,
                int64_t *out)
{
    int64_t n;

    if (resp_number(a->data, a->size, &n) != 0)
        return -1;
    if (unit_ms == 1000) {
        if (n > INT64_MAX / 1000 || n < INT64_MIN / 1000)
            return -2;
        n *= 1000;
    }
    if (!absolute) {
        if (n > INT64_MAX - now_ms)
            return -2;
        n += now_ms;
    }
    *out = n;
    return 0;
}

/* ---- SET, GETEX ---- */

static const struct {
    const char *word;
    uint32_t unit_ms;
    int absolute;
} set_times[] = {{"ex", 1000, 0}, {"px", 1, 0}, {"exat", 1000, 1}, {"pxat", 1, 1}};

/* EX, PX, EXAT or PXAT at argument @p i, with its time. 0; -1 it is none or not allowed here. */
static int set_time(const struct resp_arg *argv, uint32_t argc, struct resp_set *o, uint32_t i)
{
    uint32_t t = 0;

    while (t < SNIC_COUNTOF(set_times) && !resp_arg_is(&argv[i], set_times[t].word))
        t++;
    if (t == SNIC_COUNTOF(set_times) || i + 1 >= argc ||
        (o->flags & (RESP_SET_KEEPTTL | RESP_SET_PERSIST)) != 0)
        return -1;
    /* The same word again is fine: the last one counts. */
    if (o->timed != 0 &&
        (o->unit_ms != set_times[t].unit_ms || o->absolute != set_times[t].absolute))
        return -1;
    o->timed = i + 1;
    o->unit_ms = set_times[t].unit_ms;
    o->absolute = set_times[t].absolute;
    return 0;
}

int resp_set_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc, uint32_t i,
                     uint32_t allowed, struct resp_set *o)
{
    static const struct {
        const char *word;
        uint32_t flag;
        uint32_t against;
    } words[] = {{"nx", RESP_SET_NX, RESP_SET_XX},
                 {"xx", RESP_SET_XX, RESP_SET_NX},
                 {"get", RESP_SET_GET, 0},
                 {"keepttl", RESP_SET_KEEPTTL, RESP_SET_PERSIST},
                 {"persist", RESP_SET_PERSIST, RESP_SET_KEEPTTL}};

    for (; i < argc; i++) {
        uint32_t w = 0;

        while (w < SNIC_COUNTOF(words) &&
               ((words[w].flag & allowed) == 0 || !resp_arg_is(&argv[i], words[w].word)))
            w++;
        if (w < SNIC_COUNTOF(words) && (o->flags & words[w].against) == 0 &&
            (o->timed == 0 || (words[w].flag & (RESP_SET_KEEPTTL | RESP_SET_PERSIST)) == 0)) {
            o->flags |= words[w].flag;
        } else if (w == SNIC_COUNTOF(words) && set_time(argv, argc, o, i) == 0) {
            i++;
        } else {
            resp_put_error(r, "ERR syntax error");
            return -1;
        }
    }
    return 0;
}

int resp_set_expiry(struct resp_reply *r, const struct resp_arg *argv, const char *command,
                    int64_t now_ms, struct resp_set *o)
{
    const struct resp_arg *a = &argv[o->timed];
    int64_t n = 0;
    int rc;

    if (o->timed == 0)
        return 0;
    rc = resp_expiry(a, o->unit_ms, o->absolute, now_ms, &o->expire_ms);
    if (rc == -1) {
        resp_put_error(r, NOT_A_NUMBER);
        return -1;
    }
    (void)resp_number(a->data, a->size, &n);
    if (rc != 0 || n <= 0) {
        resp_put_error(r, "ERR invalid expire time in '%s' command", command);
        return -1;
    }
    return 0;
}

/* ---- EXPIRE ---- */

#define EXPIRE_NX 1u
#define EXPIRE_XX 2u
#define EXPIRE_GT 4u
#define EXPIRE_LT 8u

/* NX XX GT LT. 0, or the error reply is written. */
static int expire_flags(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc,
                        uint32_t *flags)
{
    static const char *const words[] = {"nx", "xx", "gt", "lt"};

    *flags = 0;
    for (uint32_t i = 3; i < argc; i++) {
        uint32_t w = 0;

        while (w < SNIC_COUNTOF(words) && !resp_arg_is(&argv[i], words[w]))
            w++;
        if (w == SNIC_COUNTOF(words)) {
            resp_put_error(r, "ERR Unsupported option %.*s",
                           argv[i].size < 128 ? (int)argv[i].size : 128,
                           (const char *)argv[i].data);
            return -1;
        }
        *flags |= 1u << w;
    }
    if ((*flags & EXPIRE_NX) != 0 && *flags != EXPIRE_NX) {
        resp_put_error(r, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return -1;
    }
    if ((*flags & EXPIRE_GT) != 0 && (*flags & EXPIRE_LT) != 0) {
        resp_put_error(r, "ERR GT and LT options at the same time are not compatible");
        return -1;
    }
    return 0;
}

int resp_expire_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc,
                        const char *command, int64_t now_ms, struct resp_expire *o)
{
    int rc = resp_expiry(&argv[2], command[0] == 'p' ? 1 : 1000, strstr(command, "at") != NULL,
                         now_ms, &o->when_ms);

    if (expire_flags(r, argv, argc, &o->flags) != 0)
        return -1;
    if (rc == 0)
        return 0;
    if (rc == -1)
        resp_put_error(r, NOT_A_NUMBER);
    else
        resp_put_error(r, "ERR invalid expire time in '%s' command", command);
    return -1;
}

int resp_expire_allowed(const struct resp_expire *o, int64_t has_ms)
{
    if ((o->flags & EXPIRE_NX) != 0 && has_ms != 0)
        return 0;
    if ((o->flags & EXPIRE_XX) != 0 && has_ms == 0)
        return 0;
    if ((o->flags & EXPIRE_GT) != 0 && (has_ms == 0 || o->when_ms <= has_ms))
        return 0;
    if ((o->flags & EXPIRE_LT) != 0 && has_ms != 0 && o->when_ms >= has_ms)
        return 0;
    return 1;
}

int64_t resp_ttl(const char *command, int64_t has_ms, int64_t now_ms)
{
    int64_t left = has_ms;

    if (has_ms == 0)
        return -1;
    if (strstr(command, "time") == NULL)
        left -= now_ms;
    if (command[0] != 'p')
        left = (int64_t)(((uint64_t)left + 500) / 1000);
    return left;
}

/* ---- Numbers ---- */

int resp_float(const unsigned char *text, size_t size, long double *out)
{
    char copy[RESP_FLOAT_MAX];
    char *end;

    if (size == 0 || size >= sizeof(copy) || isspace(text[0]))
        return -1;
    memcpy(copy, text, size);
    copy[size] = 0;
    errno = 0;
    *out = strtold(copy, &end);
    if ((size_t)(end - copy) != size || isnan(*out))
        return -1;
    if (errno == ERANGE && (isinf(*out) || fpclassify(*out) == FP_ZERO))
        return -1;
    return 0;
}

size_t resp_float_print(char out[RESP_FLOAT_MAX], long double v)
{
    int n = snprintf(out, RESP_FLOAT_MAX, "%.17Lf", v);
    size_t size = n > 0 && n < RESP_FLOAT_MAX ? (size_t)n : 0;

    if (size > 0 && memchr(out, '.', size) != NULL) {
        while (out[size - 1] == '0')
            size--;
        if (out[size - 1] == '.')
            size--;
    }
    if (size == 2 && out[0] == '-' && out[1] == '0') {
        out[0] = '0';
        size = 1;
    }
    return size;
}

int resp_step(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc, int down,
              int64_t *step)
{
    *step = 1;
    if (argc == 3 && arguments_number(r, &argv[2], step) != 0)
        return -1;
    if (down && *step == INT64_MIN) {
        resp_put_error(r, "ERR decrement would overflow");
        return -1;
    }
    if (down)
        *step = -*step;
    return 0;
}

int resp_increment(struct resp_reply *r, const struct resp_arg *text, int64_t step, int64_t *out)
{
    int64_t old;

    if (arguments_number(r, text, &old) != 0)
        return -1;
    if ((step < 0 && old < INT64_MIN - step) || (step > 0 && old > INT64_MAX - step)) {
        resp_put_error(r, "ERR increment or decrement would overflow");
        return -1;
    }
    *out = old + step;
    return 0;
}

int resp_range(struct resp_reply *r, const struct resp_arg *argv, uint64_t size, uint64_t *from,
               uint64_t *count)
{
    int64_t n = (int64_t)size;
    int64_t a;
    int64_t b;

    if (arguments_number(r, &argv[2], &a) != 0 || arguments_number(r, &argv[3], &b) != 0)
        return -1;
    *from = *count = 0;
    if (n == 0 || (a < 0 && b < 0 && a > b))
        return 0;
    a = a < 0 ? a + n : a;
    b = b < 0 ? b + n : b;
    a = a < 0 ? 0 : a;
    b = b < 0 ? 0 : b;
    b = b >= n ? n - 1 : b;
    if (a > b)
        return 0;
    *from = (uint64_t)a;
    *count = (uint64_t)(b - a) + 1;
    return 0;
}
