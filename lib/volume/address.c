/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A client's server gets another address, or is removed. */
#include "volume/volume_priv.h"

int snic_volume_server_remove(struct snic_volume *v, uint32_t server, int forget)
{
    if (server >= v->o.servers_max || !v->servers[server].known)
        return SNIC_ENOENT;
    int r = v->agent->server_remove(v, server, forget);
    if (r != 0)
        return r;
    v->servers[server].known = 0;
    volume_soon(v);
    return 0;
}

int snic_volume_server_readdress(struct snic_volume *v, uint32_t server,
                                 const struct snic_net_addr *addr)
{
    if (server >= v->o.servers_max || !v->servers[server].known)
        return SNIC_ENOENT;
    const struct snic_net_addr *was = &v->servers[server].addr;
    int same = was->family == addr->family && was->port == addr->port && was->node == addr->node &&
               memcmp(was->ip, addr->ip, sizeof(addr->ip)) == 0 &&
               memcmp(was->path, addr->path, sizeof(addr->path)) == 0;
    v->servers[server].addr = *addr;
    if (!same) {
        v->agent->server_moved(v, server); /* it may be another one without our connections */
        volume_soon(v);
    }
    return 0;
}
