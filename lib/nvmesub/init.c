/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Memory of a subsystem, its beginning and its end. */
#include "nvmesub/nvmesub_priv.h"

/** Places everything; only measures while @p a has no base. */
static struct snic_nvmesub *nvmesub_place(struct snic_arena *a, const struct snic_nvmesub_opts *o)
{
    struct snic_nvmesub *s = snic_arena_take(a, 1, sizeof(*s), SNIC_NVMESUB_ALIGN);
    struct snic_nvmesub at = {0};
    uint32_t hosts = (o->hosts_max + 63) / 64, ns = (o->namespaces_max + 63) / 64;
    uint32_t rules = (o->allowed_max + 63) / 64;
    uint32_t words = NVMESUB_W_REGS + hosts;
    size_t stride =
        snic_align_up(sizeof(struct nvmesub_cell) + sizeof(uint64_t) * 2 * words, SNIC_CACHELINE);
    at.view.cells = snic_arena_take(a, o->namespaces_max, stride, SNIC_CACHELINE);
    at.view.ctrl = snic_arena_take(a, o->controllers_max, sizeof(uint64_t), SNIC_CACHELINE);
    at.view.seen = snic_arena_take(a, o->conns_max, sizeof(uint32_t), SNIC_CACHELINE);
    at.view.fence = snic_arena_take(a, o->hosts_max, sizeof(uint32_t), SNIC_CACHELINE);
    at.conns = snic_arena_take(a, o->conns_max, sizeof(*at.conns), SNIC_CACHELINE);
    at.ctrls = snic_arena_take(a, o->controllers_max, sizeof(*at.ctrls), 8);
    at.hosts = snic_arena_take(a, o->hosts_max, sizeof(*at.hosts), 8);
    at.rules = snic_arena_take(a, o->allowed_max, sizeof(*at.rules), 8);
    at.ns = snic_arena_take(a, o->namespaces_max, sizeof(*at.ns), 8);
    at.groups = snic_arena_take(a, o->groups_max, sizeof(*at.groups), 8);
    at.entries = snic_arena_take(a, o->entries_max, sizeof(*at.entries), 8);
    uint64_t *changed = snic_arena_take(a, o->controllers_max, ns * sizeof(uint64_t), 8);
    uint64_t *keys = snic_arena_take(a, o->namespaces_max, o->hosts_max * sizeof(uint64_t), 8);
    uint64_t *regs = snic_arena_take(a, o->namespaces_max, 2 * hosts * sizeof(uint64_t), 8);
    uint64_t *seen = snic_arena_take(a, o->entries_max, rules * sizeof(uint64_t), 8);
    uint32_t *queue = snic_arena_take(a, o->controllers_max, o->queues_max * sizeof(uint32_t), 8);
    uint8_t *mask = snic_arena_take(a, o->controllers_max, o->namespaces_max, 8);
    snic_arena_take(a, 0, 1, SNIC_NVMESUB_ALIGN); /* the size is a multiple of it */
    if (a->base == NULL || a->used == SIZE_MAX)
        return NULL;
    memset(a->base, 0, a->used);
    *s = at;
    s->opts = *o;
    s->host_words = hosts;
    s->ns_words = ns;
    s->rule_words = rules;
    s->view.namespaces_max = o->namespaces_max;
    s->view.words = words;
    s->view.stride = stride;
    s->view.data_max = o->data_max;
    for (uint32_t i = 0; i < o->controllers_max; i++) {
        s->ctrls[i].changed = changed + (size_t)i * ns;
        s->ctrls[i].queue = queue + (size_t)i * o->queues_max;
        s->ctrls[i].resv_mask = mask + (size_t)i * o->namespaces_max;
    }
    for (uint32_t i = 0; i < o->namespaces_max; i++) {
        s->ns[i].keys = keys + (size_t)i * o->hosts_max;
        s->ns[i].regs = regs + (size_t)i * 2 * hosts;
        s->ns[i].abort = s->ns[i].regs + hosts;
    }
    for (uint32_t i = 0; i < o->entries_max; i++)
        s->entries[i].rules = seen + (size_t)i * rules;
    return s;
}

size_t snic_nvmesub_memsize(const struct snic_nvmesub_opts *opts)
{
    struct snic_nvmesub_opts o;
    struct snic_arena a = {.base = NULL, .size = 0, .used = 0};
    if (nvmesub_opts_read(&o, opts) != 0)
        return 0;
    nvmesub_place(&a, &o);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_NVMESUB_ALIGN);
}

static void nvmesub_text(char *out, size_t size, const char *text)
{
    const char *end = memchr(text, 0, size);
    memcpy(out, text, end != NULL ? (size_t)(end - text) : size);
}

static void nvmesub_begin(struct snic_nvmesub *s)
{
    const struct snic_nvmesub_opts *o = &s->opts;
    nvmesub_text(s->subnqn, sizeof(s->subnqn), o->subnqn);
    nvmesub_text(s->serial, sizeof(s->serial), o->serial);
    nvmesub_text(s->model, sizeof(s->model), o->model);
    nvmesub_text(s->firmware, sizeof(s->firmware), o->firmware);
    if (s->firmware[0] == 0) {
        static const char digits[] = "0123456789";
        const char version[] = {digits[SNIC_VERSION_MAJOR % 10], '.',
                                digits[SNIC_VERSION_MINOR % 10], '.',
                                digits[SNIC_VERSION_PATCH % 10]};
        memcpy(s->firmware, version, sizeof(version));
    }
    s->opts.subnqn = s->opts.serial = s->opts.model = s->opts.firmware = NULL; /* were copied */
    snic_link_init(&s->out);
    snic_link_init(&s->free_conns);
    snic_link_init(&s->free_ctrls);
    for (uint32_t i = 0; i < o->conns_max; i++) {
        snic_link_init(&s->conns[i].cmds);
        snic_link_append(&s->free_conns, &s->conns[i].sibling);
    }
    for (uint32_t i = 0; i < o->controllers_max; i++) {
        struct nvmesub_ctrl *c = &s->ctrls[i];
        snic_timer_init(&c->timer, NULL);
        snic_link_init(&c->conns);
        snic_link_init(&c->aers);
        snic_link_append(&s->free_ctrls, &c->order);
    }
    for (uint32_t i = 0; i < o->hosts_max; i++)
        snic_link_init(&s->hosts[i].held);
    for (uint32_t i = 0; i < o->namespaces_max; i++) {
        snic_link_init(&s->ns[i].waiting);
        s->ns[i].holder = SNIC_NVMESUB__NONE;
    }
    for (uint32_t i = 0; i < o->groups_max; i++)
        s->groups[i].states = UINT64_C(0x1111111111111111);
    s->smart.temperature[0] = 300 & 0xff;
    s->smart.temperature[1] = 300 >> 8;
    s->smart.available_spare = 100;
    s->smart.spare_threshold = 10;
}

int snic_nvmesub_init(struct snic_nvmesub **out, void *mem, size_t size,
                      const struct snic_nvmesub_opts *opts, uint64_t now_ns)
{
    struct snic_nvmesub_opts o;
    if (nvmesub_opts_read(&o, opts) != 0 || (uintptr_t)mem % SNIC_NVMESUB_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_nvmesub_memsize(opts))
        return SNIC_ENOSPC;
    struct snic_arena a = {.base = mem, .size = size, .used = 0};
    struct snic_nvmesub *s = nvmesub_place(&a, &o);
    SNIC_ASSERT(s != NULL);
    s->now = now_ns;
    snic_wheel_init(&s->wheel, now_ns);
    nvmesub_begin(s);
    *out = s;
    return 0;
}

void *snic_nvmesub_fini(struct snic_nvmesub *s)
{
    SNIC_ASSERT(s->stats.conns == 0);
    return s;
}

struct snic_nvmesub_view *snic_nvmesub_get_view(struct snic_nvmesub *s)
{
    return &s->view;
}
