/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The socket of `ctl`: a client sends one line, a command, and gets lines, of which the last is
 * "ok" or "error: TEXT"; then the connection ends. Commands are carried out one after the other,
 * each until it is in effect and saved.
 *   A client that sends no whole line, or does not read, is closed after CTL_SECONDS, and before
 *   when another needs its place. The command of one that has left is carried out all the same.
 */
#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CTL_CLIENTS = 16, CTL_SECONDS = 10 };

enum ctl_state { CTL_FREE = 0, CTL_READS, CTL_QUEUED, CTL_RUNS, CTL_SENDS };

struct ctl_client {
    enum ctl_state state;
    struct snic_net_conn *net; /* NULL: it has left */
    uint64_t since_ns;
    uint64_t turn; /* QUEUED: the lowest is next */
    size_t size;
    char line[TG_LINE + 1];
    struct tg_call call;
    struct snic_net_send_req req;
    struct snic_iov iov;
};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_listener *listener;
    struct ctl_client clients[CTL_CLIENTS];
    struct ctl_client *running;
    uint64_t turns;
    struct snic_timer timer;
    struct snic_loop_msg next;
    int next_on;
    struct tg_file file;
    struct tg_text text; /* of the file */
    int saving;
    int ending;
} ctl;

static void ctl_free(struct ctl_client *c)
{
    tg_text_free(&c->call.out);
    c->state = CTL_FREE;
}

/* ---- The answer ---- */

static void ctl_sent(struct snic_net_send_req *r)
{
    struct ctl_client *c = SNIC_CONTAINER(r, struct ctl_client, req);
    if (c->net != NULL)
        snic_net_close(c->net); /* closed follows */
    else
        ctl_free(c);
}

static void ctl_answer(struct ctl_client *c, int failed)
{
    struct tg_text *out = &c->call.out;
    if (out->failed) {
        (void)tg_fail(&c->call.e, "out of memory for the answer");
        tg_text_free(out);
        failed = 1;
    }
    if (failed)
        tg_text_add(out, "error: %s\n", c->call.e.text);
    else
        tg_text_add(out, "ok\n");
    c->state = CTL_SENDS;
    c->since_ns = snic_loop_now(ctl.loop);
    memset(&c->req, 0, sizeof(c->req));
    c->iov = (struct snic_iov){.base = out->data, .size = out->size};
    c->req.region = SNIC_NO_REGION;
    c->req.done = ctl_sent;
    c->req.iov = &c->iov;
    c->req.iov_count = 1;
    if (c->net == NULL)
        ctl_free(c);
    else if (out->failed || snic_net_send(c->net, &c->req) != 1)
        snic_net_abort(c->net);
}

/* ---- One command after the other ---- */

static void ctl_next(void);

static void ctl_finish(int failed)
{
    struct ctl_client *c = ctl.running;
    ctl.running = NULL;
    ctl_answer(c, failed);
    ctl_next();
}

void tg_control_answer(int failed)
{
    ctl_finish(failed);
}

static void ctl_end_save(int failed)
{
    if (ctl.running->call.after != NULL)
        ctl.running->call.after(failed);
    else
        ctl_finish(failed);
}

static void ctl_saved(struct tg_file *f)
{
    struct ctl_client *c = ctl.running;
    ctl.saving = 0;
    tg_text_free(&ctl.text);
    if (f->os_error != 0 && c->call.path != NULL)
        (void)tg_fail(&c->call.e, "cannot write %s: %s", f->path, strerror(f->os_error));
    else if (f->os_error != 0)
        (void)tg_fail(&c->call.e,
                      "in effect until the target ends, but not saved, as %s cannot be written: "
                      "%s; `save` tries again",
                      f->path, strerror(f->os_error));
    ctl_end_save(f->os_error != 0);
}

static void ctl_save(void)
{
    struct ctl_client *c = ctl.running;
    const char *path = c->call.path != NULL ? c->call.path : tg.config;
    if (path == NULL) {
        tg_text_add(&c->call.out, "not saved: the target was started without --config\n");
        ctl_end_save(0);
        return;
    }
    tg_config_write(&ctl.text);
    if (ctl.text.failed) {
        tg_text_free(&ctl.text);
        (void)tg_fail(&c->call.e, "in effect, but not saved: out of memory; `save` tries again");
        ctl_end_save(1);
        return;
    }
    ctl.file = (struct tg_file){
        .path = path, .data = ctl.text.data, .size = ctl.text.size, .done = ctl_saved};
    ctl.saving = 1;
    tg_file_write(&ctl.file);
}

void tg_control_go(void)
{
    if (ctl.running != NULL)
        ctl_save();
}

static void ctl_run(struct ctl_client *c)
{
    char *words[TG_WORDS];
    ctl.running = c;
    c->state = CTL_RUNS;
    int count = tg_split(c->line, words, &c->call.e);
    int r = count < 0 ? TG_FAILED : tg_command(words, count, &c->call);
    if (r == TG_SAVE)
        ctl_save();
    else if (r != TG_WAIT)
        ctl_finish(r == TG_FAILED);
}

static void ctl_take(struct snic_loop_msg *msg)
{
    struct ctl_client *first = NULL;
    (void)msg;
    ctl.next_on = 0;
    for (uint32_t i = 0; i < CTL_CLIENTS; i++) {
        struct ctl_client *c = &ctl.clients[i];
        if (c->state == CTL_QUEUED && (first == NULL || c->turn < first->turn))
            first = c;
    }
    if (first != NULL && ctl.running == NULL && !ctl.ending)
        ctl_run(first);
}

static void ctl_next(void)
{
    if (ctl.next_on)
        return;
    ctl.next_on = 1;
    ctl.next.fn = ctl_take;
    snic_loop_defer(ctl.loop, &ctl.next);
}

/* ---- Clients ---- */

static void ctl_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct ctl_client *c = ctx;
    uint32_t i = 0;
    (void)net;
    while (c->state == CTL_READS && i < buf->size) {
        char byte = (char)buf->data[i++];
        if (byte == '\n') {
            c->line[c->size] = 0;
            c->state = CTL_QUEUED;
            c->turn = ctl.turns++;
            ctl_next();
        } else if (c->size == TG_LINE || byte == 0) {
            (void)tg_fail(&c->call.e,
                          byte == 0 ? "a command has no byte that is 0"
                                    : "a command has at most %d bytes",
                          TG_LINE);
            ctl_answer(c, 1);
        } else {
            c->line[c->size++] = byte;
        }
    }
    snic_net_put(ctl.net, buf); /* what follows the line does not count */
}

static void ctl_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct ctl_client *c = ctx;
    (void)net;
    (void)reason;
    c->net = NULL;
    if (c->state == CTL_READS || c->state == CTL_SENDS)
        ctl_free(c);
}

static void ctl_eof(void *ctx, struct snic_net_conn *net)
{
    struct ctl_client *c = ctx;
    if (c->state == CTL_READS)
        snic_net_abort(net);
}

/* @return a place; NULL: all are in use, and the one that has waited longest was closed */
static struct ctl_client *ctl_place(void)
{
    struct ctl_client *oldest = NULL;
    for (uint32_t i = 0; i < CTL_CLIENTS; i++) {
        struct ctl_client *c = &ctl.clients[i];
        if (c->state == CTL_FREE)
            return c;
        if (c->net != NULL && (c->state == CTL_READS || c->state == CTL_SENDS) &&
            (oldest == NULL || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (oldest != NULL)
        snic_net_abort(oldest->net);
    return NULL;
}

static void ctl_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = ctl_recv, .eof = ctl_eof, .closed = ctl_closed};
    struct ctl_client *c = ctl_place();
    (void)ctx;
    (void)peer;
    if (c == NULL || ctl.ending) {
        snic_net_abort(net);
        return;
    }
    memset(&c->call, 0, sizeof(c->call));
    c->state = CTL_READS;
    c->net = net;
    c->since_ns = snic_loop_now(ctl.loop);
    c->size = 0;
    snic_net_bind(net, &events, c);
}

static void ctl_watch(struct snic_timer *t, uint64_t now)
{
    for (uint32_t i = 0; i < CTL_CLIENTS; i++) {
        struct ctl_client *c = &ctl.clients[i];
        if (c->net != NULL && (c->state == CTL_READS || c->state == CTL_SENDS) &&
            now - c->since_ns > CTL_SECONDS * UINT64_C(1000000000))
            snic_net_abort(c->net);
    }
    snic_loop_arm(ctl.loop, t, now + UINT64_C(1000000000));
}

/* ---- Begin, end ---- */

void tg_control_begin(struct snic_loop *loop, struct snic_net *net, const char *path)
{
    struct snic_net_addr a = {.family = SNIC_NET_UNIX};
    if (path[0] == 0 || strlen(path) >= sizeof(a.path))
        ex_usage("--socket '%s': the path of a socket has 1 to %zu bytes", path,
                 sizeof(a.path) - 1);
    (void)snprintf(a.path, sizeof(a.path), "%s", path);
    ctl.loop = loop;
    ctl.net = net;
    mode_t before = umask(0177); /* write permission is all permissions */
    int r = snic_net_listen(net, &a, 0, ctl_accept, NULL, &ctl.listener);
    (void)umask(before);
    if (r != 0)
        ex_die("cannot listen on %s (--socket): %s", path, ex_listen_error(path, r));
    snic_timer_init(&ctl.timer, ctl_watch);
    snic_loop_arm(loop, &ctl.timer, snic_loop_now(loop) + UINT64_C(1000000000));
}

void tg_control_end(void)
{
    if (ctl.listener == NULL)
        return;
    ctl.ending = 1;
    snic_net_unlisten(ctl.listener);
    snic_loop_cancel(ctl.loop, &ctl.timer);
    while (ctl.running != NULL || ctl.next_on)
        if (snic_loop_once(ctl.loop, SNIC_NEVER) < 0)
            break;
}
