/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small text file beside the logs names the cluster, node and shards that they belong to, so that
 * a directory that is another's, or options that have changed, are found before a log is opened.
 */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IDENTITY_VERSION 1
#define IDENTITY_MAX 256

struct identity {
    unsigned version;
    unsigned long long cluster;
    unsigned long long node;
    unsigned long long shards;
};

static void identity_check(const struct ds_config *c, const char *path, const char *text)
{
    struct identity i;

    if (sscanf(text, "ddp_server %u\ncluster %llu\nnode %llu\nshards %llu\n", &i.version,
               &i.cluster, &i.node, &i.shards) != 4)
        ex_die("--dir: '%s' is not a file of ddp_server: use another directory", path);
    if (i.version != IDENTITY_VERSION)
        ex_die("--dir: '%s' was written by another version of ddp_server (format %u, this one has "
               "%d)",
               path, i.version, IDENTITY_VERSION);
    if (i.cluster != c->cluster)
        ex_die("--dir: '%s' has logs of another cluster (%llu), not of --cluster %llu",
               c->server.directory, i.cluster, (unsigned long long)c->cluster);
    if (i.node != c->node)
        ex_die("--dir: '%s' has logs of node %llu, not of --node %llu", c->server.directory, i.node,
               (unsigned long long)c->node);
    if (i.shards != c->shards)
        ex_die("--shards: '%s' has logs of %llu shards; the number cannot be changed",
               c->server.directory, i.shards);
}

/* Write the file whole and durably, or not at all. 0; -1 errno */
static int identity_write(const struct ds_config *c, const char *path)
{
    char temporary[4200];
    char text[IDENTITY_MAX];
    int size;
    int fd;
    int ok;

    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    size = snprintf(text, sizeof(text), "ddp_server %d\ncluster %llu\nnode %llu\nshards %llu\n",
                    IDENTITY_VERSION, (unsigned long long)c->cluster, (unsigned long long)c->node,
                    (unsigned long long)c->shards);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return -1;
    ok = write(fd, text, (size_t)size) == size && fdatasync(fd) == 0;
    (void)close(fd);
    return ok && rename(temporary, path) == 0 && ex_folder_sync(path) == 0 ? 0 : -1;
}

void ds_identity_check(const struct ds_config *c)
{
    char path[4100];
    char text[IDENTITY_MAX + 1];
    ssize_t n;
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/identity", c->server.directory) >= sizeof(path))
        ex_die("--dir: the path is too long");
    fd = open(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT) {
        if (identity_write(c, path) != 0)
            ex_die("cannot write '%s' (--dir): %s", path, strerror(errno));
        return;
    }
    if (fd < 0)
        ex_die("cannot read '%s' (--dir): %s", path, strerror(errno));
    n = read(fd, text, IDENTITY_MAX);
    (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    identity_check(c, path, text);
}
