/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* page_server: the command line. */
#include "roles.h"

#include "../server/supervisor.h"

#include <inttypes.h>
#include <string.h>

#define PS_MONOLITH_BUFFERS 32768u /* the depth of a plain file */

static const char summary[] =
    "page_server: the storage of a database's pages (DDS section 9.1). Updates arrive as log\n"
    "records, are acknowledged when durable and replayed into pages; GetPage@LSN is answered by\n"
    "the DPU role alone when its cache shows that the page on the device is new enough.\n\n"
    "Without a role option a supervisor starts the DPU role and the host role as two\n"
    "processes on shared memory and restarts one that dies.";

static int ps_offload_parse(void *target, const char *text)
{
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return -1;
    *(int *)target = text[1] == 'n';
    return 0;
}

static void ps_options(struct ps_config *c, int argc, char **argv)
{
    int remote = 0;
    struct ex_option all[32];
    size_t count;
    const struct ex_option options[] = {
        {"size", EX_SIZE, &c->size, "BYTES", "of a new image; default what the pages need",
         64u << 20, UINT64_MAX / 2, NULL},
        {"pages", EX_NUMBER, &c->limits.pages, "N", "default 16384", 1, UINT64_C(1) << 32, NULL},
        {"page-bytes", EX_SIZE, &c->page_bytes, "BYTES", "of a page, power of two; default 8K", 512,
         WIRE_DATA_MAX, NULL},
        {"log-size", EX_SIZE, &c->log_bytes, "BYTES", "of the log file; default 64M", 1u << 20,
         (uint64_t)1 << 40, NULL},
        {.name = "log", .kind = EX_RENAMED, .value = "log-size"},
        {"buffers", EX_NUMBER, &c->buffers, "N",
         "pages that the host reads or replays at once; default 512", 4, 65536, NULL},
        {"offload", EX_PARSE, &c->offload, "on|off", "answer reads on the DPU; default on", 0, 0,
         ps_offload_parse},
        {"remote-file", EX_FLAG, &remote, NULL,
         "serve reads and writes of a plain file instead of pages (DDS section 8.1)", 0, 0, NULL},
        {.name = "conns", .kind = EX_RENAMED, .value = "connections"},
    };

    count = ex_server_options(&c->server, all);
    memcpy(all + count, options, sizeof(options));
    ex_options(argc, argv, all, count + SNIC_COUNTOF(options), summary);
    c->limits.page_bytes = (uint32_t)c->page_bytes;
    c->limits.remote = remote;
    if (!snic_is_pow2(c->page_bytes))
        ex_usage("--page-bytes: %" PRIu64 " is not a power of two", c->page_bytes);
    if (c->server.monolith && c->buffers > PS_MONOLITH_BUFFERS)
        ex_usage("--buffers: at most %u with --monolith", PS_MONOLITH_BUFFERS);
}

int main(int argc, char **argv)
{
    struct ps_config c = {
        .server = {.name = "page",
                   .listen = "127.0.0.1:7400",
                   .file = "pages.img",
                   .directory = "pages.dir",
                   .conns_max = 256,
                   .log_level = EX_INFO},
        .limits.pages = 16384,
        .page_bytes = 8192,
        .log_bytes = 64u << 20,
        .buffers = 512,
        .offload = 1,
    };

    ps_options(&c, argc, argv);
    ex_server_begin(&c.server);
    switch (c.server.role) {
    case EX_ROLE_DPU:
        return ps_run_dpu(&c);
    case EX_ROLE_HOST:
        return ps_run_host(&c);
    case EX_ROLE_MONOLITH:
        return ps_run_monolith(&c);
    case EX_ROLE_SINGLE: /* not one of its options */
    case EX_ROLE_SUPERVISOR:
        break;
    }
    return ex_supervise(NULL, argc, argv);
}
