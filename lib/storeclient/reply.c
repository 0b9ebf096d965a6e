/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A reply, byte by byte: a line, or an array of numbers and strings. Of an operation it is
 *
 *   *8  :result :out :version :seen :ttl_ms :copies :answer  $value | $-1
 *
 * of a probe an array of a number (1: the node serves) and addresses of nodes; of AUTH a line.
 * Bytes of a value go to op->out directly, as far as there is room.
 */
#include "storeclient_priv.h"

enum storeclient_parse { STORECLIENT_P_LINE = 0, STORECLIENT_P_BULK };

static const struct {
    const char *word;
    int error;
} storeclient_errors[] = {
    {"NOREPLICAS", SNIC_ENOQUORUM},
    {"CLUSTERDOWN", SNIC_ESTALE},
    {"LOADING", SNIC_ESTALE},
    {"TRYAGAIN", SNIC_EAGAIN},
    {"UNKNOWN", SNIC_EUNKNOWN},
    {"NOAUTH", SNIC_EACCES},
    {"WRONGPASS", SNIC_EACCES},
    {"NOPERM", SNIC_EACCES},
    {"DENIED", SNIC_EACCES},
    {"OOM no space", SNIC_ENOSPC},
    {"OOM", SNIC_EAGAIN}, /* memory, for the moment */
    {"ERR value is longer", SNIC_EMSGSIZE},
    {"ERR the command is longer", SNIC_EMSGSIZE}, /* or its value than --value-max */
};

static int storeclient_error_of(const char *line, uint32_t size)
{
    for (size_t i = 0; i < SNIC_COUNTOF(storeclient_errors); i++) {
        size_t n = strlen(storeclient_errors[i].word);
        if (size >= n && memcmp(line, storeclient_errors[i].word, n) == 0)
            return storeclient_errors[i].error;
    }
    return SNIC_EPROTO;
}

/* A decimal number that fills @p size bytes. 0; SNIC_EPROTO */
static int storeclient_number_of(const char *p, uint32_t size, int64_t *out)
{
    uint32_t i = size > 0 && p[0] == '-';
    uint64_t limit = i != 0 ? UINT64_C(1) << 63 : INT64_MAX, v = 0;
    if (i == size)
        return SNIC_EPROTO;
    for (; i < size; i++) {
        uint64_t digit = (uint64_t)(unsigned char)p[i] - '0';
        if (digit > 9 || v > (limit - digit) / 10)
            return SNIC_EPROTO;
        v = v * 10 + digit;
    }
    *out = p[0] == '-' ? (int64_t)(~v + 1) : (int64_t)v;
    return 0;
}

static int storeclient_element_done(struct storeclient_parser *p)
{
    p->element++;
    p->left--;
    return p->left == 0 ? STORECLIENT_REPLY_DONE : STORECLIENT_REPLY_ELEMENT;
}

/* A string of @p n bytes begins, or -1. */
static int storeclient_bulk(struct storeclient_parser *p, struct storeclient_attempt *a, int64_t n)
{
    struct storeclient_reply *r = &a->reply;
    int is_value = a->kind == STORECLIENT_A_OP && p->element == STORECLIENT_FIELDS;
    r->text_size = 0;
    if (n < -1 || p->left == 0 || a->kind == STORECLIENT_A_AUTH)
        return SNIC_EPROTO;
    if (a->kind == STORECLIENT_A_OP && !is_value)
        return SNIC_EPROTO;
    if (a->kind == STORECLIENT_A_PROBE && (p->element == 0 || n >= SNIC_STORECLIENT__LINE))
        return SNIC_EPROTO;
    if (n > (int64_t)SNIC_STORE_VALUE_MAX)
        return SNIC_EPROTO;
    if (n == -1)
        return storeclient_element_done(p);
    r->has_value = (uint32_t)is_value;
    r->value_size = (uint64_t)n;
    p->state = STORECLIENT_P_BULK;
    p->bulk = (uint64_t)n + 2;
    p->at = 0;
    return STORECLIENT_REPLY_MORE;
}

/* A line is complete, without its CRLF. */
static int storeclient_line(struct storeclient_parser *p, struct storeclient_attempt *a)
{
    struct storeclient_reply *r = &a->reply;
    const char *text = p->line + 1;
    uint32_t size = p->line_size - 1;
    int64_t n = 0;
    int top = p->left == 0;
    if (p->line_size == 0)
        return SNIC_EPROTO;
    if (p->line[0] == '-' && top) {
        r->error = storeclient_error_of(text, size);
        return STORECLIENT_REPLY_DONE;
    }
    if (p->line[0] == '+' && top && a->kind == STORECLIENT_A_AUTH)
        return STORECLIENT_REPLY_DONE;
    if (storeclient_number_of(text, size, &n) != 0)
        return SNIC_EPROTO;
    if (p->line[0] == '*' && top) {
        int64_t least = a->kind == STORECLIENT_A_OP ? STORECLIENT_FIELDS + 1 : 1;
        int64_t most =
            a->kind == STORECLIENT_A_OP ? STORECLIENT_FIELDS + 1 : SNIC_STORECLIENT_NODES_MAX + 1;
        if (a->kind == STORECLIENT_A_AUTH || n < least || n > most)
            return SNIC_EPROTO;
        p->left = (uint32_t)n;
        p->element = 0;
        return STORECLIENT_REPLY_MORE;
    }
    if (p->line[0] == '$')
        return storeclient_bulk(p, a, n);
    if (p->line[0] != ':' || top || p->element >= STORECLIENT_FIELDS ||
        (a->kind == STORECLIENT_A_PROBE && p->element != 0))
        return SNIC_EPROTO;
    r->field[p->element] = n;
    r->count = p->element + 1;
    return storeclient_element_done(p);
}

/* Part of a string. */
static void storeclient_bulk_bytes(struct storeclient_parser *p, struct storeclient_attempt *a,
                                   const char *data, size_t size)
{
    struct storeclient_reply *r = &a->reply;
    size_t n = 0;
    if (p->at < r->value_size)
        n = (size_t)snic_min_u64(size, r->value_size - p->at);
    if (n > 0 && a->kind == STORECLIENT_A_PROBE) {
        memcpy(r->text + p->at, data, n);
        r->text_size += (uint32_t)n;
    } else if (n > 0 && a->op != NULL && !a->late && p->at < a->op->out_max) { /* C1 */
        memcpy((char *)a->op->out + p->at, data, (size_t)snic_min_u64(n, a->op->out_max - p->at));
    }
    p->at += size;
    p->bulk -= size;
}

int64_t storeclient_reply_take(struct storeclient_parser *p, struct storeclient_attempt *a,
                               const char *data, size_t size, int *complete)
{
    size_t used = 0;
    *complete = STORECLIENT_REPLY_MORE;
    while (used < size && *complete == STORECLIENT_REPLY_MORE) {
        if (p->state == STORECLIENT_P_BULK) {
            size_t n = (size_t)snic_min_u64(size - used, p->bulk);
            storeclient_bulk_bytes(p, a, data + used, n);
            used += n;
            if (p->bulk == 0) {
                p->state = STORECLIENT_P_LINE;
                *complete = storeclient_element_done(p);
            }
            continue;
        }
        char byte = data[used++];
        if (byte != '\n') {
            if (p->line_size == SNIC_STORECLIENT__LINE)
                return SNIC_EPROTO;
            p->line[p->line_size++] = byte;
            continue;
        }
        if (p->line_size == 0 || p->line[p->line_size - 1] != '\r')
            return SNIC_EPROTO;
        p->line_size--;
        *complete = storeclient_line(p, a);
        p->line_size = 0;
        if (*complete < 0)
            return *complete;
    }
    return (int64_t)used;
}
