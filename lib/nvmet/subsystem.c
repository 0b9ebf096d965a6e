/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Subsystems, on the owner's loop: their engines' actions and time, namespaces, the discovery log.
 */
#include "nvmet/nvmet_priv.h"

/* ---- Actions ---- */

static void nvmet_sub_arm(struct nvmet_sub *sub)
{
    uint64_t at = snic_nvmesub_deadline_ns(sub->engine);
    if (at == sub->armed_ns)
        return;
    sub->armed_ns = at;
    if (at == SNIC_NEVER)
        snic_loop_cancel(sub->s->loop, &sub->timer);
    else
        snic_loop_arm(sub->s->loop, &sub->timer, at);
}

static void nvmet_sub_fire(struct snic_timer *t, uint64_t now)
{
    struct nvmet_sub *sub = SNIC_CONTAINER(t, struct nvmet_sub, timer);
    sub->armed_ns = SNIC_NEVER;
    snic_nvmesub_tick(sub->engine, now);
    nvmet_sub_poll(sub);
}

static void nvmet_sub_act(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    switch (a->kind) {
    case SNIC_NVMESUB_COMPLETE:
    case SNIC_NVMESUB_DROP:
        nvmet_seat_return(sub, a);
        break;
    case SNIC_NVMESUB_END:
        nvmet_seat_end(sub, a);
        break;
    case SNIC_NVMESUB_ABORT:
        nvmet_seat_abort(sub, a);
        break;
    case SNIC_NVMESUB_AUTH:
        nvmet_auth_command(sub, a);
        break;
    case SNIC_NVMESUB_PERSIST:
        if (sub->persist != NULL)
            sub->persist(sub->persist_ctx, sub->index, a->nsid, a->sequence);
        else
            snic_nvmesub_persisted(sub->engine, a->nsid, a->sequence, SNIC_ENOTSUP);
        break;
    case SNIC_NVMESUB_QUIESCE:
        nvmet_seat_quiesce(sub, a);
        break;
    default:
        nvmet_seat_unfence(sub);
        break;
    }
}

void nvmet_sub_poll(struct nvmet_sub *sub)
{
    struct snic_nvmesub_action a;
    if (sub->polling)
        return;
    sub->polling = 1;
    while (snic_nvmesub_poll(sub->engine, &a))
        nvmet_sub_act(sub, &a);
    sub->polling = 0;
    nvmet_sub_arm(sub);
}

void snic_nvmet_run(struct snic_nvmet *s)
{
    for (uint32_t i = 0; i <= s->o.subsystems_max; i++)
        if (s->subs[i].engine != NULL)
            nvmet_sub_poll(&s->subs[i]);
}

/* ---- Subsystems ---- */

struct nvmet_sub *nvmet_sub_find(struct snic_nvmet *s, const char *subnqn)
{
    for (uint32_t i = 0; i <= s->o.subsystems_max; i++)
        if (s->subs[i].engine != NULL && !s->subs[i].removing &&
            strcmp(s->subs[i].subnqn, subnqn) == 0)
            return &s->subs[i];
    return NULL;
}

void nvmet_sub_init(struct nvmet_sub *sub)
{
    snic_timer_init(&sub->timer, nvmet_sub_fire);
    sub->armed_ns = SNIC_NEVER;
    for (uint32_t i = 0; sub->devs != NULL && i < sub->s->o.namespaces_max; i++) {
        struct nvmet_dev *dev = &sub->devs[i];
        dev->sub = sub;
        dev->nsid = i + 1;
        snic_link_init(&dev->room);
        snic_link_init(&dev->busy);
        snic_io_waiter_init(&dev->waiter, nvmet_device_room);
    }
}

void nvmet_sub_fini(struct nvmet_sub *sub)
{
    if (sub->engine == NULL)
        return;
    snic_loop_cancel(sub->s->loop, &sub->timer);
    (void)snic_nvmesub_fini(sub->engine);
    sub->engine = NULL;
}

int nvmet_sub_open(struct nvmet_sub *sub, const struct snic_nvmet_subsystem_opts *o, uint32_t flags)
{
    struct snic_nvmesub_opts e;
    nvmet_sub_opts(&sub->s->o, &e);
    e.flags = flags;
    e.subnqn = o->subnqn;
    e.serial = o->serial;
    e.model = o->model;
    int r = snic_nvmesub_init(&sub->engine, sub->mem, sub->s->sub_size, &e,
                              snic_loop_now(sub->s->loop));
    if (r != 0)
        return r;
    sub->view = snic_nvmesub_get_view(sub->engine);
    sub->host_count = 0;
    sub->any_host = (flags & SNIC_NVMESUB_ANY_HOST) != 0;
    sub->persist = o->persist;
    sub->persist_ctx = o->persist_ctx;
    memcpy(sub->subnqn, o->subnqn, strlen(o->subnqn) + 1);
    for (uint32_t i = 0; r == 0 && i < o->host_count; i++) {
        r = snic_nvmesub_allow(sub->engine, o->hosts[i], nvmet_auth_rule(sub->s, o->hosts[i]), NULL,
                               0);
        if (r == 0)
            (void)nvmet_change_add(sub, o->hosts[i]);
    }
    if (r != 0)
        nvmet_sub_fini(sub);
    return r;
}

struct snic_nvmesub *snic_nvmet_engine(struct snic_nvmet *t, uint32_t subsystem)
{
    return t->first == t && subsystem < t->o.subsystems_max && !t->subs[subsystem].removing
               ? t->subs[subsystem].engine
               : NULL;
}

/* ---- Discovery ---- */

static void nvmet_text(uint8_t *field, size_t size, const char *text, size_t length)
{
    memset(field, ' ', size);
    memcpy(field, text, snic_min_u64(length, size));
}

/* "1.2.3.4:4420" or "[::1]:4420" into the two fields. */
static void nvmet_entry_address(struct snic_nvme_discovery_entry *e, const struct snic_net_addr *a)
{
    char text[160];
    size_t begin, end, port;
    (void)snic_net_addr_format(a, text, sizeof(text));
    for (port = strlen(text); port > 0 && text[port - 1] != ':'; port--)
        ;
    begin = text[0] == '[';
    end = port > 0 ? port - 1 - begin : 0;
    e->adrfam = a->family == SNIC_NET_IPV6 ? SNIC_NVME_ADRFAM_IPV6 : SNIC_NVME_ADRFAM_IPV4;
    nvmet_text(e->traddr, sizeof(e->traddr), text + begin, end > begin ? end - begin : 0);
    nvmet_text(e->trsvcid, sizeof(e->trsvcid), text + port, strlen(text + port));
}

static void nvmet_entry(struct snic_nvmet *s, uint32_t index, const struct nvmet_port *p)
{
    const struct nvmet_sub *sub = &s->subs[index];
    struct nvmet_sub *discovery = &s->subs[s->o.subsystems_max];
    struct snic_nvme_discovery_entry e;
    memset(&e, 0, sizeof(e));
    e.trtype = SNIC_NVME_TRTYPE_TCP;
    e.subtype = SNIC_NVME_SUBTYPE_NVM;
    e.treq = SNIC_NVME_TREQ_NOT_SPECIFIED; /* for NOT_REQUIRED libnvme 1.3 insists on TLS */
    snic_put_le16(&e.portid, (uint16_t)p->number);
    snic_put_le16(&e.cntlid, SNIC_NVME_CNTLID_DYNAMIC);
    snic_put_le16(&e.asqsz, SNIC_NVMESUB_ADMIN_DEPTH);
    nvmet_entry_address(&e, &p->shown);
    memcpy(e.subnqn, sub->subnqn, strlen(sub->subnqn));
    int r = 0;
    for (uint32_t i = 0; !sub->any_host && i < sub->host_count; i++)
        r |= snic_nvmesub_allow(discovery->engine, sub->hosts[i], 0, NULL, 0);
    r |= snic_nvmesub_entry(discovery->engine, index * SNIC_NVMESUB_PORTS_MAX + p->number, &e,
                            sub->any_host ? NULL : sub->hosts, sub->any_host ? 0 : sub->host_count);
    SNIC_ASSERT(r == 0); /* names and numbers were accepted before */
    nvmet_sub_poll(discovery);
}

void nvmet_discovery(struct snic_nvmet *s, uint32_t index)
{
    const struct nvmet_sub *sub = &s->subs[index];
    struct nvmet_sub *discovery = &s->subs[s->o.subsystems_max];
    for (uint32_t k = 0; k < SNIC_NVMESUB_PORTS_MAX; k++) {
        if (s->ports[k].listener == NULL)
            continue;
        if (sub->any_host || sub->host_count > 0) {
            nvmet_entry(s, index, &s->ports[k]);
            continue;
        }
        int r = snic_nvmesub_entry(discovery->engine, index * SNIC_NVMESUB_PORTS_MAX + k, NULL,
                                   NULL, 0);
        SNIC_ASSERT(r == 0);
        nvmet_sub_poll(discovery);
    }
}

int snic_nvmet_subsystem_add(struct snic_nvmet *t, const struct snic_nvmet_subsystem_opts *o)
{
    struct snic_nvmet_subsystem_opts full;
    uint32_t i = 0;
    memset(&full, 0, sizeof(full));
    if (snic_opts_copy(&full, sizeof(full), o) != 0 || full.reserved != 0 ||
        full.host_count > SNIC_NVMET__HOSTS || full.subnqn == NULL || t->first != t ||
        (full.flags & ~(SNIC_NVMESUB_ANY_HOST | SNIC_NVMESUB_NO_VWC)) != 0)
        return SNIC_EINVAL;
    if (nvmet_sub_find(t, full.subnqn) != NULL)
        return SNIC_EEXIST;
    while (i < t->o.subsystems_max && t->subs[i].engine != NULL)
        i++;
    if (i == t->o.subsystems_max)
        return SNIC_ENOSPC;
    int r = nvmet_sub_open(&t->subs[i], &full, full.flags);
    if (r != 0)
        return r;
    nvmet_discovery(t, i);
    return (int)i;
}

/* ---- Namespaces ---- */

/* @return 0; SNIC_E* this handle cannot be a namespace */
static int nvmet_ns_fits(const struct snic_nvmet *t, const struct snic_io *io, uint32_t shift)
{
    const struct snic_io_geometry *g = &io->geometry;
    uint64_t block = UINT64_C(1) << shift;
    if (g->block > block || g->offset_align > block || g->length_align > block ||
        g->memory_align > SNIC_NVMET__PAGE || g->transfer_max < t->o.data_max)
        return SNIC_EINVAL;
    if ((io->caps & (SNIC_IO_CAP_ZERO | SNIC_IO_CAP_READONLY)) == 0)
        return SNIC_ENOTSUP;
    return g->size < block ? SNIC_ENOSPC : 0;
}

/* The record that a new namespace gets, before hosts see it. @return 0; SNIC_E* */
static int nvmet_ns_record(struct nvmet_sub *sub, struct snic_nvmesub_ns_opts *e,
                           const struct snic_nvmet_ns_opts *o, struct nvmet_dev **out)
{
    struct snic_nvmesub_ns_status status;
    struct snic_nvmet *first = sub->s;
    uint32_t loop = 0;
    while (loop < first->loop_count && first->loops[loop]->loop != o->io->loop)
        loop++;
    if (loop == first->loop_count || e->nsid > first->o.namespaces_max)
        return SNIC_EINVAL;
    for (uint32_t i = 1; e->nsid == 0 && i <= first->o.namespaces_max; i++)
        if (snic_nvmesub_get_ns(sub->engine, i, &status) != 0)
            e->nsid = i;
    if (e->nsid == 0)
        return SNIC_ENOSPC;
    if (snic_nvmesub_get_ns(sub->engine, e->nsid, &status) == 0)
        return SNIC_EEXIST;
    struct nvmet_dev *dev = &sub->devs[e->nsid - 1];
    SNIC_ASSERT(dev->io == NULL && dev->inside == 0);
    dev->s = first->loops[loop];
    dev->io = o->io;
    dev->removed = NULL;
    dev->reserve = o->reserve;
    dev->commit = o->commit;
    *out = dev;
    return 0;
}

int snic_nvmet_ns_add(struct snic_nvmet *t, uint32_t subsystem, const struct snic_nvmet_ns_opts *o)
{
    struct snic_nvmet_ns_opts full;
    struct snic_nvmesub_ns_opts e = {.opts_size = sizeof(e)};
    struct nvmet_dev *dev = NULL;
    memset(&full, 0, sizeof(full));
    if (snic_opts_copy(&full, sizeof(full), o) != 0 || full.io == NULL ||
        (full.reserve == NULL) != (full.commit == NULL) ||
        (full.shift != 0 && full.shift != 9 && full.shift != 12))
        return SNIC_EINVAL;
    if (snic_nvmet_engine(t, subsystem) == NULL)
        return SNIC_ENOENT;
    struct nvmet_sub *sub = &t->subs[subsystem];
    const struct snic_io_geometry *g = &full.io->geometry;
    if (full.shift == 0)
        full.shift = g->block <= 512 && g->length_align <= 512 && g->size % 4096 != 0 ? 9 : 12;
    int r = nvmet_ns_fits(t, full.io, full.shift);
    if (r != 0)
        return r;
    e.nsid = full.nsid;
    e.group = full.group;
    e.shift = full.shift;
    e.blocks = g->size >> full.shift;
    e.read_only = (full.io->caps & SNIC_IO_CAP_READONLY) != 0;
    memcpy(e.nguid, full.nguid, sizeof(e.nguid));
    memcpy(e.uuid, full.uuid, sizeof(e.uuid));
    r = nvmet_ns_record(sub, &e, &full, &dev);
    if (r == 0)
        r = snic_nvmesub_ns_add(sub->engine, &e);
    if (r < 0) {
        if (dev != NULL)
            dev->io = NULL;
        return r;
    }
    for (uint32_t i = 0; i < t->loop_count; i++)
        nvmet_mail_send(t, t->loops[i], &t->loops[i]->ns[subsystem][r - 1].added,
                        nvmet_inside_added);
    nvmet_sub_poll(sub);
    return r;
}

int snic_nvmet_ns_remove(struct snic_nvmet *t, uint32_t subsystem, uint32_t nsid,
                         snic_nvmet_ns_removed_fn removed, void *ctx)
{
    if (snic_nvmet_engine(t, subsystem) == NULL)
        return SNIC_ENOENT;
    struct nvmet_sub *sub = &t->subs[subsystem];
    int r = snic_nvmesub_ns_remove(sub->engine, nsid);
    if (r != 0)
        return r;
    sub->devs[nsid - 1].removed = removed;
    sub->devs[nsid - 1].removed_ctx = ctx;
    nvmet_sub_poll(sub);
    return 0;
}
