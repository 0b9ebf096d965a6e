/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "filelink.h"

#include "support.h"

static void link_gone(void *ctx, struct snic_files_server *s, int reason)
{
    (void)s;
    ((struct filelink *)ctx)->gone = reason;
}

static int link_accept(void *ctx, struct snic_channel_hub *h,
                       const struct snic_channel_offer *offer)
{
    struct filelink *l = ctx;
    size_t size;
    int rc;
    if (l->server != NULL)
        return SNIC_EBUSY;
    l->serve.opts_size = sizeof(l->serve);
    l->serve.gone = link_gone;
    l->serve.ctx = l;
    l->gone = 1;
    size = snic_files_server_memsize(&l->serve);
    assert_true(size != 0);
    l->server_mem = support_guard_alloc(size, SNIC_CACHELINE);
    rc = snic_files_serve(&l->server, l->server_mem, size, l->fx.files, h, offer, &l->serve);
    if (rc != 0)
        support_guard_free(l->server_mem);
    return rc;
}

static void link_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    (void)h;
    (void)cause;
    ((struct filelink *)ctx)->deaths++;
}

static struct snic_channel_hub *link_hub(struct filelink *l, struct snic_dma *d, void **mem,
                                         int dpu)
{
    struct snic_channel_hub_opts o;
    struct snic_channel_hub *h;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.accept = dpu ? link_accept : NULL;
    o.death = link_death;
    o.ctx = l;
    size = snic_channel_hub_memsize(&o);
    *mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&h, *mem, size, d, &o), 0);
    return h;
}

void filelink_connect(struct filelink *l)
{
    struct snic_dma_events none;
    memset(&none, 0, sizeof(none));
    if (l->sim) {
        struct snic_dma_sim_opts o;
        memset(&o, 0, sizeof(o));
        o.opts_size = sizeof(o);
        o.caps = l->sim == 2 ? SNIC_DMA_CAP_ORDERED_READ : 0;
        assert_int_equal(snic_dma_sim_open(&l->host_dma, l->host_loop, &none, &l->dpu_dma,
                                           l->fx.loop, &none, &o),
                         0);
    } else {
        assert_int_equal(
            snic_dma_local_open(&l->host_dma, l->host_loop, &none, &l->dpu_dma, l->fx.loop, &none),
            0);
    }
    l->host_hub = link_hub(l, l->host_dma, &l->host_hub_mem, 0);
    l->dpu_hub = link_hub(l, l->dpu_dma, &l->dpu_hub_mem, 1);
}

void filelink_group_open(struct filelink *l)
{
    size_t size;
    l->open.opts_size = sizeof(l->open);
    size = snic_filelib_memsize(&l->open);
    assert_true(size != 0);
    l->group_mem = support_guard_alloc(size, SNIC_FILELIB_ALIGN);
    assert_int_equal(snic_filelib_open(&l->group, l->group_mem, size, l->host_hub, &l->open), 0);
}

void filelink_open(struct filelink *l)
{
    filefix_fresh(&l->fx);
    assert_int_equal(snic_world_loop(l->fx.world, 1, &l->host_loop), 0);
    filelink_connect(l);
    filelink_group_open(l);
}

void filelink_group_close(struct filelink *l)
{
    if (l->group == NULL)
        return;
    assert_ptr_equal(snic_filelib_close(l->group), l->group_mem);
    support_guard_free(l->group_mem);
    l->group = NULL;
}

void filelink_server_close(struct filelink *l)
{
    if (l->server == NULL)
        return;
    assert_ptr_equal(snic_files_server_close(l->server), l->server_mem);
    support_guard_free(l->server_mem);
    l->server = NULL;
}

void filelink_disconnect(struct filelink *l)
{
    if (l->host_hub != NULL) {
        assert_ptr_equal(snic_channel_hub_fini(l->host_hub), l->host_hub_mem);
        support_guard_free(l->host_hub_mem);
        l->host_hub = NULL;
    }
    if (l->dpu_hub != NULL) {
        assert_ptr_equal(snic_channel_hub_fini(l->dpu_hub), l->dpu_hub_mem);
        support_guard_free(l->dpu_hub_mem);
        l->dpu_hub = NULL;
    }
}

void filelink_close(struct filelink *l)
{
    filelink_group_close(l);
    filelink_server_close(l);
    filelink_disconnect(l);
    snic_loop_close(l->host_loop);
    filefix_close(&l->fx);
}

static int64_t link_run(struct snic_filelib *g, struct snic_filelib_req *r)
{
    return snic_filelib_run(g, r);
}

static int64_t link_data(struct snic_filelib *g, int op, uint64_t file, uint64_t at, void *p,
                         size_t n, unsigned flags)
{
    struct snic_filelib_req r;
    memset(&r, 0, sizeof(r));
    r.op = (uint8_t)op;
    r.flags = (uint16_t)flags;
    r.file = file;
    r.offset = at;
    r.length = n;
    r.buf.base = p;
    r.buf.size = n;
    return link_run(g, &r);
}

int64_t filelink_write(struct snic_filelib *g, uint64_t file, uint64_t at, const void *p, size_t n,
                       unsigned flags)
{
    return link_data(g, SNIC_FILES_WRITE, file, at, (void *)(uintptr_t)p, n, flags);
}

int64_t filelink_read(struct snic_filelib *g, uint64_t file, uint64_t at, void *p, size_t n)
{
    return link_data(g, SNIC_FILES_READ, file, at, p, n, 0);
}

int64_t filelink_named(struct snic_filelib *g, int op, uint64_t dir, const char *name, uint64_t *id)
{
    struct snic_filelib_req r;
    int64_t rc;
    memset(&r, 0, sizeof(r));
    r.op = (uint8_t)op;
    r.dir = dir;
    r.name = name;
    r.name_size = (uint32_t)strlen(name);
    rc = link_run(g, &r);
    if (rc == 0 && id != NULL)
        *id = r.id;
    return rc;
}
