/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Uses the ring's single header: one record through the ring, printed for check.py. */
#include <stdio.h>
#define SNIC_IMPLEMENTATION
#include "snic_ring.h"

static _Alignas(SNIC_RING_ALIGN) unsigned char memory[8192];

int main(void)
{
    const struct snic_ring_opts o = {
        .opts_size = sizeof(o), .kind = SNIC_RING_REQUEST, .capacity_bytes = 1024};
    struct snic_ring_producer producer;
    struct snic_ring_consumer consumer;
    struct snic_ring_rec rec;

    if (snic_ring_init(memory, sizeof(memory), &o) != 0 ||
        snic_ring_producer_attach(&producer, memory, sizeof(memory), 0) != 0 ||
        snic_ring_consumer_attach(&consumer, memory, sizeof(memory), NULL, 0) != 0 ||
        snic_ring_push(&producer, 1, "hello", 6) != 0 || snic_ring_peek(&consumer, &rec, 1) != 1)
        return 1;
    puts(rec.data);
    return snic_ring_release(&consumer, rec.next);
}
