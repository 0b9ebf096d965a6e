/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_load/model.h
 * What the pages must hold. The k-th update of a page writes part k modulo the number of parts:
 * the update's LSN, then bytes that follow from page and LSN. So the whole page follows from its
 * LSN and the list of its updates, and one that is lost, doubled or out of order shows.
 */
#ifndef PAGE_LOAD_MODEL_H
#define PAGE_LOAD_MODEL_H

#include "../page_server/page.h"

#define MODEL_PARTS_MAX 64

struct model_page {
    uint64_t *lsns; /* of its updates; the first is part `first`'s */
    uint32_t count;
    uint32_t room;
    uint32_t first;
    uint32_t busy;  /* an update is on its way */
    uint64_t acked; /* newest that the server promised */
    uint64_t seen;  /* newest that a reader got */
};

struct model {
    uint64_t pages;
    uint32_t page_bytes;
    uint32_t update_bytes;
    uint32_t parts;
    uint64_t lsn; /* the largest assigned */
    struct model_page *page;
    unsigned char *pattern;
};

void model_open(struct model *m, uint64_t pages, uint32_t page_bytes, uint32_t update_bytes);
void model_close(struct model *m);

/** A new update of a page: its LSN, the LSN before, where it goes in the body. */
uint64_t model_update(struct model *m, uint64_t page, uint64_t *previous, uint32_t *offset);
/** Where an update goes that was made before. */
uint32_t model_offset(const struct model *m, uint64_t page, uint64_t lsn);
/** Its bytes, update_bytes of them. */
void model_bytes(const struct model *m, uint64_t page, uint64_t lsn, unsigned char *out);
/** Does @p data hold page @p page at @p lsn? NULL, or what is wrong. */
const char *model_check(const struct model *m, uint64_t page, uint64_t lsn,
                        const unsigned char *data);
/** Take over a page of a server that has run before. NULL, or what is wrong with it. */
const char *model_adopt(struct model *m, uint64_t page, uint64_t lsn, const unsigned char *data);

/** Bytes of a remote file at @p position: they follow from it. */
const unsigned char *model_file(const struct model *m, uint64_t position);

#endif
