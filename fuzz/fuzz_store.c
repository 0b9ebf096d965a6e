/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The decoder of records: what is understood is written again and must be the same bytes. */
#include "store/store_priv.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char again[SNIC_STORE__FRONT];
    static unsigned char list[SNIC_STORE_SESSIONS_MAX * SNIC_STORE__SESSION];
    struct store_envelope e;
    struct store_session x;
    if (store_envelope_get(data, size, &e) != 0)
        return 0;
    uint32_t front = store_envelope_front(&e);
    if (front + e.size != size || e.data != data + front)
        abort();
    for (uint32_t i = 0; i < e.sessions; i++) {
        store_session_get(&e, i, &x);
        store_session_put(list, i, &x);
    }
    e.list = list;
    store_envelope_put(again, &e);
    if (memcmp(again, data, front) != 0)
        abort();
    return 0;
}
