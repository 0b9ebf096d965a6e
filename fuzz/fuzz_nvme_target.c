/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The configuration of nvme_target on hostile bytes: a line is taken, or refused with a text and
 * nothing changed; what was taken is written so that reading it again gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "target.h"

struct tg_options tg;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Groups of hosts would go to the switches here; no namespace has one. */
void tg_loops_call(const struct tg_namespace *ns, void (*fn)(void *ctx), void *ctx)
{
    (void)ns;
    (void)fn;
    (void)ctx;
    abort();
}

static void need(int ok)
{
    if (!ok)
        abort();
}

static void empty(void)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used)
            tg_namespace_free(&tg.ns[i]);
    memset(&tg, 0, sizeof(tg));
    tg.fair = 1;
    tg.namespaces = 64;
}

/* In memory of exactly its size. */
static int line_read(const char *line, size_t size, unsigned number)
{
    struct tg_error e = {.text = ""};
    char *copy = malloc(size + 1);
    need(copy != NULL);
    memcpy(copy, line, size);
    copy[size] = 0;
    int r = tg_config_line(copy, number, &e);
    free(copy);
    need(r == 0 || (r == -1 && e.text[0] != 0));
    return r;
}

/* Where a namespace is gives it a UUID when it is opened. */
static void identify(void)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used)
            tg.ns[i].uuid[0] |= 0x80;
}

static struct tg_text written(void)
{
    struct tg_text out = {0};
    tg_config_write(&out);
    need(!out.failed);
    return out;
}

static void same(struct tg_text *a, struct tg_text *b)
{
    need(a->size == b->size && memcmp(a->data, b->data, a->size) == 0);
    tg_text_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size;
    unsigned number = 1;
    if (size == 0 || size > 4096 || memchr(data, 0, size) != NULL)
        return 0;
    empty();
    struct tg_text now = written();
    for (const char *next; p < end; p = next + 1) {
        next = memchr(p, '\n', (size_t)(end - p));
        next = next != NULL ? next : end;
        int r = line_read(p, (size_t)(next - p), number++);
        identify();
        struct tg_text then = written();
        if (r != 0) {
            same(&now, &then);
            continue;
        }
        tg_text_free(&now);
        now = then;
    }
    empty();
    for (char *line = now.data, *stop; *line != 0; line = stop + 1) {
        stop = strchr(line, '\n');
        need(stop != NULL && line_read(line, (size_t)(stop - line), 1) == 0);
    }
    struct tg_text again = written();
    same(&now, &again);
    tg_text_free(&now);
    empty();
    return 0;
}
