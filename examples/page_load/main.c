/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* page_load: options, the phases of a run, and the report. */
#include "load.h"

#include "../output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAT_AGE_NS 150000000u /* the DPU's figures are at most so old */

static const char summary[] =
    "page_load: the compute node in front of a page_server; checks every page that it gets.\n\n"
    "get, log and mixed draw pages uniformly; fill updates each page once, or writes the whole\n"
    "remote file; read and write are for a remote file; check only reads every page. A page must\n"
    "be as its LSN and all its updates make it, at least as new as requested, and never older "
    "than\n"
    "what was acknowledged, or read, before the request was sent; what was\n"
    "acknowledged to an earlier page_load, this one does not know. Exits 1 if one is not.";

/* ---- Phases ---- */

static void load_begin(struct load *l, enum load_phase phase)
{
    l->phase = phase;
    l->next = 0;
    l->over = 0;
    load_issue(l);
}

static void load_begin_run(struct load *l)
{
    l->start_ns = l->end_ns = snic_loop_clock(l->loop);
    l->until_ns = l->seconds == 0 ? SNIC_NEVER : l->start_ns + l->seconds * 1000000000u;
    l->cpu_us[0] = ex_cpu_process_ns() / 1000;
    load_begin(l, PHASE_RUN);
}

static void load_timed(struct snic_timer *t, uint64_t now)
{
    struct load *l = SNIC_CONTAINER(t, struct load, timer);

    (void)now;
    load_begin(l, PHASE_AFTER);
}

static void load_hello(struct load *l)
{
    if (l->pages == 0 || l->page_bytes == 0)
        ex_die("the server at %s reports no number of pages: is it a page_server?", l->address);
    if (l->remote != (l->kind == KIND_READ || l->kind == KIND_WRITE) && l->kind != KIND_FILL)
        ex_usage("--op: %s",
                 l->remote
                     ? "the server has a remote file (--remote-file), for which it is read, write "
                       "or fill"
                     : "the server has pages, for which it is get, log, mixed, fill or check");
    model_open(&l->model, l->pages, l->page_bytes, (uint32_t)l->update_bytes);
    load_begin(l, l->remote ? PHASE_BEFORE : PHASE_ADOPT);
}

/* All connections stand, or the phase has nothing under way and nothing more to send. */
static void load_phase_over(struct load *l)
{
    switch (l->phase) {
    case PHASE_HELLO:
        load_hello(l);
        break;
    case PHASE_ADOPT:
        load_begin(l, PHASE_BEFORE);
        break;
    case PHASE_BEFORE:
        load_begin_run(l);
        break;
    case PHASE_RUN:
        l->cpu_us[1] = ex_cpu_process_ns() / 1000;
        snic_loop_arm(l->loop, &l->timer, snic_loop_now(l->loop) + STAT_AGE_NS);
        break;
    case PHASE_AFTER:
        if (l->check && !l->remote) {
            load_begin(l, PHASE_CHECK);
            break;
        }
        /* fall through */
    case PHASE_CHECK:
        l->phase = PHASE_CHECK + 1;
        snic_loop_stop(l->loop);
        break;
    }
}

/* ---- Report ---- */

/* CPU of a role during the run, 0 when it was started anew meanwhile. */
static double load_cpu(const struct load_stat s[2])
{
    return s[0].pid == s[1].pid ? (double)(s[1].cpu_us - s[0].cpu_us) : 0;
}

/* The pages that were read only to be checked. @return whether there was anything else */
static int load_print_checked(const struct load *l)
{
    if (l->report)
        printf("checked=%" PRIu64 "\n", l->checked);
    else if (l->check || l->kind == KIND_CHECK)
        printf("%" PRIu64 " pages checked, %" PRIu64 " wrong\n", l->checked, l->wrong);
    return l->report || l->kind != KIND_CHECK;
}

static void load_print(const struct load *l)
{
    double seconds = (double)(l->end_ns - l->start_ns) / 1e9;
    double per = l->done > 0 ? (double)l->done : 1;
    const char *format =
        "%" PRIu64 " operations in %.2f s: %.0f op/s; latency p50 %.1f us, p99 %.1f us, p99.9 %.1f "
        "us, max %.1f us\n%" PRIu64 " gets, %" PRIu64 " updates, %" PRIu64 " by the DPU, %" PRIu64
        " retried, %" PRIu64 " connections lost, %" PRIu64 " wrong, %" PRIu64
        " errors\nCPU per operation: host %.3f us, DPU %.3f us, client %.3f us\n";

    if (l->report)
        format = "operations=%" PRIu64 "\nseconds=%.6f\nrate=%.1f\np50_us=%.1f\np99_us=%.1f\n"
                 "p999_us=%.1f\nmax_us=%.1f\ngets=%" PRIu64 "\nupdates=%" PRIu64 "\nby_dpu=%" PRIu64
                 "\nagain=%" PRIu64 "\nlost=%" PRIu64 "\nwrong=%" PRIu64 "\nerrors=%" PRIu64
                 "\nhost_cpu_us=%.3f\ndpu_cpu_us=%.3f\nclient_cpu_us=%.3f\n";
    printf(format, l->done, seconds, seconds > 0 ? (double)l->done / seconds : 0,
           (double)snic_hist_quantile(&l->latency, 500000) / 1e3,
           (double)snic_hist_quantile(&l->latency, 990000) / 1e3,
           (double)snic_hist_quantile(&l->latency, 999000) / 1e3, (double)l->latency.max / 1e3,
           l->gets, l->logs, l->by_dpu, l->again, l->lost, l->wrong, l->errors,
           load_cpu(l->host) / per, load_cpu(l->dpu) / per,
           (double)(l->cpu_us[1] - l->cpu_us[0]) / per);
}

static int load_kind_parse(void *target, const char *text)
{
    static const char *const names[] = {"get", "log", "mixed", "fill", "read", "write", "check"};

    for (size_t i = 0; i < SNIC_COUNTOF(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *(enum load_kind *)target = (enum load_kind)i;
            return 0;
        }
    return -1;
}

static void load_options(struct load *l, int argc, char **argv)
{
    const struct ex_option options[] = {
        {"server", EX_TEXT, &l->address, "ADDRESS:PORT", "of the server; default 127.0.0.1:7400", 0,
         0, NULL},
        {"op", EX_PARSE, &l->kind, "get|log|mixed|fill|read|write|check", "what to do; default get",
         0, 0, load_kind_parse},
        {"clients", EX_NUMBER, &l->clients, "N", "connections; default 4", 1, 4096, NULL},
        {"pipeline", EX_NUMBER, &l->pipeline, "N", "requests in flight per connection; default 1",
         1, 1024, NULL},
        {"update-bytes", EX_NUMBER, &l->update_bytes, "N",
         "of an update, the same as in earlier runs; default 128", 8, WIRE_DATA_MAX, NULL},
        {"update-percent", EX_NUMBER, &l->update_percent, "N", "of mixed; default 10", 0, 100,
         NULL},
        {"seconds", EX_NUMBER, &l->seconds, "N", "stop after so long; default 5 without --requests",
         1, 1000000, NULL},
        {"requests", EX_NUMBER, &l->requests, "N", "stop after so many operations", 1, UINT64_MAX,
         NULL},
        {"seed", EX_NUMBER, &l->seed, "N", "of the drawn pages; default 1", 0, UINT64_MAX, NULL},
        {"reconnect", EX_FLAG, &l->reconnect, NULL, "reconnect when a connection is lost", 0, 0,
         NULL},
        {"timeout", EX_NUMBER, &l->timeout_s, "SECONDS",
         "end when the server has answered nothing for so long; default 30", 1, 86400, NULL},
        {"check", EX_FLAG, &l->check, NULL, "read every page at the end", 0, 0, NULL},
        {"report", EX_FLAG, &l->report, NULL, "print name=value lines, for programs", 0, 0, NULL},
        {.name = "address", .kind = EX_RENAMED, .value = "server"},
    };

    ex_output_must(1);
    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
    if (l->kind == KIND_FILL)
        l->seconds = l->requests = 0; /* all of it */
    else if (l->requests == 0 && l->seconds == 0)
        l->seconds = 5;
}

int main(int argc, char **argv)
{
    static struct load l = {.address = "127.0.0.1:7400",
                            .clients = 4,
                            .pipeline = 1,
                            .update_bytes = 128,
                            .update_percent = 10,
                            .timeout_s = 30,
                            .seed = 1};
    int r;

    load_options(&l, argc, argv);
    ex_log_set(EX_INFO, NULL);
    snic_rng_init(&l.rng, l.seed);
    snic_timer_init(&l.timer, load_timed);
    l.phase_over = load_phase_over;
    load_open(&l);
    r = snic_loop_run(l.loop);
    if (r != 0)
        ex_die("waiting for events failed: %s", snic_strerror(r));
    if (load_print_checked(&l))
        load_print(&l);
    load_close(&l);
    model_close(&l.model);
    return l.wrong > 0 || l.errors > 0;
}
