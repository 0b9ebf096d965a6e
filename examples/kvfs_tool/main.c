/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_tool: looks after the file system in a store, without mounting it.
 *
 *     kvfs_tool mkfs --store lmdb:/var/lib/kvfs
 *
 * Exit code: 0 done; 1 failed; 2 a mistake on the command line. Those of fsck are fsck(8)'s: 0
 * clean, 1 mended, 4 damaged, 8 not checked, 16 a mistake on the command line.
 */
#include "fsck.h"
#include "tool.h"

#include "../common.h"
#include "../version.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOOL_FORCE = 1, TOOL_REPAIR = 2, TOOL_DATA = 4, TOOL_GROUP = 8, TOOL_ANY = 16 };

static const struct {
    const char *name;
    int (*run)(struct kt *t);
    const char *args[3]; /* what they are; "[...]": may be left out */
    int options;         /* its own, besides those of all           */
    const char *help;
} commands[] = {
    {"mkfs", kt_mkfs, {NULL}, TOOL_FORCE, "make a file system; --force: also over an existing one"},
    {"fsck",
     kt_fsck,
     {NULL},
     TOOL_FORCE | TOOL_REPAIR | TOOL_DATA,
     "check it; --repair: repair it, --data: read all bytes,\n           --force: check it "
     "although it is mounted;\n           --repair --force: repair it although it is unknown "
     "whether it is"},
    {"dump", kt_dump, {NULL}, TOOL_GROUP, "every record as text; --group N: those of one inode"},
    {"load",
     kt_load,
     {"FOLDER", "[PATH]"},
     0,
     "FOLDER [PATH]: copy the contents of a folder of this host into PATH (default /), which\n     "
     "      must exist; directories may exist, an existing file is an error"},
    {"stats", kt_stats, {NULL}, 0, "count inodes, records and bytes"},
    {"ls", kt_ls, {"[PATH]"}, 0, "[PATH]: list a directory"},
    {"cat", kt_cat, {"PATH"}, 0, "PATH: print a file"},
    {"stat", kt_stat, {"PATH"}, 0, "PATH: print its attributes"},
};

/* ---- A new file system ---- */

int kt_mkfs(struct kt *t)
{
    struct snic_kvfs_mkfs o = {.force = (uint32_t)t->force};
    struct snic_rng rng;
    uint64_t mounts = 0;
    int status;
    int rc;

    t->s.create = 1;
    status = kt_open(t, 0);
    if (status != 0)
        return status;
    rc = t->force ? kt_in_use(t, &mounts) : 0;
    if (rc != 0) {
        ex_log(EX_ERROR, "%s: cannot find out whether it is mounted: %s", t->s.spec,
               snic_strerror(rc));
        return 1;
    }
    if (mounts != 0) {
        ex_log(EX_ERROR, "%s is mounted: unmount it first", t->s.spec);
        return 1;
    }
    snic_rng_init(&rng, (uint64_t)kvfs_store_wall(NULL) ^ ((uint64_t)getpid() << 40));
    snic_rng_fill(&rng, o.uuid, sizeof(o.uuid));
    rc = snic_fs_mkfs(t->s.fs, &o);
    if (rc == SNIC_EEXIST)
        ex_log(EX_ERROR,
               "%s holds a file system already (--force makes a new one, and the files of the old "
               "one are lost)",
               t->s.spec);
    else if (rc != 0)
        ex_log(EX_ERROR, "cannot make a file system in %s: %s", t->s.spec, snic_strerror(rc));
    if (rc != 0)
        return 1;
    (void)printf("%s: made a file system, uuid ", t->s.spec);
    for (size_t i = 0; i < sizeof(o.uuid); i++)
        (void)printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", o.uuid[i]);
    (void)putchar('\n');
    return 0;
}

/* ---- The command line ---- */

static void tool_usage(FILE *to)
{
    (void)fprintf(to, "Manage the file system in a store.\n\n"
                      "Usage: kvfs_tool COMMAND --store STORE [OPTION]... [ARGUMENT]...\n\n");
    for (size_t i = 0; i < SNIC_COUNTOF(commands); i++)
        (void)fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    (void)fprintf(to,
                  "\n  --store lmdb:PATH|rados:CONF:POOL[:NAMESPACE]\n"
                  "           the store of the file system\n"
                  "  --quiet  no progress on stderr\n"
                  "  --cache-size BYTES\n"
                  "           of records in memory; default 16M\n"
                  "  --help   print this and exit\n"
                  "  --version\n"
                  "           print the version and exit\n\n"
                  "Exit code: 0 done, 1 failed, 2 a mistake on the command line; of fsck as of\n"
                  "fsck(8): 0 clean, 1 mended, 4 damaged, 8 not checked, 16 a mistake on the\n"
                  "command line.\n");
}

static int tool_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == 0 && text[0] != '-' ? 0 : -1;
}

static int tool_bad(const char *command, const char *format, ...) SNIC_PRINTF(2, 3);
static int tool_bad(const char *command, const char *format, ...)
{
    va_list ap;

    (void)fprintf(stderr, "kvfs_tool: %s: ", command);
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fprintf(stderr, " (see --help)\n");
    return -1;
}

static const struct {
    const char *name;
    int bit; /* TOOL_* */
    int valued;
} options[] = {{"--force", TOOL_FORCE, 0},    {"--repair", TOOL_REPAIR, 0},
               {"--data", TOOL_DATA, 0},      {"--quiet", TOOL_ANY, 0},
               {"--group", TOOL_GROUP, 1},    {"--store", TOOL_ANY, 1},
               {"--cache-size", TOOL_ANY, 1}, {"--cache-mb", TOOL_ANY, 1}};

static int tool_value(struct kt *t, const char *command, const char *name, const char *value)
{
    if (strcmp(name, "--store") == 0)
        return kvfs_store_parse(&t->s.spec, value) == 0
                   ? 0
                   : tool_bad(command, "--store: '%s' is not one of %s", value, KVFS_STORE_NAMES);
    if (strcmp(name, "--group") == 0) {
        t->one_group = 1;
        return tool_number(value, &t->group) == 0
                   ? 0
                   : tool_bad(command, "--group: '%s' is not a number", value);
    }
    if (strcmp(name, "--cache-mb") == 0)
        return tool_bad(command, "--cache-mb was renamed: use --cache-size");
    if (ex_number(value, 1, &t->s.cache_bytes) != 0 || t->s.cache_bytes > UINT64_C(1) << 40)
        return tool_bad(command, "--cache-size: '%s' is not a size between 0 and 1T", value);
    return 0;
}

/* The option at argv[*i]; *i moves behind it. @return 0; -1: the error is printed */
static int tool_option(struct kt *t, size_t command, char **argv, int *i)
{
    int *const targets[] = {&t->force, &t->repair, &t->data, &t->quiet};
    const char *who = commands[command].name;
    char *name = argv[*i], *equals = strchr(name, '=');
    const char *value = equals != NULL ? equals + 1 : argv[*i + 1];
    size_t o = 0;

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        tool_usage(stdout);
        exit(0);
    }
    if (equals != NULL)
        *equals = 0;
    while (o < SNIC_COUNTOF(options) && strcmp(name, options[o].name) != 0)
        o++;
    if (o == SNIC_COUNTOF(options))
        return tool_bad(who, "unknown option '%s'", name);
    if ((options[o].bit & (commands[command].options | TOOL_ANY)) == 0)
        return tool_bad(who, "%s is not an option of this command", name);
    *i += 1;
    if (!options[o].valued && equals != NULL)
        return tool_bad(who, "%s takes no value, but has '%s'", name, value);
    if (!options[o].valued) {
        *targets[o] = 1;
        return 0;
    }
    if (value == NULL)
        return tool_bad(who, "%s needs a value", name);
    *i += equals == NULL;
    return tool_value(t, who, name, value);
}

static int tool_args(const struct kt *t, size_t command)
{
    const char *const *args = commands[command].args;
    int most = 0;

    while (args[most] != NULL) {
        if (most >= t->argc && args[most][0] != '[')
            return tool_bad(commands[command].name, "argument %s is missing", args[most]);
        most++;
    }
    if (t->argc == most + 1)
        return tool_bad(commands[command].name, "one argument too many: '%s'", t->argv[most]);
    if (t->argc > most)
        return tool_bad(commands[command].name, "%d arguments too many, from '%s' on",
                        t->argc - most, t->argv[most]);
    return 0;
}

static int tool_parse(struct kt *t, size_t command, int argc, char **argv)
{
    t->argv = argv;
    for (int i = 2; i < argc;) {
        if (argv[i][0] != '-' || argv[i][1] == 0)
            t->argv[t->argc++] = argv[i++];
        else if (tool_option(t, command, argv, &i) != 0)
            return -1;
    }
    if (tool_args(t, command) != 0)
        return -1;
    if (t->s.spec == NULL)
        return tool_bad(commands[command].name,
                        "--store is missing: it names the store of the file system");
    if (strcmp(t->s.spec, "mem") == 0)
        return tool_bad(commands[command].name,
                        "--store mem: exists only while kvfs_mount has it mounted");
    return 0;
}

static int tool_end(struct kt *t, int status, int fsck)
{
    kt_progress_end(t);
    kvfs_store_close(&t->s);
    if (t->s.loop != NULL)
        snic_loop_close(t->s.loop);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "kvfs_tool: cannot write to stdout: %s\n", strerror(errno));
        return fsck ? FSCK_ERROR : 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct kt t = {.quiet = !isatty(STDERR_FILENO)};
    size_t i = 0;
    int fsck;

    ex_log_set(EX_INFO, NULL);
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        tool_usage(stdout);
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        ex_version("kvfs_tool");
        return 0;
    }
    while (argc >= 2 && i < SNIC_COUNTOF(commands) && strcmp(argv[1], commands[i].name) != 0)
        i++;
    if (argc < 2 || i == SNIC_COUNTOF(commands)) {
        if (argc >= 2)
            (void)fprintf(stderr, "kvfs_tool: unknown command '%s'\n\n", argv[1]);
        tool_usage(stderr);
        return 2;
    }
    fsck = commands[i].run == kt_fsck;
    if (tool_parse(&t, i, argc, argv) != 0)
        return fsck ? FSCK_USAGE : 2;
    return tool_end(&t, commands[i].run(&t), fsck);
}
