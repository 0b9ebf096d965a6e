/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The clients of bench/neighbours on streams, in one thread, and the datagrams.
 *
 * I1  A request's latency counts from the time it was due, whether or not it could be sent then:
 *     a server that stalls is charged for all requests that were due meanwhile.
 * I2  Replies of RESP come in order: `due` is a ring of the times of the outstanding requests; of
 *     CATALOG their tags are places in it, 0: free. The other protocols' requests bear their time
 *     as their id, the lowest bit: a write.
 * I3  `skip` bytes of the reply at the front are still to come; it is complete at 0.
 */
#include "neighbours.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_BYTES (256u << 10)
#define SECOND UINT64_C(1000000000)
#define AGAIN_NS (SECOND / 100) /* a badly behaved client comes back so soon */
#define SLOW_BYTES 4u           /* per second */

enum kind { KIND_LOAD, KIND_SLOW, KIND_PAUSED, KIND_IDLE, KIND_GARBAGE };

struct client {
    int fd;
    enum kind kind;
    struct nb_peer peer;
    uint64_t again_ns; /* connect, read, or send garbage then */
    uint64_t due_ns;   /* of the next request, in an open loop */
    uint64_t sent;     /* of this connection */
    uint64_t outstanding;
    uint64_t *due; /* I2 */
    uint64_t first;
    unsigned char *out;
    size_t out_size;
    size_t out_done;
    unsigned char *in;
    size_t in_size;
    uint64_t skip; /* I3 */
    int in_reply;
    uint64_t id;
    int failed;
};

static size_t out_room(const struct nb *n)
{
    return (64u << 10) + NB_REQUEST_MAX + n->bytes + 2;
}

static int is_load(const struct nb *n)
{
    return n->role == NB_CLOSED || n->role == NB_FILL || n->role == NB_OPEN;
}

/* ---- Connections ---- */

static void lose(struct nb *n, struct client *c)
{
    close(c->fd);
    c->fd = -1;
    n->lost += c->outstanding;
    n->errors += is_load(n) ? 1 + c->outstanding : 0;
    c->outstanding = c->first = c->sent = 0;
    if (n->protocol == NB_CATALOG)
        memset(c->due, 0, NB_WINDOW * sizeof(*c->due));
    c->out_size = c->out_done = c->in_size = 0;
    c->skip = 0;
    c->in_reply = 0;
    c->again_ns = nb_now() + (c->kind == KIND_SLOW || c->kind == KIND_PAUSED ? SECOND : AGAIN_NS);
}

static void join(struct nb *n, struct client *c, uint64_t now)
{
    c->fd = nb_connect(n, &c->peer);
    c->again_ns = now;
    if (c->fd < 0) {
        if (is_load(n))
            n->errors++;
        c->again_ns = nb_now() + AGAIN_NS;
    }
}

/* ---- Requests ---- */

/* A catalog may answer out of order: the request NB_WINDOW before may still be in flight. */
static int may_send(const struct nb *n, const struct client *c)
{
    return c->outstanding < n->depth &&
           (n->protocol != NB_CATALOG || c->due[c->sent % NB_WINDOW] == 0);
}

static void request(struct nb *n, struct client *c, uint64_t due)
{
    uint64_t key = n->role == NB_FILL ? n->issued : snic_rng_below(&n->rng, n->keys);
    int write = n->role == NB_FILL || snic_rng_below(&n->rng, 100) < n->writes;

    uint64_t place = c->sent++ % NB_WINDOW;
    uint64_t id = n->protocol == NB_CATALOG ? place + 1 : due;

    c->out_size += nb_put(n, &c->peer, c->out + c->out_size, id << 1 | (unsigned)write, key);
    c->due[place] = due;
    c->outstanding++;
    n->issued++;
}

static void issue(struct nb *n, struct client *c, uint64_t now)
{
    size_t room = out_room(n) - NB_REQUEST_MAX - n->bytes - 2;

    if (c->kind == KIND_GARBAGE) {
        if (now >= c->again_ns && c->out_size == 0) {
            c->out_size = nb_garbage(n, c->out);
            c->again_ns = now + AGAIN_NS;
        }
        return;
    }
    while (c->kind != KIND_IDLE && c->out_size <= room && may_send(n, c)) {
        if (is_load(n) && (n->issued >= n->requests || n->closing_ns != 0))
            return;
        if (n->role != NB_OPEN) {
            request(n, c, now);
        } else if (now >= c->due_ns) {
            request(n, c, c->due_ns); /* I1 */
            c->due_ns += nb_gap(n, &n->rng, snic_max_u64(1, n->rate / n->clients));
        } else {
            return;
        }
    }
}

static void flush(struct nb *n, struct client *c)
{
    while (c->fd >= 0 && c->out_done < c->out_size) {
        ssize_t r = send(c->fd, c->out + c->out_done, c->out_size - c->out_done, MSG_NOSIGNAL);

        if (r < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (r <= 0) {
            lose(n, c);
            return;
        }
        c->out_done += (size_t)r;
    }
    memmove(c->out, c->out + c->out_done, c->out_size - c->out_done);
    c->out_size -= c->out_done;
    c->out_done = 0;
}

/* ---- Replies ---- */

static uint64_t time_due(const struct nb *n, struct client *c)
{
    uint64_t place = n->protocol == NB_RESP ? c->first % NB_WINDOW : (c->id >> 1) - 1;
    uint64_t due;

    if (n->protocol != NB_RESP && n->protocol != NB_CATALOG)
        return c->id >> 1;
    due = c->due[place];
    c->due[place] = 0;
    return due;
}

static void complete(struct nb *n, struct client *c)
{
    uint64_t due = time_due(n, c);
    uint64_t now = nb_now();

    c->in_reply = 0;
    c->first++;
    c->outstanding--;
    n->answered++;
    n->errors += (unsigned)c->failed;
    snic_hist_record(&n->latency, now > due ? now - due : 0);
}

/* @return whether the bytes make sense */
static int parse(struct nb *n, struct client *c)
{
    size_t at = 0;

    while (at < c->in_size) {
        size_t left = c->in_size - at;

        if (!c->in_reply) {
            int64_t head = nb_head(n, &c->peer, c->in + at, left, &c->id, &c->skip, &c->failed);

            if (head == 0)
                break;
            if (head > 0 && c->id == NB_NO_REPLY) {
                at += (size_t)head;
                continue;
            }
            if (head < 0 || c->outstanding == 0)
                return 0;
            c->in_reply = 1;
            at += (size_t)head;
            left -= (size_t)head;
        }
        left = snic_min_u64(left, c->skip);
        at += left;
        c->skip -= left;
        if (c->skip == 0)
            complete(n, c);
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
    return 1;
}

static void receive(struct nb *n, struct client *c)
{
    int all = c->kind == KIND_IDLE || c->kind == KIND_GARBAGE;
    size_t most = c->kind == KIND_SLOW ? SLOW_BYTES : IN_BYTES - c->in_size;
    ssize_t r = recv(c->fd, c->in + c->in_size, most, 0);

    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (c->kind == KIND_SLOW)
        c->again_ns = nb_now() + SECOND;
    if (r <= 0) {
        lose(n, c);
        return;
    }
    c->in_size = all ? 0 : c->in_size + (size_t)r;
    if (!all && !parse(n, c))
        lose(n, c);
}

/* ---- Run ---- */

static void begin(struct nb *n, struct client *clients)
{
    static const enum kind hostile[] = {KIND_LOAD, KIND_GARBAGE, KIND_IDLE};

    for (uint64_t i = 0; i < n->clients; i++) {
        struct client *c = &clients[i];

        c->kind = hostile[i % 3];
        if (n->role == NB_SLOW)
            c->kind = KIND_SLOW;
        else if (n->role == NB_PAUSED)
            c->kind = KIND_PAUSED;
        else if (n->role != NB_HOSTILE)
            c->kind = KIND_LOAD;
        c->peer.number = i;
        c->peer.plain = c->kind == KIND_IDLE || c->kind == KIND_GARBAGE;
        c->peer.operator= n->role == NB_HOSTILE && c->kind == KIND_LOAD && i / 3 % 2 == 1;
        c->due = calloc(NB_WINDOW, sizeof(*c->due));
        c->out = malloc(out_room(n));
        c->in = malloc(IN_BYTES);
        if (c->due == NULL || c->out == NULL || c->in == NULL)
            nb_die("out of memory");
        join(n, c, nb_now());
        if (c->fd < 0 && is_load(n))
            nb_die("cannot connect to %s", n->address);
    }
    n->start_ns = nb_now() + n->delay_ms * 1000000;
    for (uint64_t i = 0; i < n->clients; i++)
        clients[i].due_ns = n->start_ns + nb_gap(n, &n->rng, snic_max_u64(1, n->rate));
}

/* One pass over the clients. @return when the next one has something to do */
static uint64_t work(struct nb *n, struct client *clients, struct pollfd *polls, uint64_t now)
{
    uint64_t next = now + SECOND / 10;

    for (uint64_t i = 0; i < n->clients; i++) {
        struct client *c = &clients[i];

        if (c->fd < 0 && now >= c->again_ns)
            join(n, c, now);
        if (c->fd >= 0 && now >= n->start_ns) {
            issue(n, c, now);
            flush(n, c);
        }
        polls[i].fd = c->fd;
        polls[i].events = c->out_size > c->out_done ? POLLOUT : 0;
        if (c->kind != KIND_PAUSED && (c->kind != KIND_SLOW || now >= c->again_ns))
            polls[i].events |= POLLIN;
        if (c->fd >= 0 && n->role == NB_OPEN && n->issued < n->requests)
            next = snic_min_u64(next, c->due_ns);
        else if (c->fd < 0 || c->kind == KIND_GARBAGE || c->kind == KIND_SLOW)
            next = snic_min_u64(next, snic_max_u64(c->again_ns, now + SECOND / 1000));
    }
    return now < n->start_ns ? snic_min_u64(now + SECOND / 10, n->start_ns) : next;
}

/* A load sends no more when its time is over, but waits for the replies that are due. */
static int over(struct nb *n, uint64_t now)
{
    int end = nb_stopped() || now >= n->start_ns + n->seconds * SECOND;

    if (!is_load(n))
        return end;
    if ((end || n->issued >= n->requests) && n->answered + n->lost >= n->issued)
        return 1;
    if (end && n->closing_ns == 0)
        n->closing_ns = now;
    return n->closing_ns != 0 && now >= n->closing_ns + 2 * SECOND;
}

void nb_run_streams(struct nb *n)
{
    struct client *clients = calloc(n->clients, sizeof(*clients));
    struct pollfd *polls = calloc(n->clients, sizeof(*polls));
    uint64_t now, next;

    if (clients == NULL || polls == NULL)
        nb_die("out of memory");
    begin(n, clients);
    for (now = nb_now(); !over(n, now); now = nb_now()) {
        struct timespec t = {0};

        next = work(n, clients, polls, now);
        now = nb_now();
        if (next > now) {
            t.tv_sec = (time_t)((next - now) / SECOND);
            t.tv_nsec = (long)((next - now) % SECOND);
        }
        if (ppoll(polls, n->clients, &t, NULL) <= 0)
            continue;
        for (uint64_t i = 0; i < n->clients; i++) {
            struct client *c = &clients[i];

            if (c->fd < 0 || c->fd != polls[i].fd || polls[i].revents == 0)
                continue;
            if ((polls[i].revents & POLLIN) != 0)
                receive(n, c);
            else if ((polls[i].revents & (POLLERR | POLLHUP)) != 0)
                lose(n, c);
        }
    }
    n->end_ns = now;
    for (uint64_t i = 0; i < n->clients; i++) {
        if (n->role == NB_OPEN)
            n->errors += clients[i].outstanding; /* not answered in time */
        if (clients[i].fd >= 0)
            close(clients[i].fd);
        free(clients[i].due);
        free(clients[i].out);
        free(clients[i].in);
    }
    free(clients);
    free(polls);
}
