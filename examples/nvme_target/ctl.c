/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* `nvme_target ctl`: sends a command to the target's socket and prints the answer. */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path = "nvme_target.sock";
static uint64_t seconds = 60;

static int ctl_connect(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (path[0] == 0 || strlen(path) >= sizeof(a.sun_path))
        ex_usage("--socket '%s': the path of a socket has 1 to %zu bytes", path,
                 sizeof(a.sun_path) - 1);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    int fd = ex_connect((struct sockaddr *)&a, sizeof(a), seconds);
    if (fd < 0)
        ex_die("cannot connect to %s (--socket): %s", path, strerror(errno));
    return fd;
}

static void ctl_send(int fd, const struct tg_text *line)
{
    for (size_t at = 0; at < line->size;) {
        ssize_t n = send(fd, line->data + at, line->size - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) /* a socket with a timeout ends so when ctl was stopped */
            continue;
        if (n < 0)
            return; /* an answer may be there all the same */
        at += (size_t)n;
    }
}

/* Everything until the target ends the connection. */
static void ctl_answer(int fd, struct tg_text *out)
{
    char part[4096];
    ssize_t n;
    while ((n = recv(fd, part, sizeof(part), 0)) > 0 || (n < 0 && errno == EINTR))
        tg_text_add(out, "%.*s", n > 0 ? (int)n : 0, part);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        ex_die("%s: no answer for %u seconds (--timeout); the command may yet take effect", path,
               (unsigned)seconds);
    if (out->failed)
        ex_die("out of memory for the answer of %s", path);
}

static int ctl_print(struct tg_text *out)
{
    char *last = out->data;
    if (out->size == 0 || out->data[out->size - 1] != '\n')
        ex_die("%s: the target ended the connection without an answer: it was stopped, or has too "
               "many clients of ctl",
               path);
    out->data[out->size - 1] = 0;
    if (strrchr(out->data, '\n') != NULL)
        last = strrchr(out->data, '\n') + 1;
    if (last != out->data)
        printf("%.*s", (int)(last - out->data), out->data);
    if (fflush(stdout) != 0)
        ex_die("cannot write: %s", strerror(errno));
    if (strcmp(last, "ok") == 0)
        return 0;
    ex_die("%s: %s", path, strncmp(last, "error: ", 7) == 0 ? last + 7 : last);
}

int tg_ctl(int argc, char **argv)
{
    static char summary[4096];
    static const struct ex_option table[] = {
        {"socket", EX_TEXT, &path, "PATH", "the target's --socket (nvme_target.sock)", 0, 0, NULL},
        {"timeout", EX_NUMBER, &seconds, "SECONDS", "wait so long for an answer (60)", 1, 86400,
         NULL},
    };
    struct tg_text line = {0}, out = {0};
    int options = 1;
    (void)snprintf(summary, sizeof(summary),
                   "nvme_target ctl: change a target that serves. A change is in effect and saved "
                   "when it is answered.\n\n%s",
                   tg_commands);
    ex_synopsis = "ctl [OPTION]... COMMAND [WORD]...";
    while (options < argc && strncmp(argv[options], "--", 2) == 0)
        options += strchr(argv[options], '=') != NULL || strcmp(argv[options], "--help") == 0 ||
                           strcmp(argv[options], "--version") == 0
                       ? 1
                       : 2;
    ex_options(options < argc ? options : argc, argv, table, SNIC_COUNTOF(table), summary);
    if (options >= argc)
        ex_usage("a command is missing");
    for (int i = options; i < argc; i++) {
        if (strpbrk(argv[i], "\n\r") != NULL)
            ex_usage("'%s' has more than one line", argv[i]);
        tg_text_word(&line, "", argv[i]);
    }
    tg_text_add(&line, "\n");
    int fd = ctl_connect();
    ctl_send(fd, &line);
    ctl_answer(fd, &out);
    (void)close(fd);
    int r = ctl_print(&out);
    tg_text_free(&line);
    tg_text_free(&out);
    return r;
}
