/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The states of a level, as records in blocks: in memory, or in a file without a name. */
#include "mc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mc_front_init(struct mc_front *f, const char *dir)
{
    char path[512];

    memset(f, 0, sizeof(*f));
    (void)snprintf(path, sizeof(path), "%s/mc_front_XXXXXX", dir);
    f->fd = mkstemp(path);
    if (f->fd < 0) {
        perror("mc: mkstemp");
        abort();
    }
    (void)unlink(path);
}

void mc_front_clear(struct mc_front *f)
{
    uint32_t i;

    for (i = 0; i < f->count; i++)
        free(f->block[i].data);
    f->count = 0;
    if (f->file_end != 0 && ftruncate(f->fd, 0) != 0)
        abort();
    f->file_end = 0;
}

void mc_front_fini(struct mc_front *f)
{
    mc_front_clear(f);
    free(f->block);
    (void)close(f->fd);
}

static int64_t mc_front_spill(struct mc_front *f, struct mc_block *b)
{
    memset(b->data + b->used, 0, MC_BLOCK - b->used);
    if (pwrite(f->fd, b->data, MC_BLOCK, (off_t)f->file_end) != MC_BLOCK) {
        perror("mc: the frontier's file");
        abort();
    }
    b->at = f->file_end;
    f->file_end += MC_BLOCK;
    free(b->data);
    b->data = NULL;
    return -MC_BLOCK;
}

int64_t mc_front_put(struct mc_front *f, uint32_t number, const void *state, size_t len, int spill)
{
    struct mc_record r = {number, (uint32_t)len};
    struct mc_block *b = f->count > 0 ? &f->block[f->count - 1] : NULL;
    int64_t took = 0;

    if (b == NULL || b->used + sizeof(r) + len > MC_BLOCK) {
        if (b != NULL && spill)
            took += mc_front_spill(f, b);
        if (f->count == f->room) {
            f->room = f->room == 0 ? 64 : f->room * 2;
            f->block = realloc(f->block, f->room * sizeof(*f->block));
            if (f->block == NULL)
                abort();
        }
        b = &f->block[f->count++];
        memset(b, 0, sizeof(*b));
        b->data = malloc(MC_BLOCK);
        if (b->data == NULL)
            abort();
        took += MC_BLOCK;
    }
    memcpy(b->data + b->used, &r, sizeof(r));
    memcpy(b->data + b->used + sizeof(r), state, len);
    b->used += (uint32_t)(sizeof(r) + len);
    b->count++;
    return took;
}

const unsigned char *mc_front_read(const struct mc_front *f, const struct mc_block *b,
                                   unsigned char *room)
{
    if (b->data != NULL)
        return b->data;
    if (pread(f->fd, room, MC_BLOCK, (off_t)b->at) != MC_BLOCK) {
        perror("mc: the frontier's file");
        abort();
    }
    return room;
}
