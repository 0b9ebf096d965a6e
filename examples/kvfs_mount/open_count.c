/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How many files are open, of all users and of each: limits as the kernel's own. All files together
 * are as fs.file-max (ENFILE; the last sixteenth is for root, which the kernel does not limit), a
 * user's as fs.inotify.max_user_instances (EMFILE). Folders count. It is counted before the file
 * system gets the request, so that a create that is refused makes no file.
 *
 * Readers' threads count up, the loop's thread down.
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <stdlib.h>

enum { OPEN_ROOT_PART = 16 };
#define OPEN_LOG_NS 1000000000u

struct km_user {
    struct km_user *next;
    uint64_t count;
    uint32_t uid;
};

static struct km_user **open_find(struct km *m, uint32_t uid)
{
    struct km_user **at = &m->open.users[uid % KM_USERS];

    while (*at != NULL && (*at)->uid != uid)
        at = &(*at)->next;
    return at;
}

static uint64_t open_user_max(const struct km_config *c)
{
    return c->user_open_files != 0 ? c->user_open_files : c->open_files / 2;
}

/* A line of each kind once a second at most; the lock is held. */
static void open_log(struct km *m, uint32_t uid, int error)
{
    struct km_open_count *o = &m->open;
    int kind = error == EMFILE ? 0 : 1;
    uint64_t refused = kind == 0 ? o->refused_user : o->refused_all;
    uint64_t now = snic_loop_clock(m->loop);

    if (o->logged_ns[kind] != 0 && now - o->logged_ns[kind] < OPEN_LOG_NS)
        return;
    if (kind == 0)
        ex_log(EX_WARNING,
               "user %u has %llu files open, the most for one user: raise --user-open-files "
               "(refused since the last such line: %llu)",
               uid, (unsigned long long)open_user_max(m->config),
               (unsigned long long)(refused - o->logged[kind]));
    else
        ex_log(EX_WARNING,
               "%llu files are open, the most%s: raise --open-files (refused since the last such "
               "line: %llu)",
               (unsigned long long)o->count, uid == 0 ? "" : " but for root",
               (unsigned long long)(refused - o->logged[kind]));
    o->logged[kind] = refused;
    o->logged_ns[kind] = now;
}

/* @return 0; EMFILE, ENFILE, ENOMEM */
static int open_take(struct km *m, uint32_t uid)
{
    struct km_open_count *o = &m->open;
    uint64_t max = m->config->open_files;
    struct km_user **at = open_find(m, uid);

    if (uid != 0)
        max -= max / OPEN_ROOT_PART;
    if (uid != 0 && *at != NULL && (*at)->count >= open_user_max(m->config)) {
        o->refused_user++;
        return EMFILE;
    }
    if (o->count >= max) {
        o->refused_all++;
        return ENFILE;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL)
            return ENOMEM;
        (*at)->uid = uid;
    }
    (*at)->count++;
    o->count++;
    return 0;
}

int km_open_take(struct km_call *c)
{
    struct km *m = c->m;
    int error;

    pthread_mutex_lock(&m->open.lock);
    error = open_take(m, c->r.op.cred.uid);
    if (error == EMFILE || error == ENFILE)
        open_log(m, c->r.op.cred.uid, error);
    pthread_mutex_unlock(&m->open.lock);
    c->opens = error == 0;
    return error;
}

void km_open_give(struct km *m, uint32_t uid)
{
    struct km_user **at;

    pthread_mutex_lock(&m->open.lock);
    at = open_find(m, uid);
    if (*at != NULL) {
        struct km_user *u = *at;

        m->open.count--;
        if (--u->count == 0) {
            *at = u->next;
            free(u);
        }
    }
    pthread_mutex_unlock(&m->open.lock);
}

size_t km_open_metrics(struct km *m, struct ex_metric *out)
{
    pthread_mutex_lock(&m->open.lock);
    const struct ex_metric all[] = {
        {"open_files", m->open.count, 0},
        {"open_refused_user", m->open.refused_user, 1}, /* EMFILE */
        {"open_refused_all", m->open.refused_all, 1},   /* ENFILE */
    };
    pthread_mutex_unlock(&m->open.lock);
    for (size_t i = 0; i < SNIC_COUNTOF(all); i++)
        out[i] = all[i];
    return SNIC_COUNTOF(all);
}
