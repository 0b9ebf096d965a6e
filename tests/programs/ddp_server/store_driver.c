/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * store_driver ADDRESS:PORT...: clients of a replicated store by snicstore/storeclient.h, which
 * begins with these addresses. Each of the clients has a key of its own and repeats
 *
 *     PUT if absent, PUT if the version is that one, GET, DELETE if the version is, GET
 *
 * so an operation that is executed twice, not at all, or whose answer is lost, makes a later
 * condition fail. What is refused because too few nodes have all keys is counted, and repeated.
 * Prints a line of figures every 50 ms; after the end of its input each client finishes its round,
 * and the last line is "done". A wrong answer ends it with code 1.
 */
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/storeclient.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { DRIVER_CLIENTS = 16, DRIVER_STEPS = 5, DRIVER_VALUE = 32 };
#define DRIVER_SECOND UINT64_C(1000000000)

struct driver_client {
    struct snic_storeclient_op op;
    uint32_t number;
    uint32_t step;
    int refused; /* submitted again with the next line */
    uint64_t rounds;
    uint64_t version;
    char key[DRIVER_VALUE];
    char value[DRIVER_VALUE];
    char out[DRIVER_VALUE];
};

static struct {
    struct snic_loop *loop;
    struct snic_storeclient *c;
    struct snic_timer timer;
    struct driver_client clients[DRIVER_CLIENTS];
    uint32_t busy;
    uint64_t rounds;
    uint64_t refused;
    int ending;
} driver;

static void driver_check(int right, const char *what, int result)
{
    if (right)
        return;
    printf("wrong: %s: %s\n", what, snic_storeclient_result_text(result));
    exit(1);
}

static void driver_submit(struct driver_client *k);

static void driver_done(struct snic_storeclient_op *op)
{
    static const int results[DRIVER_STEPS] = {0, 0, 0, 0, SNIC_ENOENT};
    struct driver_client *k = SNIC_CONTAINER(op, struct driver_client, op);
    char what[3 * DRIVER_VALUE];

    if (op->result == SNIC_ENOQUORUM) { /* not written; whether it may be, the test judges */
        driver.refused++;
        k->refused = 1;
        return;
    }
    (void)snprintf(what, sizeof(what), "client %u, round %" PRIu64 ", step %u", k->number,
                   k->rounds, k->step);
    driver_check(op->result == results[k->step], what, op->result);
    if (k->step == 2)
        driver_check(op->out_size == strlen(k->value) &&
                         memcmp(k->out, k->value, op->out_size) == 0,
                     what, SNIC_ECORRUPT);
    k->version = op->version;
    k->step = (k->step + 1) % DRIVER_STEPS;
    if (k->step == 0) {
        k->rounds++;
        driver.rounds++;
        if (driver.ending) {
            driver.busy--;
            return;
        }
    }
    driver_submit(k);
}

static void driver_submit(struct driver_client *k)
{
    static const uint32_t kinds[DRIVER_STEPS] = {SNIC_STORE_PUT, SNIC_STORE_PUT, SNIC_STORE_GET,
                                                 SNIC_STORE_DELETE, SNIC_STORE_GET};
    static const uint32_t conditions[DRIVER_STEPS] = {SNIC_STORE_IF_ABSENT, SNIC_STORE_IF_VERSION,
                                                      SNIC_STORE_ALWAYS, SNIC_STORE_IF_VERSION,
                                                      SNIC_STORE_ALWAYS};
    uint64_t version = k->version;

    memset(&k->op, 0, sizeof(k->op));
    k->op.done = driver_done;
    k->op.kind = kinds[k->step];
    k->op.condition = conditions[k->step];
    k->op.version = k->op.condition == SNIC_STORE_IF_VERSION ? version : 0;
    k->op.key = k->key;
    k->op.key_size = (uint32_t)strlen(k->key);
    if (k->op.kind == SNIC_STORE_PUT) {
        (void)snprintf(k->value, sizeof(k->value), "%u.%" PRIu64 ".%u", k->number, k->rounds,
                       k->step);
        k->op.data = k->value;
        k->op.size = (uint32_t)strlen(k->value);
    }
    k->op.out = k->out;
    k->op.out_max = sizeof(k->out);
    int result = snic_storeclient_submit(driver.c, &k->op);
    driver_check(result == 0, "submit", result);
}

/* A line of figures, and whether the input has ended. */
static void driver_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    struct snic_storeclient_stats s;
    char byte;

    snic_storeclient_get_stats(driver.c, &s);
    printf("rounds %" PRIu64 " retries %" PRIu64 " repeated %" PRIu64 " refused %" PRIu64 " nodes",
           driver.rounds, s.retries, s.repeated, driver.refused);
    for (uint32_t i = 0; i < s.nodes; i++) {
        char text[128];

        (void)snic_net_addr_format(&s.node[i].addr, text, sizeof(text));
        printf(" %s=%s", text, s.node[i].serves ? "serves" : "not");
    }
    printf("\n");
    (void)fflush(stdout);
    for (uint32_t i = 0; i < DRIVER_CLIENTS; i++)
        if (driver.clients[i].refused) {
            driver.clients[i].refused = 0;
            driver_submit(&driver.clients[i]);
        }
    if (poll(&input, 1, 0) > 0 && read(0, &byte, 1) <= 0)
        driver.ending = 1;
    if (driver.busy == 0)
        snic_loop_stop(driver.loop);
    else
        snic_loop_arm(driver.loop, t, now_ns + DRIVER_SECOND / 20);
}

int main(int argc, char **argv)
{
    struct snic_net_addr addrs[SNIC_STORECLIENT_NODES_MAX];
    struct snic_loop_uring_opts l = {.opts_size = sizeof(l)};
    struct snic_net_uring_opts n = {.opts_size = sizeof(n)};
    struct snic_storeclient_opts o = {.opts_size = sizeof(o), .timeout_ns = 60 * DRIVER_SECOND};
    struct snic_net *net;

    for (int i = 1; i < argc && i <= SNIC_STORECLIENT_NODES_MAX; i++)
        driver_check(snic_net_addr_parse(&addrs[o.addr_count++], argv[i]) == 0, argv[i],
                     SNIC_EINVAL);
    int result = snic_loop_uring_open(&driver.loop, &l);
    driver_check(result == 0, "io_uring", result);
    result = snic_net_uring_open(&net, driver.loop, &n);
    driver_check(result == 0, "network", result);
    o.loop = driver.loop;
    o.net = net;
    o.addrs = addrs;
    driver_check(getrandom(&o.client, sizeof(o.client), 0) == sizeof(o.client), "random", SNIC_EIO);
    size_t size = snic_storeclient_memsize(&o);
    void *mem =
        aligned_alloc(SNIC_STORECLIENT_ALIGN, (size + SNIC_STORECLIENT_ALIGN - 1) /
                                                  SNIC_STORECLIENT_ALIGN * SNIC_STORECLIENT_ALIGN);
    driver_check(mem != NULL && size > 0, "options", SNIC_ENOMEM);
    result = snic_storeclient_init(&driver.c, mem, size, &o);
    driver_check(result == 0, "storeclient", result);
    for (uint32_t i = 0; i < DRIVER_CLIENTS; i++) {
        struct driver_client *k = &driver.clients[i];

        k->number = i;
        (void)snprintf(k->key, sizeof(k->key), "driver:%u", i);
        driver.busy++;
        driver_submit(k);
    }
    snic_timer_init(&driver.timer, driver_fire);
    snic_loop_arm(driver.loop, &driver.timer, 0);
    result = snic_loop_run(driver.loop);
    driver_check(result == 0, "loop", result);
    snic_storeclient_stop(driver.c);
    snic_net_shut(net);
    free(snic_storeclient_fini(driver.c));
    snic_loop_close(driver.loop);
    printf("done\n");
    return 0;
}
