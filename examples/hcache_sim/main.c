/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Replays an access trace against replacement policies and prints their hit rates over the size of
 * the cache, as a table and as an SVG picture. `ours` is the hybrid cache itself with its engine.
 *
 *   hcache_sim [--iolog FILE | --trace zipf|scan|loop|mixed] [--page-bytes BYTES]
 *              [--svg FILE] [--policies ours,lru,...] [--refs N] [--seed N]
 *
 * FILE is what fio's write_iolog writes, version 2 or 3. Exit code 2: a mistake in the command
 * line, 1: in a file, with a line that names it.
 */
#include "../../bench/hcache_peers/peer.h"
#include "../output.h"
#include "../version.h"

#include "snicstore/hcache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 7, PEERS_MAX = 8 };

/* Percent of the trace's distinct pages. */
static const double shares[POINTS] = {1, 2, 5, 10, 25, 50, 100};

static struct {
    const char *iolog, *trace, *svg, *peers;
    uint64_t page, refs, seed;
    const struct hcache_peer *peer[PEERS_MAX];
    int peer_count;
    double rate[PEERS_MAX][POINTS];
} sim = {NULL, "zipf", NULL, NULL, 4096, 200000, 1, {NULL}, 0, {{0}}};

static void mistake(const char *what, const char *which)
{
    fprintf(stderr, "hcache_sim: %s: %s\n", which, what);
    exit(2);
}

/* Of the picture. */
static void failed(void)
{
    fprintf(stderr, "hcache_sim: %s: %s\n", sim.svg, strerror(errno));
    exit(1);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t v;

    errno = 0;
    v = strtoull(text, &end, 0);
    if (*text < '0' || *text > '9' || *end != 0 || errno != 0 || v < least || v > most) {
        fprintf(stderr, "hcache_sim: %s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n",
                option, text, least, most);
        exit(2);
    }
    return v;
}

static void choose_peers(void)
{
    char list[256];
    char *at = list, *comma;
    int i;

    if (sim.peers == NULL) {
        for (i = 0; hcache_peers[i] != NULL && i < PEERS_MAX; i++)
            sim.peer[sim.peer_count++] = hcache_peers[i];
        return;
    }
    if (strlen(sim.peers) >= sizeof(list))
        mistake("list of policies is too long", "--policies");
    memcpy(list, sim.peers, strlen(sim.peers) + 1);
    for (; at != NULL && sim.peer_count < PEERS_MAX; at = comma) {
        comma = strchr(at, ',');
        if (comma != NULL)
            *comma++ = 0;
        sim.peer[sim.peer_count] = hcache_peer_find(at);
        if (sim.peer[sim.peer_count++] == NULL)
            mistake("unknown policy (--help lists them)", at);
    }
    if (at != NULL)
        mistake("more than 8 policies", "--policies");
}

static const char help[] =
    "Replay an access trace against replacement policies and print their hit rates over the size\n"
    "of the cache.\n\n"
    "Usage: hcache_sim [OPTION]...\n\n"
    "  --iolog FILE              the trace, as fio's write_iolog writes it (version 2 or 3)\n"
    "  --trace zipf|scan|loop|mixed\n"
    "                            a trace made here; default zipf\n"
    "  --policies NAME[,NAME]... of ours, ours_clock, lru, arc, 8 at most; default all\n"
    "  --page-bytes BYTES        of a page, 512 to 65536; default 4096\n"
    "  --refs N                  references of a trace made here; default 200000\n"
    "  --seed N                  of a trace made here; default 1\n"
    "  --svg FILE                draw the hit rates\n"
    "  --help                    print this and exit\n"
    "  --version                 print the version and exit\n\n"
    "Exit code: 0 done, 1 a file could not be read or written, 2 a mistake on the command line.\n";

static void options(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            printf("%s", help);
            exit(0);
        }
        if (strcmp(argv[i], "--version") == 0) {
            ex_version("hcache_sim");
            exit(0);
        }
        if (strcmp(argv[i], "--peers") == 0)
            mistake("was renamed: use --policies", argv[i]);
        if (strcmp(argv[i], "--page") == 0)
            mistake("was renamed: use --page-bytes", argv[i]);
        if (argv[i][0] != '-')
            mistake("unexpected argument: options begin with --", argv[i]);
        if (i + 1 == argc)
            mistake("needs a value", argv[i]);
        if (strcmp(argv[i], "--iolog") == 0)
            sim.iolog = argv[i + 1];
        else if (strcmp(argv[i], "--trace") == 0)
            sim.trace = argv[i + 1];
        else if (strcmp(argv[i], "--svg") == 0)
            sim.svg = argv[i + 1];
        else if (strcmp(argv[i], "--policies") == 0)
            sim.peers = argv[i + 1];
        else if (strcmp(argv[i], "--page-bytes") == 0)
            sim.page = number(argv[i], argv[i + 1], 512, 65536);
        else if (strcmp(argv[i], "--refs") == 0)
            sim.refs = number(argv[i], argv[i + 1], 1000, 100000000);
        else if (strcmp(argv[i], "--seed") == 0)
            sim.seed = number(argv[i], argv[i + 1], 0, UINT64_MAX - 1);
        else
            mistake("unknown option (--help lists them)", argv[i]);
    }
    choose_peers();
}

/* Curves over the logarithm of the size. */
static void draw(const char *title)
{
    static const char *const colours[] = {"#1b6ca8", "#7fb069", "#b3432b", "#d8a21b",
                                          "#6a4c93", "#444444", "#00a19d", "#c06c84"};
    FILE *f = fopen(sim.svg, "w");
    int p, k;

    if (f == NULL)
        failed();
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"400\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"640\" height=\"400\" fill=\"white\"/>\n"
            "<text x=\"60\" y=\"20\">%s: hit rate over cache size (%% of distinct pages)</text>\n",
            title);
    for (k = 0; k <= 4; k++)
        fprintf(f,
                "<line x1=\"60\" x2=\"520\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>"
                "<text x=\"20\" y=\"%d\">%d%%</text>\n",
                350 - k * 75, 350 - k * 75, 354 - k * 75, k * 25);
    for (k = 0; k < POINTS; k++)
        fprintf(f, "<text x=\"%d\" y=\"370\">%g</text>\n", 55 + k * 75, shares[k]);
    for (p = 0; p < sim.peer_count; p++) {
        fprintf(f, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"",
                colours[p]);
        for (k = 0; k < POINTS; k++)
            fprintf(f, "%d,%.1f ", 60 + k * 75, 350 - 3 * sim.rate[p][k]);
        fprintf(f, "\"/>\n<text x=\"530\" y=\"%d\" fill=\"%s\">%s</text>\n", 60 + p * 18,
                colours[p], sim.peer[p]->name);
    }
    fprintf(f, "</svg>\n");
    if (fclose(f) != 0)
        failed();
}

int main(int argc, char **argv)
{
    struct hcache_trace_error why;
    struct hcache_trace t;
    int p, k;

    ex_output_must(1);
    options(argc, argv);
    if (sim.iolog != NULL) {
        if (hcache_trace_iolog(&t, sim.iolog, (uint32_t)sim.page, &why) != 0) {
            if (why.line != 0)
                fprintf(stderr, "hcache_sim: %s: line %ld %s\n", sim.iolog, why.line, why.text);
            else
                fprintf(stderr, "hcache_sim: %s: %s\n", sim.iolog, why.text);
            exit(1);
        }
    } else if (hcache_trace_make(&t, sim.trace, sim.refs, sim.refs / 8, sim.seed) != 0) {
        mistake("unknown trace (zipf, scan, loop or mixed)", sim.trace);
    }
    printf("# %llu references, %llu distinct pages\n# size", (unsigned long long)t.count,
           (unsigned long long)t.distinct);
    for (p = 0; p < sim.peer_count; p++)
        printf(" %s", sim.peer[p]->name);
    printf("\n");
    for (k = 0; k < POINTS; k++) {
        uint64_t pages = (uint64_t)((double)t.distinct * shares[k] / 100);

        pages = pages < SNIC_HCACHE_WAYS_MAX ? SNIC_HCACHE_WAYS_MAX
                                             : pages / SNIC_HCACHE_WAYS_MAX * SNIC_HCACHE_WAYS_MAX;
        printf("%llu", (unsigned long long)pages);
        for (p = 0; p < sim.peer_count; p++) {
            sim.rate[p][k] = hcache_trace_run(&t, sim.peer[p], pages);
            printf(" %.2f", sim.rate[p][k]);
        }
        printf("\n");
    }
    if (sim.svg != NULL)
        draw(sim.iolog != NULL ? sim.iolog : sim.trace);
    hcache_trace_free(&t);
    return 0;
}
