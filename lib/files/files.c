/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The service's frame: submission, what follows when the device has ended something, completion.
 *
 * A request goes straight to its family on submit: looking (meta.c), control (meta.c,
 * commit.c), data (data.c, piece.c). Requests whose pieces have ended, and those that are durable,
 * are queued by these files and continued by files_advance(). The code that completes a request
 * calls files_finish(); the user's `done` is called by files_deliver(), which runs at the end of
 * device completions and in a deferred message, never inside submit.
 */
#include "files/files_priv.h"

/* ---- Completion ---- */

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

/*
 * What follows from ends, in order: requests whose pieces have all ended, or that are durable, and
 * control requests that find room.
 */
static void files_advance(struct snic_files *f)
{
    struct snic_node *node;
    for (;;) {
        files_control_run(f);
        if ((node = snic_queue_pop(&f->durable)) != NULL) {
            struct snic_files_req *r = SNIC_CONTAINER(node, struct snic_files_req, node);
            files_data_durable(f, r, r->private_.error);
        } else if ((node = snic_queue_pop(&f->moved)) != NULL) {
            files_data_moved(f, SNIC_CONTAINER(node, struct snic_files_req, node));
        } else {
            return;
        }
    }
}

/* Issue what can be issued, and commit what waits. */
static void files_issue(struct snic_files *f)
{
    files_pump(f);
    files_advance(f);
    files_commit_kick(f);
    files_advance(f);
    files_pump(f); /* a commit that found nothing to write may have let writes go */
    files_advance(f);
    files_io_submit(f);
}

/* The end of every callback of the device and the loop; calls the users' `done` last. */
static void files_settle(struct snic_files *f)
{
    files_advance(f);
    files_issue(f);
    files_deliver(f);
}

/* Metadata cannot be made durable any more: everything that would need it ends with EIO. */
static void files_break(struct snic_files *f, int error)
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

/* ---- Ends, of the device and the loop ---- */

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

static void files_piece_done(struct snic_io_req *io)
{
    struct files_piece *p = SNIC_CONTAINER(io, struct files_piece, io);
    struct snic_files *f = p->files;
    files_piece_ended(f, p);
    files_settle(f);
}

static void files_checkpoint_done(struct snic_io_req *io)
{
    struct snic_files *f = SNIC_CONTAINER(io, struct snic_files, ckpt_io);
    int r = files_checkpoint_ended(f);
    if (r < 0)
        files_break(f, r);
    files_settle(f);
}

static void files_commit_done(struct snic_io_req *io)
{
    struct snic_files *f = SNIC_CONTAINER(io, struct snic_files, commit_io);
    int r = files_commit_ended(f);
    if (r < 0)
        files_break(f, r);
    else if (r == 1)
        files_space_run(f);
    files_settle(f);
}

static void files_commit_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_files *f = SNIC_CONTAINER(t, struct snic_files, commit_timer);
    (void)now_ns;
    f->commit_wanted = 1;
    files_settle(f);
}

void files_frame_init(struct snic_files *f)
{
    f->finish_msg.fn = files_finish_run;
    f->list_msg.fn = files_list_run;
    snic_io_waiter_init(&f->io_room, files_io_writable);
    snic_timer_init(&f->commit_timer, files_commit_timer);
    f->commit_io.done = files_commit_done;
    f->ckpt_io.done = files_checkpoint_done;
    for (uint32_t i = 0; i < f->pieces_count; i++)
        f->pieces[i].io.done = files_piece_done;
}

/* Run the loop until nothing is left that power loss could take. For unmount. */
void files_commit_all(struct snic_files *f)
{
    f->want_flush = f->flush_started + 1;
    for (;;) {
        f->commit_wanted = 1;
        files_commit_kick(f);
        files_advance(f);
        files_io_submit(f);
        if (f->io_active == 0 &&
            (f->broken != 0 ||
             (f->commit_state == FILES_COMMIT_IDLE && f->dirty_first == SNIC_FILES__QUEUE_END &&
              f->pending.records == 0 && f->want_flush <= f->flush_done)))
            return;
        (void)snic_loop_once(f->loop, SNIC_NEVER);
    }
}

/* ---- Submission ---- */

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
    for (i = 0; i < n; i++) {
        files_start(f, reqs[i]);
        files_advance(f);
    }
    files_issue(f);
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
