/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reply_grow(struct resp_reply *r, size_t more)
{
    size_t room = r->room == 0 ? 4096 : r->room;
    char *p;

    if (r->size + more <= r->room)
        return 0;
    while (room < r->size + more)
        room *= 2;
    p = realloc(r->data, room);
    if (p == NULL) {
        r->failed = 1;
        return SNIC_ENOMEM;
    }
    r->data = p;
    r->room = room;
    return 0;
}

void resp_put(struct resp_reply *r, const void *data, size_t size)
{
    if (size == 0 || reply_grow(r, size) != 0)
        return;
    memcpy(r->data + r->size, data, size);
    r->size += size;
}

void resp_put_before(struct resp_reply *r, size_t at, const void *data, size_t size)
{
    size_t behind = r->size - at;

    if (reply_grow(r, size) != 0)
        return;
    memmove(r->data + at + size, r->data + at, behind);
    memcpy(r->data + at, data, size);
    r->size += size;
}

void resp_put_text(struct resp_reply *r, const char *text)
{
    resp_put(r, text, strlen(text));
}

void resp_put_vformat(struct resp_reply *r, const char *format, va_list ap)
{
    char text[1024];
    int n = vsnprintf(text, sizeof(text), format, ap);

    if (n > 0)
        resp_put(r, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void resp_put_count(struct resp_reply *r, char type, int64_t n)
{
    char text[24];

    resp_put(r, text, resp_put_number(text, type, n));
}

void resp_put_bulk(struct resp_reply *r, const void *data, size_t size)
{
    resp_put_count(r, '$', (int64_t)size);
    resp_put(r, data, size);
    resp_put(r, "\r\n", 2);
}

void resp_put_value(struct resp_reply *r, const void *data, size_t size)
{
    if (!r->borrows || r->value != NULL || size == 0) {
        resp_put_bulk(r, data, size);
        return;
    }
    resp_put_count(r, '$', (int64_t)size);
    r->value = data;
    r->value_size = size;
    r->value_at = r->size;
    resp_put(r, "\r\n", 2);
}

uint32_t resp_reply_pieces(const struct resp_reply *r, struct snic_iov iov[3])
{
    size_t at = r->value != NULL ? r->value_at : r->size;

    iov[0] = (struct snic_iov){r->data, at};
    if (r->value == NULL)
        return 1;
    iov[1] = (struct snic_iov){(void *)(uintptr_t)r->value, r->value_size};
    iov[2] = (struct snic_iov){r->data + at, r->size - at};
    return 3;
}

void resp_put_map(struct resp_reply *r, int64_t n)
{
    resp_put_count(r, r->resp3 ? '%' : '*', r->resp3 ? n : 2 * n);
}

void resp_put_set(struct resp_reply *r, int64_t n)
{
    resp_put_count(r, r->resp3 ? '~' : '*', n);
}

void resp_put_null(struct resp_reply *r)
{
    resp_put_text(r, r->resp3 ? "_\r\n" : "$-1\r\n");
}

void resp_put_null_array(struct resp_reply *r)
{
    resp_put_text(r, r->resp3 ? "_\r\n" : "*-1\r\n");
}

void resp_put_verbatim(struct resp_reply *r, const void *data, size_t size)
{
    if (!r->resp3) {
        resp_put_bulk(r, data, size);
        return;
    }
    resp_put_count(r, '=', (int64_t)size + 4);
    resp_put_text(r, "txt:");
    resp_put(r, data, size);
    resp_put(r, "\r\n", 2);
}

void resp_put_verror(struct resp_reply *r, const char *format, va_list ap)
{
    char text[512];
    int n = vsnprintf(text, sizeof(text), format, ap);

    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof(text))
        n = (int)sizeof(text) - 1;
    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == '\n'))
        n--; /* as Redis: those at the end go, those within are blanks */
    for (int i = 0; i < n; i++)
        if (text[i] == '\r' || text[i] == '\n')
            text[i] = ' ';
    resp_put(r, "-", 1);
    resp_put(r, text, (size_t)n);
    resp_put(r, "\r\n", 2);
    r->errors++;
}

void resp_put_error(struct resp_reply *r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    resp_put_verror(r, format, ap);
    va_end(ap);
}

void resp_put_help(struct resp_reply *r, const char *const *lines, size_t count)
{
    resp_put_count(r, '*', (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        resp_put(r, "+", 1);
        resp_put_text(r, lines[i]);
        resp_put(r, "\r\n", 2);
    }
}

void resp_reply_free(struct resp_reply *r)
{
    free(r->data);
    memset(r, 0, sizeof(*r));
}
