/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two processes: the memory of an open link. Ours are memfds that are sent to the
 * peer; the peer's are mapped here after the checks of S1 (shm.c).
 */
#include "dma/shm_priv.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SNIC_DMA_SHM__TMPFS 0x01021994

/* ---- Our memory ---- */

int dma_shm_memfd(size_t size, int *fd, void **mem)
{
    int f = memfd_create("snic-dma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (f < 0)
        return SNIC_ENOMEM;
    void *m = MAP_FAILED;
    if (ftruncate(f, (off_t)size) == 0 &&
        fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (m == MAP_FAILED) {
        (void)close(f);
        return SNIC_ENOMEM;
    }
    *fd = f;
    *mem = m;
    return 0;
}

int dma_shm_alloc(struct snic_dma *d, size_t size, void **out)
{
    struct dma_shm *s = dma_shm_self(d);
    if (size == 0)
        return SNIC_EINVAL;
    if (size > SIZE_MAX / 2)
        return SNIC_ENOMEM;
    size = (size_t)snic_align_up(size, SNIC_DMA_SHM__PAGE);
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        struct dma_shm_block *b = &s->blocks[i];
        if (b->mem != NULL || b->drop)
            continue;
        void *mem = NULL;
        int r = dma_shm_memfd(size, &b->fd, &mem);
        if (r != 0)
            return r;
        b->mem = mem;
        b->size = size;
        b->sent = 0;
        *out = mem;
        return 0;
    }
    return SNIC_ENOMEM;
}

static struct dma_shm_block *dma_shm_block_of(struct dma_shm *s, const void *mem, size_t size)
{
    uintptr_t at = (uintptr_t)mem;
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        struct dma_shm_block *b = &s->blocks[i];
        uintptr_t base = (uintptr_t)b->mem;
        if (b->mem != NULL && at >= base && at - base <= b->size && size <= b->size - (at - base))
            return b;
    }
    return NULL;
}

void dma_shm_block_free(struct dma_shm_block *b)
{
    (void)munmap(b->mem, b->size);
    (void)close(b->fd);
    b->mem = NULL;
}

void dma_shm_release(struct snic_dma *d, void *mem)
{
    struct dma_shm *s = dma_shm_self(d);
    struct dma_shm_block *b = dma_shm_block_of(s, mem, 1);
    SNIC_ASSERT(b != NULL && b->mem == mem);
    dma_shm_block_free(b);
    if (b->sent && !dma_shm_gone(s)) {
        b->drop = 1;
        s->lazy = 1;
        dma_shm_flush(s);
    }
}

int dma_shm_register(struct snic_dma *d, void *mem, size_t size, uint32_t rights, uint64_t *key)
{
    struct dma_shm *s = dma_shm_self(d);
    if (size == 0 || rights == 0 || (rights & ~SNIC_DMA__RIGHTS) != 0)
        return SNIC_EINVAL;
    struct dma_shm_block *b = dma_shm_block_of(s, mem, size);
    if (b == NULL)
        return SNIC_EFAULT;
    uint32_t i = 0;
    while (i < SNIC_DMA_SHM__REGIONS && s->exports[i].key != 0)
        i++;
    if (i == SNIC_DMA_SHM__REGIONS)
        return SNIC_ENOMEM;
    uint64_t id = (uint64_t)(b - s->blocks);
    if (!b->sent && !dma_shm_gone(s)) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
        w.a = id;
        w.b = b->size;
        if (dma_shm_packet(s, &w, NULL, b->fd) == SNIC_EAGAIN)
            return SNIC_ENOMEM;
        b->sent = 1;
    }
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_REGION);
    w.a = ((uint64_t)(s->exports[i].generation + 1) << 16) | i;
    w.b = id;
    w.c = (uint64_t)((uintptr_t)mem - (uintptr_t)b->mem);
    w.d = size;
    w.rights = rights;
    if (!dma_shm_gone(s) && dma_shm_packet(s, &w, NULL, -1) == SNIC_EAGAIN)
        return SNIC_ENOMEM;
    s->exports[i].generation++;
    s->exports[i].key = w.a;
    *key = w.a;
    return 0;
}

void dma_shm_unregister(struct snic_dma *d, uint64_t key)
{
    struct dma_shm *s = dma_shm_self(d);
    uint32_t i = (uint32_t)(key & 0xffff);
    SNIC_ASSERT(i < SNIC_DMA_SHM__REGIONS && s->exports[i].key == key && !s->exports[i].unreg);
    if (dma_shm_gone(s)) {
        s->exports[i].key = 0;
        return;
    }
    s->exports[i].unreg = 1;
    s->lazy = 1;
    dma_shm_flush(s);
}

/* ---- The peer's memory ---- */

/** Map a memfd of the peer's after all checks (S1). NULL: no. */
unsigned char *dma_shm_map_fd(int fd, uint64_t size)
{
    struct stat st;
    struct statfs fs;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || st.st_size < 0 ||
        (uint64_t)st.st_size < size || fstatfs(fd, &fs) != 0 || fs.f_type != SNIC_DMA_SHM__TMPFS)
        return NULL;
    void *m = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return m == MAP_FAILED ? NULL : m;
}

int dma_shm_on_block(struct dma_shm *s, struct dma_shm_in *in)
{
    uint64_t id = in->wire.a;
    uint64_t size = in->wire.b;
    struct dma_shm_map *m = NULL;
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        struct dma_shm_map *k = &s->maps[i];
        if (k->mem != NULL && k->id == id && !k->dropped)
            return SNIC_EPROTO;
        if (k->mem == NULL && m == NULL)
            m = k;
    }
    if (m == NULL || in->fd_count != 1 || size == 0 || size % SNIC_DMA_SHM__PAGE != 0 ||
        size > s->size_max - s->imported)
        return SNIC_EPROTO;
    m->mem = dma_shm_map_fd(in->fds[0], size);
    if (m->mem == NULL)
        return SNIC_EPROTO;
    m->size = (size_t)size;
    m->id = id;
    m->users = 0;
    m->dropped = 0;
    s->imported += size;
    return 0;
}

void dma_shm_unmap_block(struct dma_shm *s, struct dma_shm_map *m)
{
    (void)munmap(m->mem, m->size);
    m->mem = NULL;
    s->imported -= m->size;
}

static struct dma_shm_map *dma_shm_map_by_id(struct dma_shm *s, uint64_t id)
{
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++)
        if (s->maps[i].mem != NULL && s->maps[i].id == id && !s->maps[i].dropped)
            return &s->maps[i];
    return NULL;
}

int dma_shm_on_region(struct dma_shm *s, const struct dma_shm_wire *w)
{
    struct dma_shm_map *m = dma_shm_map_by_id(s, w->b);
    struct dma_shm_import *r = &s->imports[w->a & (SNIC_DMA_SHM__REGIONS - 1)];
    if (m == NULL || w->a == 0 || (w->a & 0xffff) >= SNIC_DMA_SHM__REGIONS || r->key != 0 ||
        w->rights == 0 || (w->rights & ~SNIC_DMA__RIGHTS) != 0 || w->c > m->size ||
        w->d > m->size - w->c)
        return SNIC_EPROTO;
    *r = (struct dma_shm_import){.key = w->a,
                                 .base = m->mem + w->c,
                                 .size = (size_t)w->d,
                                 .rights = w->rights,
                                 .map = (uint32_t)(m - s->maps)};
    return 0;
}

int dma_shm_on_unreg(struct dma_shm *s, uint64_t key)
{
    struct dma_shm_import *r = &s->imports[key & (SNIC_DMA_SHM__REGIONS - 1)];
    if (key == 0 || r->key != key)
        return SNIC_EPROTO;
    r->key = 0;
    return 0;
}

int dma_shm_on_drop(struct dma_shm *s, uint64_t id)
{
    struct dma_shm_map *m = dma_shm_map_by_id(s, id);
    if (m == NULL)
        return SNIC_EPROTO;
    for (uint32_t i = 0; i < SNIC_DMA_SHM__REGIONS; i++)
        if (s->imports[i].key != 0 && &s->maps[s->imports[i].map] == m)
            s->imports[i].key = 0;
    m->dropped = 1;
    if (m->users == 0)
        dma_shm_unmap_block(s, m);
    return 0;
}

static struct dma_shm_import *dma_shm_find(struct dma_shm *s, uint64_t key, uint64_t offset,
                                           uint64_t size, uint32_t rights)
{
    struct dma_shm_import *r = &s->imports[key & (SNIC_DMA_SHM__REGIONS - 1)];
    if (key == 0 || r->key != key || (rights & ~r->rights) != 0 || offset > r->size ||
        size > r->size - offset)
        return NULL;
    return r;
}

int dma_shm_resolve(struct snic_dma *d, const struct snic_dma_op *op, unsigned char **at)
{
    struct dma_shm_import *r =
        dma_shm_find(dma_shm_self(d), op->key, op->offset, op->length, dma_op_right(op));
    if (r == NULL)
        return SNIC_EFAULT;
    *at = r->base + op->offset;
    return dma_op_is_atomic(op) && ((uintptr_t)*at & 7) != 0 ? SNIC_EINVAL : 0;
}

int dma_shm_map(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size, void **out)
{
    struct dma_shm *s = dma_shm_self(d);
    struct dma_shm_import *r =
        dma_shm_find(s, key, offset, size, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE);
    if (r == NULL || size == 0) /* a pointer behind the block would be another one's */
        return SNIC_EFAULT;
    s->maps[r->map].users++;
    *out = r->base + offset;
    return 0;
}

void dma_shm_unmap(struct snic_dma *d, void *mem)
{
    struct dma_shm *s = dma_shm_self(d);
    uintptr_t at = (uintptr_t)mem;
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        struct dma_shm_map *m = &s->maps[i];
        uintptr_t base = (uintptr_t)m->mem;
        if (m->mem == NULL || at < base || at - base >= m->size || m->users == 0)
            continue;
        m->users--;
        if (m->users == 0 && m->dropped)
            dma_shm_unmap_block(s, m);
        return;
    }
    SNIC_ASSERT(0); /* not a pointer from snic_dma_map() */
}
