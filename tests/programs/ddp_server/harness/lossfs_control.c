/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lossfs_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOSSFS_WORDS = 8, LOSSFS_LINE = 512 };

static void lossfs_control_lose(char *const *word, char *out, size_t size)
{
    struct lossfs_random r = {strtoull(word[1], NULL, 10)};
    struct lossfs_loss sum = {0, 0, 0};
    uint32_t keep = (uint32_t)strtoul(word[2], NULL, 10);
    uint32_t torn = (uint32_t)strtoul(word[3], NULL, 10);
    lossfs_fault_power(&lossfs.faults, 0);
    for (struct lossfs_node *n = lossfs.root.next; n != &lossfs.root; n = n->next) {
        if (n->loaded)
            lossfs_file_lose(&n->file, &r, keep, torn, &sum);
    }
    size_t names = lossfs_names_lose(&r);
    (void)snprintf(out, size, "ok kept=%llu torn=%llu lost=%llu names=%zu\n",
                   (unsigned long long)sum.kept, (unsigned long long)sum.torn,
                   (unsigned long long)sum.lost, names);
}

static void lossfs_control_stats(char *out, size_t size)
{
    size_t dirty = 0, ghosts = 0;
    const struct lossfs_faults *f = &lossfs.faults;
    for (struct lossfs_node *n = lossfs.root.next; n != &lossfs.root; n = n->next) {
        dirty += n->loaded ? lossfs_file_dirty(&n->file) : 0;
        ghosts += n->loaded ? lossfs_file_ghosts(&n->file) : 0;
    }
    (void)snprintf(out, size,
                   "ok dirty=%zu ghosts=%zu names=%zu reads=%llu writes=%llu fsyncs=%llu "
                   "failed=%llu\n",
                   dirty, ghosts, lossfs_names_pending(), (unsigned long long)f->ops[LOSSFS_READ],
                   (unsigned long long)f->ops[LOSSFS_WRITE],
                   (unsigned long long)f->ops[LOSSFS_FSYNC],
                   (unsigned long long)(f->failed[LOSSFS_READ] + f->failed[LOSSFS_WRITE] +
                                        f->failed[LOSSFS_FSYNC]));
}

static void lossfs_control_drop(void)
{
    for (struct lossfs_node *n = lossfs.root.next; n != &lossfs.root; n = n->next) {
        if (n->loaded)
            lossfs_file_drop(&n->file);
    }
}

static void lossfs_control_run(char *line, char *out, size_t size)
{
    char *word[LOSSFS_WORDS] = {NULL}, *rest = line;
    size_t words = 0;
    while (words < LOSSFS_WORDS && (word[words] = strtok_r(rest, " \r\n", &rest)) != NULL)
        words++;
    (void)snprintf(out, size, "ok\n");
    int r = words == 0 ? 1 : lossfs_fault_command(&lossfs.faults, word, words);
    if (r == 1 && words == 4 && strcmp(word[0], "lose") == 0)
        lossfs_control_lose(word, out, size);
    else if (r == 1 && words == 2 && strcmp(word[0], "power") == 0)
        lossfs_fault_power(&lossfs.faults, strcmp(word[1], "on") == 0);
    else if (r == 1 && words == 2 && strcmp(word[0], "names") == 0)
        lossfs.strict_names = strcmp(word[1], "strict") == 0;
    else if (r == 1 && words == 1 && strcmp(word[0], "drop") == 0)
        lossfs_control_drop();
    else if (r == 1 && words == 1 && strcmp(word[0], "stats") == 0)
        lossfs_control_stats(out, size);
    else if (r != 0)
        (void)snprintf(out, size, "error: unknown command or bad arguments\n");
}

static void *lossfs_control(void *listener)
{
    int fd = (int)(intptr_t)listener;
    for (;;) {
        int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        FILE *f = c < 0 ? NULL : fdopen(c, "r+");
        char line[LOSSFS_LINE], out[LOSSFS_LINE];
        while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
            (void)pthread_mutex_lock(&lossfs.lock);
            lossfs_control_run(line, out, sizeof(out));
            (void)pthread_mutex_unlock(&lossfs.lock);
            if (send(c, out, strlen(out), MSG_NOSIGNAL) < 0)
                break;
        }
        if (f != NULL)
            (void)fclose(f);
    }
    return NULL;
}

int lossfs_control_start(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    pthread_t t;
    if (strlen(path) >= sizeof(a.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(a.sun_path, path, strlen(path) + 1);
    (void)unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 8) != 0)
        return -1;
    errno = pthread_create(&t, NULL, lossfs_control, (void *)(intptr_t)fd);
    return errno == 0 ? 0 : -1;
}
