/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The command line. It is also that of mount(8) and fstab, which call a program of FUSE
 * with source, mount point and one -o: kvfs_mount lmdb:/srv/kvfs /mnt -o rw,noatime,cache_size=64M.
 */
#include "mount.h"

#include "../common.h"
#include "../version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 32 };

void km_wrong(const char *what)
{
    fprintf(stderr, "kvfs_mount: %s (--help lists the options)\n", what);
    exit(KM_USAGE);
}

/* Of two processes. @return how many */
static size_t options_processes(struct km_config *c, struct ex_option *out)
{
    const struct ex_option options[] = {
        {"two-process", EX_FLAG, &c->two_process, NULL,
         "the file system in a process of its own; one that dies, or does not respond for 30 s "
         "while requests wait, is replaced",
         0, 0, NULL},
        {"link", EX_TEXT, &c->link, "ring|nvmefs",
         "between the two: messages in rings, the default, or commands of nvme-fs (DPC, section "
         "3.2) through queue pairs, 255 at a time beside locks that wait",
         0, 0, NULL},
        {"role", EX_TEXT, &c->role, "dpu|host",
         "play one role only; --link, --cache-size, --cache-writeback and --prefetch are the same "
         "for "
         "both",
         0, 0, NULL},
        {"socket", EX_TEXT, &c->socket, "PATH", "between the roles", 0, 0, NULL},
    };

    memcpy(out, options, sizeof(options));
    return SNIC_COUNTOF(options);
}

/* @return how many */
static size_t options_table(struct km_config *c, struct ex_option *out)
{
    const struct ex_option options[] = {
        {"store", EX_PARSE, &c->store, KVFS_STORE_NAMES,
         "where it lives; default mem: gone when it is unmounted. What is deleted on lmdb goes "
         "back "
         "to the disk where 16 MiB in a row are free, not while other mounts have the store, and "
         "the "
         "last 64 MiB of it at unmount",
         0, 0, kvfs_store_parse},
        {"mkfs", EX_FLAG, &c->mkfs, NULL, "make a file system if the store holds none", 0, 0, NULL},
        {"exclusive", EX_FLAG, &c->exclusive, NULL,
         "no other mount may have the store open: the kernel keeps names and attributes as long as "
         "it likes",
         0, 0, NULL},
        {"kernel-writeback", EX_FLAG, &c->writeback, NULL,
         "the kernel gathers writes: small ones are faster, but st_blocks and atime are those "
         "before what "
         "it holds, errors come at fsync, and once a file that may be written to was searched for "
         "holes none is found in any; with --exclusive",
         0, 0, NULL},
        {"cache-size", EX_SIZE, &c->cache_bytes, "BYTES",
         "of records in memory, default 16M; with --two-process of the files' bytes, in the host's "
         "memory, before the link (DPC's hybrid cache, section 3.3), default none. Those are used "
         "while no other mount has the store",
         1u << 20, UINT64_C(1) << 40, NULL},
        {"cache-writeback", EX_FLAG, &c->write_back, NULL,
         "writes stay there for a moment: fsync and close wait until the file system has them, and "
         "answer what became of them (no space); else they go to both; with --cache-size",
         0, 0, NULL},
        {"prefetch", EX_FLAG, &c->prefetch, NULL,
         "what is read in sequence is brought there in advance; with --cache-size", 0, 0, NULL},
        {"records-size", EX_SIZE, &c->records_bytes, "BYTES",
         "with --two-process: of records in memory; default 16M", 1u << 20, UINT64_C(1) << 40,
         NULL},
        {"threads", EX_NUMBER, &c->threads, "N",
         "readers of /dev/fuse; 0, the default: the file system's own thread", 0, 256, NULL},
        {"fuse", EX_TEXT, &c->fuse, "libfuse|dev",
         "reader of /dev/fuse: libfuse, the default, or our own codec, one thread", 0, 0, NULL},
        {"attr-timeout", EX_NUMBER, &c->timeout, "SECONDS",
         "the kernel keeps names and attributes so long while no other mount has the store; "
         "default 60 (1 where the kernel cannot be notified of changes by others)",
         0, 86400, NULL},
        {"open-files", EX_NUMBER, &c->open_files, "N",
         "most open at once, folders too (ENFILE; the last sixteenth is root's); default 262144",
         KM_OPEN_FILES_LEAST, KM_OPEN_FILES_MOST, NULL},
        {"user-open-files", EX_NUMBER, &c->user_open_files, "N",
         "most of one user but root (EMFILE); default half of those", 1, KM_OPEN_FILES_MOST, NULL},
        {"f", EX_FLAG, &c->foreground, NULL,
         "stay in the foreground; else the log still goes to stderr", 0, 0, NULL},
        {"o", EX_TEXT, &c->options, "OPTIONS",
         "mount options: ro, noatime, nodiratime, relatime (the default), strictatime, lazytime, "
         "those of mount.fuse, and of these here, without --, all but -f, role and socket",
         0, 0, NULL},
        {"stats", EX_NUMBER, &c->stats, "SECONDS",
         "print a line of figures so often; of two processes each its own", 0, 86400, NULL},
        {"metrics", EX_TEXT, &c->metrics, "ADDRESS:PORT",
         "figures for Prometheus, at /metrics; of two processes the host's", 0, 0, NULL},
        {"spin", EX_NUMBER, &c->spin_us, "US",
         "busy-poll so long before sleeping; default 50; the host of two processes sleeps, 0", 0,
         1000000, NULL},
        {.name = "timeout", .kind = EX_RENAMED, .value = "attr-timeout"},
        {.name = "cache-mb", .kind = EX_RENAMED, .value = "cache-size"},
        {.name = "records-mb", .kind = EX_RENAMED, .value = "records-size"},
    };

    SNIC_STATIC_ASSERT(SNIC_COUNTOF(options) <= OPTIONS_MAX - 8, "there is room");
    memcpy(out, options, sizeof(options));
    return SNIC_COUNTOF(options) + options_processes(c, out + SNIC_COUNTOF(options));
}

/* ---- Words of -o ---- */

/* The first word of *@p list, without its comma; *list moves behind it. @return its size; 0: end */
static size_t options_word(const char **list, const char **word)
{
    size_t size;

    *list += strspn(*list, ",");
    *word = *list;
    size = strcspn(*list, ",");
    *list += size;
    return size;
}

static int options_is(const char *word, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(word, name, size) == 0;
}

/* Is the word one of the names? One that ends with '*' is a beginning. */
static int options_among(const char *word, size_t size, const char *const *names)
{
    for (; *names != NULL; names++) {
        size_t n = strlen(*names);

        if ((*names)[n - 1] == '*' ? size >= n - 1 && memcmp(word, *names, n - 1) == 0
                                   : options_is(word, size, *names))
            return 1;
    }
    return 0;
}

/* Options of this program, or of mount(8) and systemd; libfuse does not know them. */
static const char *const options_not_libfuse[] = {
    "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "atime",
    "diratime", "nodiratime", "defaults",    "auto",          "noauto",   "user",       "nouser",
    "users",    "owner",      "group",       "nofail",        "_netdev",  "comment=*",  "x-*",
    NULL};

void km_options_libfuse(const struct km_config *c, char *out, size_t room)
{
    const char *list = c->options;
    const char *word;
    size_t used = 0;
    size_t size;

    out[0] = 0;
    while (list != NULL && (size = options_word(&list, &word)) != 0) {
        if (options_among(word, size, options_not_libfuse))
            continue;
        if (used + size + 2 > room)
            km_wrong("-o: the list of options is too long");
        used += (size_t)snprintf(out + used, room - used, "%s%.*s", used > 0 ? "," : "", (int)size,
                                 word);
    }
}

/* What the file system itself has to know. */
static void options_own(struct km_config *c)
{
    static const char *const relative[] = {"relatime", "atime", "nostrictatime", NULL};
    const char *list = c->options;
    const char *word;
    size_t size;

    while (list != NULL && (size = options_word(&list, &word)) != 0) {
        if (options_is(word, size, "ro"))
            c->read_only = 1;
        else if (options_is(word, size, "rw"))
            c->read_only = 0;
        else if (options_is(word, size, "noatime"))
            c->atime = SNIC_KVFS_NO_ATIME;
        else if (options_is(word, size, "strictatime"))
            c->atime = SNIC_KVFS_STRICT_ATIME;
        else if (options_among(word, size, relative))
            c->atime = 0;
        else if (options_is(word, size, "nodiratime"))
            c->diratime = SNIC_KVFS_NO_DIRATIME;
        else if (options_is(word, size, "diratime"))
            c->diratime = 0;
        else if (options_is(word, size, "remount"))
            km_wrong(
                "-o remount is not supported: unmount it, and mount it again with the new options");
    }
}

/* ---- Arguments ---- */

struct options_line {
    char **out; /* as ex_options() wants them */
    int n;
    char *rest; /* of -o, for libfuse */
    struct ex_option table[OPTIONS_MAX];
    size_t count;
};

static void *options_take(size_t size)
{
    void *p = malloc(size);

    if (p == NULL)
        ex_die("out of memory for the arguments");
    return p;
}

/* Names that meant something, and what is to be written instead. */
static void options_old(const char *name, size_t size)
{
    if (options_is(name, size, "writeback"))
        km_wrong("--writeback does not exist: use --kernel-writeback for the kernel's cache, "
                 "--cache-writeback for the hybrid cache");
    if (options_is(name, size, "write-back") || options_is(name, size, "write_back"))
        km_wrong("--write-back does not exist: use --cache-writeback for the hybrid cache, "
                 "--kernel-writeback for the kernel's");
}

/* One of ours? Then it becomes --NAME or --NAME=VALUE. */
static int options_word_ours(struct options_line *l, const char *word, size_t size)
{
    size_t name = size;
    char *text = options_take(size + 3);

    for (size_t i = 0; i < size && name == size; i++)
        if (word[i] == '=')
            name = i;
    options_old(word, name);
    snprintf(text, size + 3, "--%.*s", (int)size, word);
    for (size_t i = 2; i < name + 2; i++)
        if (text[i] == '_')
            text[i] = '-';
    for (size_t i = 0; i < l->count; i++) {
        const char *known = l->table[i].name;

        if (name > 1 && options_is(text + 2, name, known) && strcmp(known, "role") != 0 &&
            strcmp(known, "socket") != 0) {
            l->out[l->n++] = text; /* for good */
            return 1;
        }
    }
    free(text);
    return 0;
}

static void options_list(struct options_line *l, const char *list)
{
    size_t used = strlen(l->rest);
    const char *word;
    size_t size;

    while ((size = options_word(&list, &word)) != 0) {
        if (options_word_ours(l, word, size))
            continue;
        if (used > 0)
            l->rest[used++] = ',';
        memcpy(l->rest + used, word, size); /* as long as all of -o together */
        used += size;
        l->rest[used] = 0;
    }
}

/* Does the word after this one belong to it? */
static int options_takes_value(const struct options_line *l, const char *word)
{
    const char *name = word + strspn(word, "-");

    if (strchr(word, '=') != NULL || strcmp(name, "help") == 0 || strcmp(word, "-h") == 0)
        return 0;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->table[i].name, name) == 0)
            return l->table[i].kind != EX_FLAG;
    return 1; /* ex_options() refuses it */
}

/* Source and mount point, as mount(8) names them, or the mount point alone. */
static void options_place(struct km_config *c, struct options_line *l, char *word)
{
    static char store[] = "--store";
    const char *spec;

    if (c->mountpoint == NULL) {
        c->mountpoint = word;
        return;
    }
    if (kvfs_store_parse(&spec, c->mountpoint) != 0) {
        fprintf(stderr,
                "kvfs_mount: unexpected argument '%s', which is not a store (one mount point "
                "only): kvfs_mount " KVFS_STORE_NAMES " MOUNTPOINT\n",
                c->mountpoint);
        exit(KM_USAGE);
    }
    l->out[l->n++] = store;
    l->out[l->n++] = (char *)(uintptr_t)c->mountpoint;
    c->mountpoint = word;
}

/* Words that all -o have, and their characters. */
static size_t options_room(int argc, char **argv, size_t *bytes)
{
    size_t words = (size_t)argc + 8;

    *bytes = 1;
    for (int i = 1; i < argc; i++) {
        *bytes += strlen(argv[i]) + 1;
        for (const char *p = argv[i]; *p != 0; p++)
            words += *p == ',';
    }
    return words;
}

int km_arguments(struct km_config *c, int argc, char **argv, char ***out)
{
    static const char summary[] =
        "Mount a file system that lives in a key-value store: the DPU's work is done by a thread\n"
        "of this process or, with --two-process, by a process of its own behind a ring, or\n"
        "nvme-fs.\n"
        "For mount(8) and fstab the type is fuse.kvfs_mount, and STORE the device.";
    static char f[] = "--f";
    static char o[] = "--o";
    static struct options_line l; /* held until the process ends, also by a refusal */
    size_t bytes;

    l.count = options_table(c, l.table);
    l.out = calloc(options_room(argc, argv, &bytes), sizeof(*l.out));
    l.rest = options_take(bytes);
    if (l.out == NULL)
        ex_die("out of memory for the arguments");
    l.rest[0] = 0;
    l.out[l.n++] = argv[0];
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];

        if (strcmp(word, "--version") == 0) {
            ex_version("kvfs_mount");
            exit(0);
        }
        if (word[0] != '-') {
            options_place(c, &l, word);
        } else if ((strcmp(word, "-o") == 0 || strcmp(word, o) == 0) && i + 1 < argc) {
            options_list(&l, argv[++i]);
        } else {
            options_old(word + strspn(word, "-"), strlen(word + strspn(word, "-")));
            l.out[l.n++] = strcmp(word, "-f") == 0 ? f : word;
            if (i + 1 < argc && options_takes_value(&l, word))
                l.out[l.n++] = argv[++i];
        }
    }
    if (l.rest[0] != 0) {
        l.out[l.n++] = o;
        l.out[l.n++] = l.rest;
    }
    ex_synopsis = "[OPTION]... [STORE] MOUNTPOINT";
    ex_options(l.n, l.out, l.table, l.count, summary);
    options_own(c);
    *out = l.out;
    return l.n;
}

uint64_t km_tag(const struct km_config *c)
{
    return 1 | (uint64_t)c->nvmefs << 1 | (uint64_t)c->write_back << 2 |
           (uint64_t)c->prefetch << 3 | c->cache_bytes << 8;
}
