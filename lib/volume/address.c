/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A server that the client knows comes back elsewhere. */
#include "volume/volume_priv.h"

int snic_volume_server_readdress(struct snic_volume *v, uint32_t server,
                                 const struct snic_net_addr *addr)
{
    if (server >= v->o.servers_max || !v->servers[server].known)
        return SNIC_ENOENT;
    v->servers[server].addr = *addr; /* the next train of each path goes there, and is answered by
                                        a RESET, as after a restart */
    return 0;
}
