/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "model.h"

#include "../common.h"
#include "../page_server/wire.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES (1u << 20)
#define LSN_BYTES 8u

static uint64_t model_mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
    return v ^ (v >> 31);
}

/* A piece of a fixed random pattern. */
static const unsigned char *model_piece(const struct model *m, uint64_t a, uint64_t b)
{
    return m->pattern + model_mix(model_mix(a + 1) + b) % PATTERN_BYTES;
}

void model_open(struct model *m, uint64_t pages, uint32_t page_bytes, uint32_t update_bytes)
{
    struct snic_rng rng;
    uint32_t body = page_bytes - PAGE_HEADER;

    m->pages = pages;
    m->page_bytes = page_bytes;
    m->update_bytes = update_bytes;
    if (update_bytes < LSN_BYTES || update_bytes > body)
        ex_usage("--update-bytes: %u is not between %u and %u", update_bytes, LSN_BYTES, body);
    m->parts = (uint32_t)snic_min_u64(MODEL_PARTS_MAX, body / update_bytes);
    m->page = calloc((size_t)pages, sizeof(*m->page));
    m->pattern = malloc(PATTERN_BYTES + page_bytes);
    if (m->page == NULL || m->pattern == NULL)
        ex_die("out of memory for the model of the pages");
    snic_rng_init(&rng, 1); /* the same in every run */
    snic_rng_fill(&rng, m->pattern, PATTERN_BYTES + page_bytes);
}

void model_close(struct model *m)
{
    for (uint64_t i = 0; i < m->pages; i++)
        free(m->page[i].lsns);
    free(m->page);
    free(m->pattern);
}

static void model_append(struct model_page *p, uint64_t lsn)
{
    if (p->count == p->room) {
        p->room = p->room == 0 ? 4 : p->room * 2;
        p->lsns = realloc(p->lsns, p->room * sizeof(*p->lsns));
        if (p->lsns == NULL)
            ex_die("out of memory for the model of the pages");
    }
    p->lsns[p->count++] = lsn;
}

uint64_t model_update(struct model *m, uint64_t page, uint64_t *previous, uint32_t *offset)
{
    struct model_page *p = &m->page[page];

    *previous = p->count > 0 ? p->lsns[p->count - 1] : 0;
    model_append(p, ++m->lsn);
    *offset = model_offset(m, page, m->lsn);
    return m->lsn;
}

/* Index of @p lsn among the page's updates, UINT32_MAX if it is none. */
static uint32_t model_find(const struct model_page *p, uint64_t lsn)
{
    uint32_t low = 0;
    uint32_t high = p->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (p->lsns[middle] < lsn)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->lsns[low] == lsn ? low : UINT32_MAX;
}

uint32_t model_offset(const struct model *m, uint64_t page, uint64_t lsn)
{
    const struct model_page *p = &m->page[page];

    return (p->first + model_find(p, lsn)) % m->parts * m->update_bytes;
}

void model_bytes(const struct model *m, uint64_t page, uint64_t lsn, unsigned char *out)
{
    snic_put_le64(out, lsn);
    memcpy(out + LSN_BYTES, model_piece(m, page, lsn), m->update_bytes - LSN_BYTES);
}

/* Is part @p i of the page the update @p lsn? 0: never written. */
static int model_part_is(const struct model *m, uint64_t page, uint32_t i, uint64_t lsn,
                         const unsigned char *data)
{
    static const unsigned char zeros[WIRE_DATA_MAX];
    const unsigned char *part = data + PAGE_HEADER + i * m->update_bytes;

    if (snic_get_le64(part) != lsn)
        return 0;
    return memcmp(part + LSN_BYTES, lsn == 0 ? zeros : model_piece(m, page, lsn),
                  m->update_bytes - LSN_BYTES) == 0;
}

const char *model_check(const struct model *m, uint64_t page, uint64_t lsn,
                        const unsigned char *data)
{
    const struct model_page *p = &m->page[page];
    uint32_t k = lsn == 0 ? 0 : model_find(p, lsn) + 1; /* updates that are in it */
    uint64_t inside;

    if (lsn != 0 && k == 0)
        return "no update of the page has this LSN";
    if (page_check(data, m->page_bytes, page, &inside) != 0)
        return "wrong checksum";
    if (inside != lsn)
        return "its LSN is not that of the reply";
    for (uint32_t i = 0; i < m->parts; i++) {
        uint32_t n = (i + m->parts - p->first % m->parts) % m->parts; /* its first update */
        uint64_t want = 0;

        if (n < k)
            want = p->lsns[n + (k - 1 - n) / m->parts * m->parts];
        if (!model_part_is(m, page, i, want, data))
            return "the bytes are not those of the updates";
    }
    return NULL;
}

const char *model_adopt(struct model *m, uint64_t page, uint64_t lsn, const unsigned char *data)
{
    struct model_page *p = &m->page[page];
    uint64_t lsns[MODEL_PARTS_MAX];
    uint32_t newest = 0;
    uint32_t oldest;

    for (uint32_t i = 0; i < m->parts; i++) {
        lsns[i] = snic_get_le64(data + PAGE_HEADER + i * m->update_bytes);
        if (lsns[i] > lsns[newest])
            newest = i;
    }
    oldest = (newest + 1) % m->parts;
    if (lsns[oldest] == 0)
        oldest = 0;
    p->count = 0;
    p->first = oldest;
    for (uint32_t i = 0; i < m->parts && lsns[(oldest + i) % m->parts] != 0; i++) {
        uint64_t n = lsns[(oldest + i) % m->parts];

        if (p->count > 0 && n <= p->lsns[p->count - 1])
            return "the updates are out of order";
        model_append(p, n);
    }
    p->acked = p->seen = lsn;
    if (lsn > m->lsn)
        m->lsn = lsn;
    return model_check(m, page, lsn, data);
}

const unsigned char *model_file(const struct model *m, uint64_t position)
{
    return model_piece(m, position, 0);
}
