/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The service's frame: options, memory, submission, completion, the queue in front of the
 * device.
 *
 * A request goes straight to its family on submit: looking (meta.c), control (meta.c,
 * commit.c), data (data.c, piece.c). The code that completes it calls files_finish(); the user's
 * `done` is called by files_deliver(), which runs at the end of device completions and in a
 * deferred message, never inside submit.
 */
#include "files/files_priv.h"

/* ---- Device ---- */

static void files_io_fail(struct snic_files *f, struct snic_io_req *io, int error)
{
    io->result = error;
    io->os_error = 0;
    snic_queue_push(&f->io_failed, &io->node);
    if (!f->finish_armed) {
        f->finish_armed = 1;
        snic_loop_defer(f->loop, &f->finish_msg);
    }
}

/* A device request has ended. */
void files_io_ended(struct snic_files *f)
{
    SNIC_ASSERT(f->io_active > 0);
    f->io_active--;
}

/* Queue a device request; files_io_submit() hands the queue over. */
void files_io_push(struct snic_files *f, struct snic_io_req *io)
{
    f->io_active++;
    snic_queue_push(&f->io_queue, &io->node);
}

void files_io_submit(struct snic_files *f)
{
    struct snic_io_req *batch[SNIC_FILES__IO_BATCH];
    while (!snic_queue_empty(&f->io_queue) && !snic_io_waits(&f->io_room)) {
        struct snic_node *node = f->io_queue.first;
        uint32_t n = 0;
        uint32_t i;
        int taken;
        for (; node != NULL && n < SNIC_FILES__IO_BATCH; node = node->next)
            batch[n++] = SNIC_CONTAINER(node, struct snic_io_req, node);
        for (i = 0; i < n; i++)
            (void)snic_queue_pop(&f->io_queue);
        taken = snic_io_submit(f->io, batch, n);
        if (taken < 0) {
            for (i = 0; i < n; i++)
                files_io_fail(f, batch[i], SNIC_EIO);
            continue;
        }
        SNIC_ASSERT((uint32_t)taken <= n);
        if ((uint32_t)taken == n)
            continue;
        for (i = n; i > (uint32_t)taken; i--) { /* full: back to the front, in order */
            batch[i - 1]->node.next = f->io_queue.first;
            f->io_queue.first = &batch[i - 1]->node;
            if (f->io_queue.last == NULL)
                f->io_queue.last = &batch[i - 1]->node;
        }
        snic_io_wait(f->io, &f->io_room);
    }
}

static void files_io_writable(struct snic_io_waiter *w)
{
    files_io_submit(SNIC_CONTAINER(w, struct snic_files, io_room));
}

/* ---- Completion ---- */

void files_finish(struct snic_files *f, struct snic_files_req *r, int64_t result)
{
    SNIC_ASSERT(r->private_.state != FILES_RQ_DONE);
    SNIC_ASSERT(r->private_.inflight == 0);
    r->private_.state = FILES_RQ_DONE;
    r->result = result;
    r->done_ns = snic_loop_now(f->loop);
    if (result < 0)
        f->stats.errors++;
    snic_queue_push(&f->finished, &r->node);
    if (!f->finish_armed) {
        f->finish_armed = 1;
        snic_loop_defer(f->loop, &f->finish_msg);
    }
}

/* Call what is due. `done` may submit, which may finish more. */
static void files_deliver(struct snic_files *f)
{
    struct snic_node *node;
    while ((node = snic_queue_pop(&f->finished)) != NULL) {
        struct snic_files_req *r = SNIC_CONTAINER(node, struct snic_files_req, node);
        SNIC_ASSERT(f->active > 0);
        f->active--;
        r->done(r);
    }
}

static void files_finish_run(struct snic_loop_msg *msg)
{
    struct snic_files *f = SNIC_CONTAINER(msg, struct snic_files, finish_msg);
    struct snic_node *node;
    f->finish_armed = 0;
    while ((node = snic_queue_pop(&f->io_failed)) != NULL) {
        struct snic_io_req *io = SNIC_CONTAINER(node, struct snic_io_req, node);
        io->done(io);
    }
    files_settle(f);
}

/*
 * The end of every callback of the device and the loop: issue what can be issued, commit what
 * waits, then call the users' `done`.
 */
void files_settle(struct snic_files *f)
{
    files_pump(f);
    files_commit_kick(f);
    files_pump(f); /* a commit that found nothing to write may have let writes go */
    files_io_submit(f);
    files_deliver(f);
}

void files_frame_init(struct snic_files *f)
{
    f->finish_msg.fn = files_finish_run;
    f->list_msg.fn = files_list_run;
    snic_io_waiter_init(&f->io_room, files_io_writable);
}

/* Metadata cannot be made durable any more: everything that would need it ends with EIO. */
void files_break(struct snic_files *f, int error)
{
    struct snic_node *node;
    if (f->broken == 0)
        f->broken = error;
    while ((node = snic_queue_pop(&f->control)) != NULL)
        files_data_durable(f, SNIC_CONTAINER(node, struct snic_files_req, node), SNIC_EIO);
    while ((node = snic_queue_pop(&f->waiters)) != NULL)
        files_data_durable(f, SNIC_CONTAINER(node, struct snic_files_req, node), SNIC_EIO);
    files_space_run(f);
}

/* ---- Submission ---- */

/* The pieces of a READ or WRITE add up to its length. */
int files_iov_check(const struct snic_files_req *r)
{
    uint64_t sum = 0;
    uint32_t i;
    if (r->iov == NULL)
        return r->iov_count == 0 && r->buf.size >= r->length &&
                       (r->buf.base != NULL || r->length == 0)
                   ? 0
                   : SNIC_EINVAL;
    if (r->iov_count == 0 || r->iov_count > SNIC_IO_IOV_MAX)
        return SNIC_EINVAL;
    for (i = 0; i < r->iov_count; i++) {
        if (r->iov[i].size > r->length - sum || (r->iov[i].base == NULL && r->iov[i].size != 0))
            return SNIC_EINVAL;
        sum += r->iov[i].size;
    }
    return sum == r->length ? 0 : SNIC_EINVAL;
}

static int files_flags_valid(const struct snic_files_req *r)
{
    switch (r->op) {
    case SNIC_FILES_WRITE:
        return (r->flags & ~SNIC_FILES_SYNC) == 0;
    case SNIC_FILES_CREATE:
    case SNIC_FILES_RENAME:
        return (r->flags & ~SNIC_FILES_REPLACE) == 0;
    default:
        return r->flags == 0;
    }
}

static void files_start(struct snic_files *f, struct snic_files_req *r)
{
    memset(&r->private_, 0, sizeof(r->private_));
    r->result = 0;
    r->os_error = 0;
    r->credit = 0;
    f->active++;
    if (!files_flags_valid(r)) {
        files_finish(f, r, SNIC_EINVAL);
        return;
    }
    switch (r->op) {
    case SNIC_FILES_READ:
    case SNIC_FILES_WRITE:
    case SNIC_FILES_PREALLOC:
    case SNIC_FILES_FSYNC:
    case SNIC_FILES_TRUNCATE:
        files_data_start(f, r);
        return;
    case SNIC_FILES_MKDIR:
    case SNIC_FILES_RMDIR:
    case SNIC_FILES_CREATE:
    case SNIC_FILES_DELETE:
    case SNIC_FILES_RENAME:
        files_control_start(f, r);
        return;
    case SNIC_FILES_OPEN:
    case SNIC_FILES_STAT:
    case SNIC_FILES_LIST:
        files_look(f, r);
        return;
    default:
        files_finish(f, r, SNIC_EINVAL);
    }
}

void snic_files_submit(struct snic_files *f, struct snic_files_req **reqs, uint32_t n)
{
    uint32_t i;
    SNIC_ASSERT(!f->closing);
    for (i = 0; i < n; i++)
        files_start(f, reqs[i]);
    files_pump(f);
    files_commit_kick(f);
    files_pump(f); /* a commit that found nothing to write may have let writes go */
    files_io_submit(f);
}

/* A copy of the caller's request with a flag behind it. */
struct files_run {
    struct snic_files_req req;
    int finished;
};

static void files_run_done(struct snic_files_req *r)
{
    SNIC_CONTAINER(r, struct files_run, req)->finished = 1;
}

int64_t snic_files_run(struct snic_files *f, struct snic_files_req *req)
{
    struct files_run run;
    struct snic_files_req *p = &run.req;
    snic_files_done_fn done = req->done;
    run.req = *req;
    run.req.done = files_run_done;
    run.finished = 0;
    snic_files_submit(f, &p, 1);
    while (!run.finished)
        (void)snic_loop_once(f->loop, SNIC_NEVER);
    *req = run.req;
    req->done = done;
    return req->result;
}

void snic_files_set_hooks(struct snic_files *f, const struct snic_files_hooks *hooks)
{
    f->hooks = *hooks;
}

void snic_files_get_stats(const struct snic_files *f, struct snic_files_stats *out)
{
    *out = f->stats;
    out->segments_free = f->free_segs;
    out->segments_limbo = (uint64_t)f->limbo_pending.count + f->limbo_writing.count +
                          f->limbo_durable.count + f->limbo_readers.count;
    out->files = f->files;
    out->dirs = f->dirs;
    out->in_flight = f->active;
    out->broken = f->broken;
}

struct snic_loop *snic_files_loop(const struct snic_files *f)
{
    return f->loop;
}

void snic_files_get_info(const struct snic_files *f, struct snic_files_info *out)
{
    *out = f->info;
}
