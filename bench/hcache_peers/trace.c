/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Traces, made and read, and the run of a contestant over one. */
#include "peer.h"

#include "snicstore/base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Index: open addressing, a table of four times the keys ---- */

int hcache_index_open(struct hcache_index *x, uint64_t keys)
{
    uint64_t size = snic_pow2_up(keys * 4 + 16);

    x->mask = size - 1;
    x->ino = calloc(size, sizeof(*x->ino));
    x->lpn = calloc(size, sizeof(*x->lpn));
    x->value = calloc(size, sizeof(*x->value));
    x->used = 0;
    return x->ino != NULL && x->lpn != NULL && x->value != NULL ? 0 : -1;
}

void hcache_index_close(struct hcache_index *x)
{
    free(x->ino);
    free(x->lpn);
    free(x->value);
}

static uint64_t index_hash(uint64_t ino, uint64_t lpn)
{
    uint64_t h = (ino * UINT64_C(0x9e3779b97f4a7c15) ^ lpn) * UINT64_C(0xbf58476d1ce4e5b9);

    return h ^ h >> 31;
}

/* Deleted slots are reused only when the table is rebuilt. */
static void index_clean(struct hcache_index *x)
{
    struct hcache_index old = *x;
    uint64_t i;

    if (hcache_index_open(x, (old.mask + 1 - 16) / 4) != 0)
        abort();
    for (i = 0; i <= old.mask; i++)
        if (old.value[i] != 0 && old.value[i] != UINT32_MAX)
            *hcache_index_at(x, old.ino[i], old.lpn[i]) = old.value[i];
    hcache_index_close(&old);
}

uint32_t *hcache_index_at(struct hcache_index *x, uint64_t ino, uint64_t lpn)
{
    uint64_t i;

    if (x->used > x->mask / 2)
        index_clean(x);
    for (i = index_hash(ino, lpn) & x->mask; x->value[i] != 0; i = (i + 1) & x->mask)
        if (x->ino[i] == ino && x->lpn[i] == lpn)
            return &x->value[i];
    x->used++;
    x->ino[i] = ino;
    x->lpn[i] = lpn;
    x->value[i] = UINT32_MAX; /* unless the caller overwrites it */
    return &x->value[i];
}

/* ---- Traces ---- */

const char *const hcache_trace_names[] = {"zipf", "scan", "loop", "mixed", NULL};

int hcache_trace_count(struct hcache_trace *t)
{
    struct hcache_index x;
    uint64_t i;

    if (hcache_index_open(&x, t->count / 2 + 1) != 0)
        return -1;
    t->distinct = 0;
    for (i = 0; i < t->count; i++) {
        uint32_t *v = hcache_index_at(&x, t->refs[i].ino, t->refs[i].lpn);

        t->distinct += *v == UINT32_MAX;
        *v = 1;
    }
    hcache_index_close(&x);
    return 0;
}

void hcache_trace_free(struct hcache_trace *t)
{
    free(t->refs);
    memset(t, 0, sizeof(*t));
}

/* The rank drawn from a Zipf distribution, by its cumulative weights. */
static uint64_t trace_zipf(struct snic_rng *rng, const double *sum, uint64_t n)
{
    double at = (double)(snic_rng_next(rng) >> 11) / 9007199254740992.0 * sum[n - 1];
    uint64_t low = 0, high = n - 1;

    while (low < high) {
        uint64_t mid = (low + high) / 2;

        if (sum[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Ranks are scattered over files of 1000 pages, so that neighbours are not alike. */
static struct hcache_ref trace_page(uint64_t rank, uint64_t pages, uint64_t shift)
{
    uint64_t n = (rank * UINT64_C(2654435761) + shift) % pages;
    struct hcache_ref r = {n / 1000 + 1, n % 1000};

    return r;
}

int hcache_trace_make(struct hcache_trace *t, const char *name, uint64_t refs, uint64_t pages,
                      uint64_t seed)
{
    double *sum = malloc(pages * sizeof(*sum));
    uint64_t scan = 0, scans = 0, loop = 0, i;
    struct snic_rng rng;

    memset(t, 0, sizeof(*t));
    t->refs = malloc(refs * sizeof(*t->refs));
    if (t->refs == NULL || sum == NULL)
        goto out;
    snic_rng_init(&rng, seed);
    for (i = 0; i < pages; i++)
        sum[i] = (i != 0 ? sum[i - 1] : 0) + pow((double)(i + 1), -0.99);
    for (i = 0; i < refs; i++) {
        uint64_t phase = i * 8 / refs;
        struct hcache_ref r;

        if (strcmp(name, "zipf") == 0) {
            r = trace_page(trace_zipf(&rng, sum, pages), pages, 0);
        } else if (strcmp(name, "scan") == 0) { /* every third reference is of a long scan */
            if (i % 3 == 0) {
                r.ino = 100000 + scans;
                r.lpn = scan++;
                if (scan == pages / 4)
                    scan = 0, scans++;
            } else {
                r = trace_page(trace_zipf(&rng, sum, pages), pages, 0);
            }
        } else if (strcmp(name, "loop") == 0) {
            r.ino = 1;
            r.lpn = loop++ % pages;
        } else if (strcmp(name, "mixed") == 0) { /* changing hot sets, a loop, a scan */
            if (phase % 4 == 2) {
                r.ino = 1;
                r.lpn = loop++ % (pages / 6);
            } else if (phase % 4 == 3 && i % 2 == 0) {
                r.ino = 100000;
                r.lpn = scan++;
            } else {
                r = trace_page(trace_zipf(&rng, sum, pages), pages, phase / 2 * pages / 5);
            }
        } else {
            goto out;
        }
        t->refs[i] = r;
    }
    t->count = refs;
out:
    free(sum);
    if (t->count == 0 || hcache_trace_count(t) != 0) {
        hcache_trace_free(t);
        return -1;
    }
    return 0;
}

/* ---- fio's iolog ---- */

/* A file's name becomes its number. */
static uint64_t trace_file(const char *name)
{
    return (uint64_t)snic_crc32c(0, name, strlen(name)) + 1;
}

static int trace_add(struct hcache_trace *t, uint64_t *room, uint64_t ino, uint64_t lpn)
{
    if (t->count == *room) {
        uint64_t more = *room != 0 ? *room * 2 : 4096;
        struct hcache_ref *refs = realloc(t->refs, more * sizeof(*refs));

        if (refs == NULL)
            return -1;
        t->refs = refs;
        *room = more;
    }
    t->refs[t->count].ino = ino;
    t->refs[t->count].lpn = lpn;
    t->count++;
    return 0;
}

static int trace_word(const char *word, const char *const *known)
{
    for (; *known != NULL; known++)
        if (strcmp(word, *known) == 0)
            return 1;
    return 0;
}

/* The last word of the line, cut off it; "" when there is none. */
static char *trace_last(char *line)
{
    size_t n = strlen(line);
    char *word;

    while (n > 0 && strchr(" \t\r\n", line[n - 1]) != NULL)
        line[--n] = 0;
    word = line + n;
    while (word > line && word[-1] != ' ' && word[-1] != '\t')
        word--;
    if (word > line)
        word[-1] = 0;
    return word > line ? word : line + n;
}

static int trace_number(const char *word, uint64_t *out)
{
    char *end;

    if (*word < '0' || *word > '9')
        return -1;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return *end == 0 && errno == 0 ? 0 : -1;
}

/*
 * "NAME read 4096 512" in version 2, a time before it in version 3. The name may have blanks, so
 * the line is read from its end. 0; -1 and the reason in `why`.
 */
static int trace_line(struct hcache_trace *t, uint64_t *room, char *line, int version,
                      uint32_t page_bytes, struct hcache_trace_error *why)
{
    static const char *const file_actions[] = {"add", "open", "close", NULL};
    static const char *const io_actions[] = {"read",     "write", "trim", "sync",
                                             "datasync", "wait",  NULL};
    uint64_t when, offset = 0, bytes = 0, lpn;
    char *last, *number, *action;

    line += strspn(line, " \t\r\n");
    if (*line == 0)
        return 0;
    if (version == 3) {
        size_t n = strcspn(line, " \t");
        char *rest = line + n + (line[n] != 0);

        line[n] = 0;
        why->text = "does not begin with a time, as version 3 does";
        if (trace_number(line, &when) != 0)
            return -1;
        line = rest;
    }
    last = trace_last(line);
    why->text = "is cut off: NAME ACTION OFFSET LENGTH is wanted";
    if (trace_word(last, file_actions))
        return *line != 0 ? 0 : -1;
    why->text = "has no action that fio writes (read, write, trim, sync, datasync, wait; "
                "add, open, close)";
    if (trace_number(last, &bytes) != 0)
        return -1;
    number = trace_last(line);
    if (strcmp(number, "wait") == 0)
        return 0; /* a pause has one number */
    if (trace_word(number, io_actions)) {
        why->text = "is cut off: NAME ACTION OFFSET LENGTH is wanted";
        return -1;
    }
    action = trace_number(number, &offset) == 0 ? trace_last(line) : number;
    if (!trace_word(action, io_actions))
        return -1;
    why->text = "has no file name";
    if (*line == 0)
        return -1;
    if (strcmp(action, "read") != 0 && strcmp(action, "write") != 0)
        return 0;
    why->text = "has a length above 1 GiB, or an offset beyond 2^64";
    if (bytes > (1u << 30) || offset + bytes < offset)
        return -1;
    why->text = "does not fit into memory";
    for (lpn = offset / page_bytes; lpn * page_bytes < offset + bytes; lpn++)
        if (trace_add(t, room, trace_file(line), lpn) != 0)
            return -1;
    return 0;
}

int hcache_trace_iolog(struct hcache_trace *t, const char *path, uint32_t page_bytes,
                       struct hcache_trace_error *why)
{
    FILE *f = fopen(path, "r");
    size_t line_room = 0;
    char *line = NULL;
    uint64_t room = 0;
    int version = 0, bad;

    memset(t, 0, sizeof(*t));
    memset(why, 0, sizeof(*why));
    if (f == NULL) {
        why->text = strerror(errno);
        return -1;
    }
    why->line = 1;
    why->text = "is not 'fio version 2 iolog' or 'fio version 3 iolog'";
    bad = getline(&line, &line_room, f) < 0 ||
          sscanf(line, "fio version %d iolog", &version) != 1 || version < 2 || version > 3;
    while (!bad && getline(&line, &line_room, f) >= 0) {
        why->line++;
        bad = trace_line(t, &room, line, version, page_bytes, why) != 0;
    }
    free(line);
    (void)fclose(f);
    if (!bad && (t->count == 0 || hcache_trace_count(t) != 0)) {
        why->line = 0;
        why->text = t->count == 0 ? "has no read and no write" : "does not fit into memory";
        bad = 1;
    }
    if (bad)
        hcache_trace_free(t);
    return bad ? -1 : 0;
}

double hcache_trace_run(const struct hcache_trace *t, const struct hcache_peer *p, uint64_t pages)
{
    void *cache = p->open(pages);
    uint64_t hits = 0, i;

    if (cache == NULL)
        return -1;
    for (i = 0; i < t->count; i++)
        hits += p->access(cache, t->refs[i].ino, t->refs[i].lpn) != 0;
    p->close(cache);
    return 100.0 * (double)hits / (double)t->count;
}

const struct hcache_peer *hcache_peer_find(const char *name)
{
    int i;

    for (i = 0; hcache_peers[i] != NULL; i++)
        if (strcmp(hcache_peers[i]->name, name) == 0)
            return hcache_peers[i];
    return NULL;
}
