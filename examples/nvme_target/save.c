/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Files that are replaced as a whole. A thread writes them, one after the other in the order of the
 * calls, so that no disk delays the loop: the new content beside the file, fsync, rename, fsync of
 * the folder; only then done.
 */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    struct snic_loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tg_file *first; /* under the lock, as the following */
    struct tg_file **last;
    int end;
    uint32_t inside; /* the loop's: not done yet */
} save = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int save_bytes(int fd, const char *p, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        }
    }
    return fsync(fd);
}

/* @return 0; -1 errno */
static int save_replace(const struct tg_file *f)
{
    char beside[PATH_MAX];
    struct stat s;
    mode_t mode = stat(f->path, &s) == 0 ? s.st_mode & 0777 : 0600;
    if ((size_t)snprintf(beside, sizeof(beside), "%s.new", f->path) >= sizeof(beside)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int r = fchmod(fd, mode);
    if (r == 0)
        r = save_bytes(fd, f->data, f->size);
    int error = errno;
    if (close(fd) != 0 && r == 0) {
        error = errno;
        r = -1;
    }
    if (r == 0 && (r = rename(beside, f->path)) != 0)
        error = errno;
    if (r != 0) {
        (void)unlink(beside);
        errno = error;
        return -1;
    }
    return ex_folder_sync(f->path);
}

static int save_remove(const struct tg_file *f)
{
    if (unlink(f->path) != 0)
        return errno == ENOENT ? 0 : -1;
    return ex_folder_sync(f->path);
}

static void save_done(struct snic_loop_msg *msg)
{
    struct tg_file *f = SNIC_CONTAINER(msg, struct tg_file, msg);
    save.inside--;
    f->done(f);
}

static void *save_run(void *arg)
{
    (void)arg;
    for (;;) {
        (void)pthread_mutex_lock(&save.lock);
        while (save.first == NULL && !save.end)
            (void)pthread_cond_wait(&save.changed, &save.lock);
        struct tg_file *f = save.first;
        if (f != NULL && (save.first = f->next) == NULL)
            save.last = &save.first;
        (void)pthread_mutex_unlock(&save.lock);
        if (f == NULL)
            return NULL;
        int r = f->data != NULL ? save_replace(f) : save_remove(f);
        f->os_error = r == 0 ? 0 : errno;
        snic_loop_post(save.loop, &f->msg);
    }
}

void tg_files_begin(struct snic_loop *loop)
{
    save.loop = loop;
    save.last = &save.first;
    int r = pthread_create(&save.thread, NULL, save_run, NULL);
    if (r != 0)
        ex_die("cannot start a thread: %s", strerror(r));
}

int tg_file_now(const struct tg_file *f)
{
    return save_replace(f);
}

void tg_file_write(struct tg_file *f)
{
    f->msg.fn = save_done;
    f->next = NULL;
    save.inside++;
    (void)pthread_mutex_lock(&save.lock);
    *save.last = f;
    save.last = &f->next;
    (void)pthread_cond_signal(&save.changed);
    (void)pthread_mutex_unlock(&save.lock);
}

void tg_files_end(void)
{
    (void)pthread_mutex_lock(&save.lock);
    save.end = 1;
    (void)pthread_cond_signal(&save.changed);
    (void)pthread_mutex_unlock(&save.lock);
    (void)pthread_join(save.thread, NULL);
    while (save.inside > 0)
        if (snic_loop_once(save.loop, SNIC_NEVER) < 0)
            break;
}
