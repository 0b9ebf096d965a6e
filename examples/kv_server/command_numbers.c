/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT. */
#include "engine_priv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest text of a floating-point number, both ways, as Redis has it. */
#define NUMBER_TEXT_MAX 5120

/* The signed step of INCR, DECR, INCRBY, DECRBY; 0 and an error reply if it is no number. */
static int string_step(struct kv_command *c, int64_t *step)
{
    int down = c->spec->name[0] == 'd';

    *step = 1;
    if (c->argc == 3 && kv_number(c, &c->argv[2], step) != 0)
        return 0;
    if (down && *step == INT64_MIN) {
        kv_put_error(c->engine, "ERR decrement would overflow");
        return 0;
    }
    if (down)
        *step = -*step;
    return 1;
}

enum kv_outcome kv_cmd_incr(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    const struct resp_arg *k = &c->argv[1];
    char text[24];
    int64_t old = 0;
    int64_t step;
    uint64_t end;
    size_t size;
    int r;

    if (!string_step(c, &step))
        return KV_DONE;
    if (entry != NULL) {
        const unsigned char *value;
        uint32_t value_size;
        enum kv_outcome o = kv_value_to_modify(c, entry, &value, &value_size);

        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        kv_depends(c, kv_store_end(entry));
        if (kv_number(c, &(struct resp_arg){value, value_size}, &old) != 0)
            return KV_DONE;
    }
    if ((step < 0 && old < INT64_MIN - step) || (step > 0 && old > INT64_MAX - step)) {
        kv_put_error(c->engine, "ERR increment or decrement would overflow");
        return KV_DONE;
    }
    if (kv_command_held(c))
        return KV_AGAIN;
    size = resp_put_number(text, ':', old + step);
    r = kv_store_set(c->store, c->database, k->data, k->size, text + 1, (uint32_t)size - 3,
                     entry != NULL ? entry->expire_ms : 0, &end);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put(c->engine, text, size);
    return KV_DONE;
}

/* ---- INCRBYFLOAT ---- */

/* A whole argument as a number, read as strtold() reads it. @return 0; -1 */
static int number_float(const unsigned char *text, size_t size, long double *out)
{
    char copy[NUMBER_TEXT_MAX];
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

/* 17 digits behind the point, without zeros at the end. @return the text's length */
static size_t number_print(char out[NUMBER_TEXT_MAX], long double v)
{
    int n = snprintf(out, NUMBER_TEXT_MAX, "%.17Lf", v);
    size_t size = n > 0 && n < NUMBER_TEXT_MAX ? (size_t)n : 0;

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

enum kv_outcome kv_cmd_incrbyfloat(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    struct kv_string_put p = {
        .database = c->database, .key = &c->argv[1], .encoding = KV_ENTRY_TEXT};
    char text[NUMBER_TEXT_MAX];
    long double old = 0;
    long double step;
    enum kv_outcome o;
    int failed = 0;
    int stored;

    if (entry != NULL) {
        const unsigned char *value;
        uint32_t size;

        o = kv_value_to_modify(c, entry, &value, &size);
        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        failed = number_float(value, size, &old) != 0;
        p.expire_ms = entry->expire_ms;
    }
    if (failed || number_float(c->argv[2].data, c->argv[2].size, &step) != 0) {
        kv_put_error(c->engine, "ERR value is not a valid float");
        return KV_DONE;
    }
    if (isnan(old + step) || isinf(old + step)) {
        kv_put_error(c->engine, "ERR increment would produce NaN or Infinity");
        return KV_DONE;
    }
    p.value = text;
    p.size = (uint32_t)number_print(text, old + step);
    o = kv_string_store(c, &p, &stored);
    if (o == KV_DONE && stored)
        kv_put_bulk(c->engine, text, p.size);
    return o;
}
