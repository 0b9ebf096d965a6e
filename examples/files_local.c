/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Files on a DPU, in the least code: the file service and the file library in one process. A
 * thread plays the DPU: it owns the image and serves. Main plays the host: it makes a directory
 * and a file, writes, reads back and lists. Between them is dma/local; with dma/shm in its place
 * the two roles are two processes, and the rest stays as it is.
 *
 *     files_local IMAGE
 *
 * IMAGE is made and formatted (64 MiB) when it is missing or empty, and kept. What is in a file
 * that is something else stays as it is.
 * Exit code: 0 all went well, 1 it did not, 2 wrong usage.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"
#include "snicstore/filelib.h"
#include "snicstore/files.h"

#define MESSAGE_BYTES 1000000

struct node {
    const char *path;
    struct snic_loop *dpu_loop;
    struct snic_loop *host_loop;
    struct snic_dma *host_dma; /* set before `ready`                  */
    struct snic_files *files;
    struct snic_files_server *server; /* NULL: no host yet                   */
    void *server_mem;
    pthread_barrier_t ready;
};

/* The value, or the end of the program with what failed. */
static int64_t must(const char *what, int64_t rc)
{
    if (rc < 0)
        ex_die("%s: %s", what, snic_strerror((int)rc));
    return rc;
}

/* Memory of the size that a memsize function returned: 0 means that the options were wrong. */
static void *block(size_t size, size_t align)
{
    void *p = size == 0 ? NULL : aligned_alloc(align, (size_t)snic_align_up(size, align));
    if (p == NULL)
        ex_die("out of memory for the file service");
    return p;
}

/* ---- The DPU's thread. The order is that of snicstore/files.h ---- */

static void host_gone(void *ctx, struct snic_files_server *s, int reason)
{
    struct node *n = ctx;
    (void)s;
    (void)printf("dpu: the host role is gone: %s\n",
                 reason == 0 ? "it detached" : snic_strerror(reason));
    snic_loop_stop(n->dpu_loop);
}

static int host_accept(void *ctx, struct snic_channel_hub *hub,
                       const struct snic_channel_offer *offer)
{
    struct node *n = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o), .gone = host_gone, .ctx = n};
    size_t size = snic_files_server_memsize(&o);
    if (n->server != NULL)
        return SNIC_EBUSY; /* one host is all that this example has room for */
    n->server_mem = block(size, SNIC_CACHELINE);
    return snic_files_serve(&n->server, n->server_mem, size, n->files, hub, offer, &o);
}

/* Open, format if need be, mount. @return the memory of the mounted service */
static void *mount_image(struct node *n, struct snic_io **io)
{
    struct snic_files_format_opts format = {.opts_size = sizeof(format)};
    struct snic_files_info info;
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = n->path};
    struct stat st;
    size_t size;
    void *mem;
    int os_error = 0, rc,
        empty = stat(n->path, &st) != 0 || (S_ISREG(st.st_mode) && st.st_size == 0);
    o.flags = SNIC_IO_OPEN_TRY_DIRECT | SNIC_IO_OPEN_LOCK | (empty ? SNIC_IO_OPEN_CREATE : 0);
    o.size = empty ? 64u << 20 : 0;
    rc = snic_io_uring_open(io, n->dpu_loop, &o, &os_error);
    if (rc != 0)
        ex_die("cannot open %s: %s", n->path,
               rc == SNIC_EBUSY ? "in use by another process"
               : os_error != 0  ? strerror(abs(os_error))
                                : snic_strerror(rc));
    rc = snic_files_probe(*io, &info);
    if (rc == SNIC_ENOENT && !empty)
        ex_die("%s: not an image, and not empty: name a new file", n->path);
    if (rc == SNIC_ENOENT) {
        must("formatting the image", snic_files_format(*io, &format));
        rc = snic_files_probe(*io, &info);
    }
    must("reading the image", rc);
    size = snic_files_memsize(&info, NULL);
    mem = block(size, SNIC_FILES_ALIGN);
    must("mounting the image", snic_files_mount(&n->files, mem, size, *io, NULL));
    (void)printf("dpu: mounted %s, %llu segments\n", n->path, (unsigned long long)info.segments);
    return mem;
}

static void *dpu(void *arg)
{
    struct node *n = arg;
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .accept = host_accept, .ctx = n};
    size_t size = snic_channel_hub_memsize(&o);
    void *hub_mem = block(size, SNIC_CACHELINE);
    struct snic_dma_events none = {0}; /* the hubs set theirs */
    struct snic_channel_hub *hub;
    struct snic_dma *dma;
    struct snic_io *io;
    void *files_mem = mount_image(n, &io);
    must("link", snic_dma_local_open(&n->host_dma, n->host_loop, &none, &dma, n->dpu_loop, &none));
    must("hub", snic_channel_hub_init(&hub, hub_mem, size, dma, &o));
    (void)pthread_barrier_wait(&n->ready);
    must("waiting for events", snic_loop_run(n->dpu_loop)); /* until host_gone */
    snic_files_server_close(n->server);
    while (snic_channel_hub_count(hub) > 0)
        must("waiting for events", snic_loop_once(n->dpu_loop, SNIC_NEVER));
    snic_channel_hub_fini(hub);
    must("unmount", snic_files_unmount(n->files));
    snic_io_close(io);
    snic_loop_close(n->dpu_loop);
    free(n->server_mem);
    free(files_mem);
    free(hub_mem);
    return NULL;
}

/* ---- The host ---- */

/* Start-up work: submit one request and wait for it. */
static struct snic_filelib_req run(struct snic_filelib *g, uint8_t op, uint64_t dir,
                                   const char *name)
{
    struct snic_filelib_req r = {.op = op, .flags = SNIC_FILES_REPLACE, .dir = dir, .name = name};
    r.name_size = (uint32_t)strlen(name);
    if (op != SNIC_FILES_CREATE)
        r.flags = 0;
    (void)snic_filelib_run(g, &r);
    return r;
}

static uint64_t directory(struct snic_filelib *g, const char *name)
{
    struct snic_filelib_req r = run(g, SNIC_FILES_MKDIR, SNIC_FILES_ROOT, name);
    if (r.result == SNIC_EEXIST) /* of an earlier run */
        r = run(g, SNIC_FILES_OPEN, SNIC_FILES_ROOT, name);
    must(name, r.result);
    return r.id;
}

/* The data path: start a request, then wait for whatever completes. */
static void finish(struct snic_filelib *g, const char *what, struct snic_filelib_req *r,
                   int64_t bytes)
{
    struct snic_filelib_req *done;
    must(what, snic_filelib_wait(g, &done, 1, SNIC_NEVER));
    if (done != r || must(what, r->result) != bytes)
        ex_die("%s: %lld of %lld bytes only", what, (long long)r->result, (long long)bytes);
}

static void write_and_read(struct snic_filelib *g, uint64_t id)
{
    static char out[MESSAGE_BYTES], in[MESSAGE_BYTES];
    struct snic_filelib_req w = {.flags = SNIC_FILES_SYNC}, r = {0};
    struct snic_filelib_file file;
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (char)(i * 7 + i / 999);
    snic_filelib_add(g, &file, id);
    snic_filelib_write(&file, &w, 0, out, sizeof(out));
    finish(g, "write", &w, MESSAGE_BYTES);
    (void)printf("host: wrote %d bytes, they survive power loss\n", MESSAGE_BYTES);
    snic_filelib_read(&file, &r, 0, in, sizeof(in));
    finish(g, "read", &r, MESSAGE_BYTES);
    if (memcmp(in, out, sizeof(in)) != 0)
        ex_die("read: the bytes differ from those written");
    (void)printf("host: read %d bytes, the same\n", MESSAGE_BYTES);
}

static void list(struct snic_filelib *g, uint64_t dir)
{
    static char buf[4096];
    struct snic_filelib_req r = {.op = SNIC_FILES_LIST, .dir = dir};
    struct snic_files_entry e;
    size_t pos;
    for (;;) {
        r.offset = r.cursor;
        r.length = r.buf.size = sizeof(buf);
        r.buf.base = buf;
        if (must("list", snic_filelib_run(g, &r)) == 0)
            return;
        for (pos = 0; snic_files_entry_next(buf, (size_t)r.result, &pos, &e) == 1;)
            (void)printf("host: data/%.*s has %llu bytes\n", (int)e.name_size, e.name,
                         (unsigned long long)e.size);
    }
}

static void host(struct node *n)
{
    struct snic_channel_hub_opts ho = {.opts_size = sizeof(ho)};
    struct snic_filelib_opts o = {.opts_size = sizeof(o)};
    size_t hub_size = snic_channel_hub_memsize(&ho), size = snic_filelib_memsize(&o);
    void *hub_mem = block(hub_size, SNIC_CACHELINE), *mem = block(size, SNIC_FILELIB_ALIGN);
    struct snic_channel_hub *hub;
    struct snic_filelib *g;
    struct snic_filelib_req file;
    uint64_t dir;
    must("hub", snic_channel_hub_init(&hub, hub_mem, hub_size, n->host_dma, &ho));
    must("group", snic_filelib_open(&g, mem, size, hub, &o));
    dir = directory(g, "data");
    file = run(g, SNIC_FILES_CREATE, dir, "hello");
    must("create", file.result);
    (void)printf("host: file %llx\n", (unsigned long long)file.id);
    write_and_read(g, file.id);
    list(g, dir);
    snic_filelib_close(g);
    while (snic_channel_hub_count(hub) > 0)
        must("waiting for events", snic_loop_once(n->host_loop, SNIC_NEVER));
    snic_channel_hub_fini(hub);
    snic_loop_close(n->host_loop);
    free(mem);
    free(hub_mem);
}

int main(int argc, char **argv)
{
    struct node n = {0};
    pthread_t thread;
    if (argc != 2 || argv[1][0] == '-') {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fprintf(help ? stdout : stderr,
                      "usage: files_local IMAGE\nA file service and its client in one process: "
                      "IMAGE is made (64 MiB) if it does not exist.\n");
        return help ? 0 : 2;
    }
    n.path = argv[1];
    must("cannot set up io_uring", snic_loop_uring_open(&n.dpu_loop, NULL));
    must("cannot set up io_uring", snic_loop_uring_open(&n.host_loop, NULL));
    if (pthread_barrier_init(&n.ready, NULL, 2) != 0 || pthread_create(&thread, NULL, dpu, &n) != 0)
        ex_die("cannot start a thread");
    (void)pthread_barrier_wait(&n.ready);
    host(&n);
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&n.ready);
    return 0;
}
