/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The codec of NVMe/TCP: any bytes under any agreement. What is decoded is encoded to a header that
 * is decoded to the same; a header cut short is not enough, or wrong in the same way.
 */
#include "snicstore/nvmetcp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void same(const struct snic_nvmetcp_pdu *a, const struct snic_nvmetcp_pdu *b)
{
    must(a->type == b->type && a->plen == b->plen && a->data_size == b->data_size);
    must(a->head_size == b->head_size && a->pad_size == b->pad_size && a->pdo == b->pdo);
    must(a->pfv == b->pfv && a->pda == b->pda && a->digests == b->digests);
    must(a->limit == b->limit && a->cccid == b->cccid && a->ttag == b->ttag);
    must(a->offset == b->offset && a->length == b->length && a->fes == b->fes && a->fei == b->fei);
    if (a->capsule != NULL)
        must(memcmp(a->capsule, b->capsule, a->hlen - 8u) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snic_nvmetcp_pdu a, b, c;
    unsigned char out[SNIC_NVMETCP_HEADER_MAX];
    if (size < 2)
        return 0;
    struct snic_nvmetcp_params p = {data[0] & 3, data[1] & 31, (data[0] >> 2) & 1, 0};
    size -= 2;
    unsigned char *in = malloc(size + 1); /* of its exact size: reads beyond are found */
    must(in != NULL);
    memcpy(in, data + 2, size);
    if ((data[0] & 8) != 0 && (p.digests & 1) != 0 && size > 8 && in[2] + 4u <= size)
        snic_put_le32(in + in[2], snic_crc32c(0, in, in[2])); /* a right digest is rare */
    int r = snic_nvmetcp_decode(&a, &p, in, size);
    must(r == 0 || r == SNIC_EAGAIN || r == SNIC_EPROTO || r == SNIC_ECONNRESET);
    must(r != SNIC_EAGAIN || a.head_size > size);
    must(r != SNIC_EPROTO || (a.fes >= 1 && a.fes <= 6));
    for (size_t cut = 0; r == 0 && cut < a.head_size; cut++)
        must(snic_nvmetcp_decode(&b, &p, in, cut) == SNIC_EAGAIN);
    if (r == 0) {
        must(a.head_size <= size && a.pdo <= a.plen && a.pad_size <= 255);
        b = a;
        int n = snic_nvmetcp_encode(out, &b, &p);
        must(n == (int)a.head_size && b.pad_size <= 127);
        must(snic_nvmetcp_decode(&c, &p, out, (size_t)n) == 0);
        b.flags = c.flags; /* reserved bits are not encoded */
        b.pad_size = c.pad_size;
        same(&b, &c);
        must(c.data_size == a.data_size && c.offset == a.offset && c.fei == a.fei);
    }
    free(in);
    return 0;
}
