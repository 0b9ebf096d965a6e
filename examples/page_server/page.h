/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/page.h
 * A page: a header with its id, LSN and checksum, then a body that updates change. All zeros is
 * the page at LSN 0.
 *
 * In the page file each page has two places, side by side, and a new version goes to the one that
 * does not hold the newest: a write that tears leaves the version before as it was.
 */
#ifndef PS_PAGE_H
#define PS_PAGE_H

#include "snicstore.h"

#define PAGE_HEADER 32u

/** A page's entry in the DPU's cache; its version is the LSN. */
struct page_item {
    uint64_t file;
    uint64_t offset;
};

/** Make @p page the version @p lsn of page @p id: header and checksum. */
void page_seal(unsigned char *page, uint32_t bytes, uint64_t id, uint64_t lsn);
/** The LSN of @p page if it is page @p id and undamaged. @return 0 or SNIC_ECORRUPT */
int page_check(const unsigned char *page, uint32_t bytes, uint64_t id, uint64_t *lsn);
/** The LSN that the header of @p page bears, which may be damaged; UINT64_MAX: it is not legible as
    that of page @p id, 0: all zeros, never written. */
uint64_t page_claims(const unsigned char *page, uint32_t bytes, uint64_t id);
/** Where place 0 or 1 of a page begins in the page file. */
uint64_t page_place(uint64_t id, uint32_t bytes, unsigned place);

#endif
