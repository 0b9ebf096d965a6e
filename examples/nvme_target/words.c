/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Lines of words, as the configuration and commands have them; text that grows. */
#include "target.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tg_fail(struct tg_error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(e->text, sizeof(e->text), format, ap);
    va_end(ap);
    return -1;
}

void tg_text_add(struct tg_text *t, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (t->failed || n < 0)
        return;
    if (t->size + (size_t)n + 1 > t->room) {
        size_t room = 2 * (t->size + (size_t)n) + 256;
        char *data = realloc(t->data, room);
        if (data == NULL) {
            t->failed = 1;
            return;
        }
        t->data = data;
        t->room = room;
    }
    va_start(ap, format);
    (void)vsnprintf(t->data + t->size, t->room - t->size, format, ap);
    va_end(ap);
    t->size += (size_t)n;
}

void tg_text_free(struct tg_text *t)
{
    free(t->data);
    memset(t, 0, sizeof(*t));
}

void tg_text_word(struct tg_text *t, const char *name, const char *value)
{
    tg_text_add(t, " %s", name);
    if (value[0] != 0 && strpbrk(value, " \t\"\\#") == NULL) {
        tg_text_add(t, "%s", value);
        return;
    }
    tg_text_add(t, "\"");
    for (const char *p = value; *p != 0; p++)
        tg_text_add(t, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    tg_text_add(t, "\"");
}

/* The word at @p p, without its quotes, in place. @return what follows it; NULL: not closed */
static char *word_end(char *p, char *out)
{
    int quoted = 0;
    while (*p != 0 && (quoted || (*p != ' ' && *p != '\t'))) {
        if (*p == '"') {
            quoted = !quoted;
            p++;
            continue;
        }
        if (*p == '\\' && p[1] != 0)
            p++;
        *out++ = *p++;
    }
    int more = *p != 0;
    *out = 0;
    return quoted ? NULL : p + more;
}

int tg_split(char *line, char **words, struct tg_error *e)
{
    int count = 0;
    for (const char *p = line; *p != 0; p++)
        if ((unsigned char)*p < ' ' && *p != '\t')
            return tg_fail(e, "a control character (%02x)", (unsigned)(unsigned char)*p);
    for (char *p = line; p != NULL;) {
        p += strspn(p, " \t");
        if (*p == 0 || *p == '#')
            return count;
        if (count == TG_WORDS)
            return tg_fail(e, "more than %d words", TG_WORDS);
        words[count++] = p;
        p = word_end(p, p);
    }
    return tg_fail(e, "a quotation mark (\") is not closed");
}
