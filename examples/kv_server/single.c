/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Both roles as threads of one process, linked by dma/local. */
#include "dpu.h"
#include "host.h"

#include <pthread.h>
#include <string.h>

struct kv_single {
    struct ex_host *host;
    int status;
};

static void *single_host(void *ctx)
{
    struct kv_single *s = ctx;

    s->status = kv_host_run(s->host);
    return NULL;
}

int kv_run_single(const struct kv_config *c)
{
    struct ex_dpu *d = kv_dpu_open(c);
    struct kv_single s = {kv_host_open(c), 0};
    struct snic_dma_events none;
    struct snic_dma *host;
    struct snic_dma *dpu;
    pthread_t thread;
    int r;

    memset(&none, 0, sizeof(none));
    r = snic_dma_local_open(&host, s.host->loop, &none, &dpu, d->loop, &none);
    if (r != 0)
        ex_die("cannot link the roles: %s", snic_strerror(r));
    r = ex_dpu_link(d, dpu);
    if (r != 0)
        ex_die("cannot link the roles: %s", snic_strerror(r));
    ex_host_use(s.host, host);
    r = pthread_create(&thread, NULL, single_host, &s);
    if (r != 0)
        ex_die("cannot start the thread of the host role: %s", strerror(r));
    r = kv_dpu_run(d);
    pthread_join(thread, NULL);
    return r != 0 || s.status != 0;
}
