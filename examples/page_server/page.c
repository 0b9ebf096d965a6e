/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "page.h"

#include <string.h>

#define PAGE_MAGIC 0x45474150u /* "PAGE" */

/*
 * Header: magic 4, crc 4 (of all behind it), id 8, lsn 8, zeros 8.
 */
static uint32_t page_crc(const unsigned char *page, uint32_t bytes)
{
    return snic_crc32c(0, page + 8, bytes - 8);
}

void page_seal(unsigned char *page, uint32_t bytes, uint64_t id, uint64_t lsn)
{
    snic_put_le32(page, PAGE_MAGIC);
    snic_put_le64(page + 8, id);
    snic_put_le64(page + 16, lsn);
    snic_put_le64(page + 24, 0);
    snic_put_le32(page + 4, page_crc(page, bytes));
}

int page_check(const unsigned char *page, uint32_t bytes, uint64_t id, uint64_t *lsn)
{
    if (snic_get_le32(page) != PAGE_MAGIC || snic_get_le64(page + 8) != id ||
        snic_get_le32(page + 4) != page_crc(page, bytes))
        return SNIC_ECORRUPT;
    *lsn = snic_get_le64(page + 16);
    return 0;
}

uint64_t page_claims(const unsigned char *page, uint32_t bytes, uint64_t id)
{
    if (page[0] == 0 && memcmp(page, page + 1, bytes - 1) == 0)
        return 0;
    if (snic_get_le32(page) != PAGE_MAGIC || snic_get_le64(page + 8) != id)
        return UINT64_MAX;
    return snic_get_le64(page + 16);
}

uint64_t page_place(uint64_t id, uint32_t bytes, unsigned place)
{
    return (id * 2 + place) * bytes;
}
