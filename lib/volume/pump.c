/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Time, and when the engines are polled next: client and server.
 */
#include "volume/volume_priv.h"

uint64_t volume_now(const struct snic_volume *v)
{
    return snic_loop_now(v->o.loop);
}

void volume_soon(struct snic_volume *v)
{
    if (v->pumping)
        return;
    v->pumping = 1;
    snic_loop_defer(v->o.loop, &v->pump);
}

uint64_t volume_server_now(const struct snic_volume_server *s)
{
    return snic_loop_now(s->o.loop);
}

void volume_server_soon(struct snic_volume_server *s)
{
    if (s->pumping || s->closing)
        return;
    s->pumping = 1;
    snic_loop_defer(s->o.loop, &s->pump);
}
