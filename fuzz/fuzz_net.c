/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Address texts: no text crashes the parser, and what it accepts has one canonical text that
 * means the same.
 */
#include <stdlib.h>

#include "snicstore/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snic_net_addr a;
    struct snic_net_addr b;
    struct snic_net_addr before;
    char out[256];
    char again[256];
    char *text = malloc(size + 1); /* exact, so that reading on is noticed */
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    memset(&a, 0x5a, sizeof(a));
    before = a;
    if (snic_net_addr_parse(&a, text) != 0) {
        SNIC_ASSERT(memcmp(&a, &before, sizeof(a)) == 0);
    } else {
        SNIC_ASSERT(snic_net_addr_format(&a, out, sizeof(out)) < (int)sizeof(out));
        SNIC_ASSERT(snic_net_addr_parse(&b, out) == 0);
        SNIC_ASSERT(memcmp(&a, &b, sizeof(a)) == 0);
        (void)snic_net_addr_format(&b, again, sizeof(again));
        SNIC_ASSERT(strcmp(out, again) == 0);
    }
    free(text);
    return 0;
}
