/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "golden.h"

#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_COLUMNS 98 /* of a comment, without "# " */

struct golden {
    char path[512];
    char *text;
    size_t size;
    FILE *out; /* into text */
};

struct golden *golden_begin(const char *name)
{
    struct golden *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    int n = snprintf(g->path, sizeof(g->path), "%s/%s.txt", SUPPORT_GOLDEN_FOLDER, name);
    assert_true(n > 0 && (size_t)n < sizeof(g->path));
    g->out = open_memstream(&g->text, &g->size);
    assert_non_null(g->out);
    return g;
}

void golden_line(struct golden *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vfprintf(g->out, format, args);
    va_end(args);
    (void)fputc('\n', g->out);
}

void golden_note(struct golden *g, const char *text)
{
    if (ftell(g->out) > 0)
        (void)fputc('\n', g->out);
    while (*text != '\0') {
        size_t n = strlen(text);
        if (n > GOLDEN_COLUMNS) {
            for (n = GOLDEN_COLUMNS; text[n] != ' '; n--)
                assert_true(n > 0);
        }
        (void)fprintf(g->out, "# %.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
}

static void golden_write(const struct golden *g)
{
    FILE *f = fopen(g->path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(g->text, 1, g->size, f), g->size);
    assert_int_equal(fclose(f), 0);
}

/* The next line of *@p at, in @p line; NULL at the end. */
static const char *golden_next(const char **at, char *line, size_t size)
{
    const char *end = strchr(*at, '\n');
    if (end == NULL)
        return NULL;
    size_t n = (size_t)(end - *at) < size - 1 ? (size_t)(end - *at) : size - 1;
    memcpy(line, *at, n);
    line[n] = '\0';
    *at = end + 1;
    return line;
}

static char *golden_read(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s: cannot be read; SNIC_GOLDEN_UPDATE=1 writes it", path);
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    assert_non_null(copy);
    for (int c; (c = fgetc(f)) != EOF;)
        (void)fputc(c, copy);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(fclose(copy), 0);
    return text;
}

static void golden_compare(const struct golden *g)
{
    char *wanted = golden_read(g->path);
    const char *a = wanted;
    const char *b = g->text;
    for (unsigned number = 1;; number++) {
        char want[256];
        char got[256];
        const char *x = golden_next(&a, want, sizeof(want));
        const char *y = golden_next(&b, got, sizeof(got));
        if (x == NULL && y == NULL)
            break;
        if (x == NULL || y == NULL || strcmp(x, y) != 0)
            fail_msg("%s:%u differs (SNIC_GOLDEN_UPDATE=1 writes it anew)\n  file: %s\n  test: %s",
                     g->path, number, x != NULL ? x : "(the end)", y != NULL ? y : "(the end)");
    }
    free(wanted);
}

static int golden_updates(void)
{
    const char *update = getenv("SNIC_GOLDEN_UPDATE");
    return update != NULL && strcmp(update, "") != 0 && strcmp(update, "0") != 0;
}

void golden_end(struct golden *g)
{
    assert_int_equal(fclose(g->out), 0);
    if (golden_updates())
        golden_write(g);
    else
        golden_compare(g);
    free(g->text);
    free(g);
}

/* ---- Vectors of FORMAT.md ---- */

static char *golden_hex(const unsigned char *b, size_t size)
{
    char *text = NULL;
    size_t room;
    FILE *f = open_memstream(&text, &room);
    assert_non_null(f);
    for (size_t at = 0; at < size; at += 16) {
        size_t n = size - at < 16 ? size - at : 16;
        unsigned any = 0;
        for (size_t i = 0; i < n; i++)
            any |= b[at + i];
        if (any == 0)
            continue;
        (void)fprintf(f, "%04zx ", at);
        for (size_t i = 0; i < n; i++)
            (void)fprintf(f, " %02x", b[at + i]);
        (void)fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
    return text;
}

void golden_bytes(const char *module, const char *title, const void *bytes, size_t size)
{
    struct golden g = {.size = 0};
    char head[128];
    (void)snprintf(g.path, sizeof(g.path), "%s/../../lib/%s/FORMAT.md", SUPPORT_GOLDEN_FOLDER,
                   module);
    (void)snprintf(head, sizeof(head), "```hex %s, %zu bytes\n", title, size);
    char *file = golden_read(g.path);
    char *hex = golden_hex(bytes, size);
    char *at = strstr(file, head);
    if (at == NULL)
        fail_msg("%s: no block %s", g.path, head);
    at += strlen(head);
    char *end = strstr(at, "```\n");
    assert_non_null(end);
    int same = (size_t)(end - at) == strlen(hex) && memcmp(at, hex, strlen(hex)) == 0;
    if (!same && golden_updates()) {
        g.out = open_memstream(&g.text, &g.size);
        assert_non_null(g.out);
        (void)fprintf(g.out, "%.*s%s%s", (int)(at - file), file, hex, end);
        assert_int_equal(fclose(g.out), 0);
        golden_write(&g);
        free(g.text);
    } else if (!same) {
        fail_msg("%s: %s differs from the code's bytes:\n%s", g.path, title, hex);
    }
    free(file);
    free(hex);
}
