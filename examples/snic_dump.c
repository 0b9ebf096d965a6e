/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Show what lies in an image of the file service, damaged or not: superblocks, checkpoint slots,
 * journal entries with what mount would replay of them, directories, files with their segments,
 * free segments; then what the checker finds.
 *
 *     snic_dump [--all] IMAGE
 *
 * Exit code: 0 it was shown, 1 it is not an image or could not be read, 2 a mistake on the command
 * line.
 */
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "tool_image.h"
#include "version.h"

static const char usage[] =
    "Show the contents of an image of the file service, which no process may have open:\n"
    "superblocks, checkpoints, journal, files with their segments, free segments, and what is "
    "wrong.\n\n"
    "Usage: snic_dump [--all] IMAGE\n\n"
    "  --all      also whole checkpoint chunks, and journal entries that mount does not replay\n"
    "  --help     print this and exit\n"
    "  --version  print the version and exit\n\n"
    "Exit code: 0 it was shown, 1 it is not an image or could not be read, 2 a mistake on the\n"
    "command line.\n";

struct dump {
    int all;
    int records; /* of the entry before */
};

static unsigned long long number(uint64_t v)
{
    return v;
}

/* A name as it may be printed: what is no plain character becomes \xNN. */
static const char *dump_name(const struct snic_files_item *it)
{
    static char text[4 * 255 + 1];
    size_t n = 0;
    uint32_t i;
    for (i = 0; i < it->name_size && n + 5 <= sizeof(text); i++) {
        unsigned char c = (unsigned char)it->name[i];
        if (c > ' ' && c < 0x7f && c != '\\')
            text[n++] = (char)c;
        else
            n += (size_t)snprintf(text + n, sizeof(text) - n, "\\x%02x", c);
    }
    text[n] = 0;
    return text;
}

static const char *dump_kind(uint32_t kind)
{
    return kind == SNIC_FILES_FILE ? "file" : kind == SNIC_FILES_DIR ? "directory" : "something";
}

static void dump_record(const struct snic_files_item *it)
{
    (void)printf("        %s", it->what);
    if (strcmp(it->what, "node") == 0)
        (void)printf(" %llu: %s %llx \"%s\" in %llx, %llu bytes\n", number(it->index),
                     dump_kind(it->kind), number(it->id), dump_name(it), number(it->parent),
                     number(it->size));
    else if (strcmp(it->what, "segment") == 0)
        (void)printf(" %llu: of %llx, its place %llu, %llu bytes written\n", number(it->index),
                     number(it->id), number(it->logical), number(it->size));
    else if (strcmp(it->what, "size") == 0)
        (void)printf(" of %llx: %llu bytes\n", number(it->id), number(it->size));
    else if (strcmp(it->what, "truncation") == 0)
        (void)printf(" of %llx: from place %llu on\n", number(it->id), number(it->logical));
    else
        (void)printf(" %llu, at byte %llu\n", number(it->index), number(it->place));
}

static void dump_meta(struct dump *d, const struct snic_files_item *it)
{
    int dull = it->error == 0 && !d->all;
    switch (it->part) {
    case SNIC_FILES_PART_SUPER:
        (void)printf("superblock %llu at byte %llu: %s", number(it->index), number(it->place),
                     it->what);
        if (it->error == 0)
            (void)printf(", image %llx of %llu bytes, %llu segments", number(it->id),
                         number(it->size), number(it->count));
        (void)printf("\n");
        break;
    case SNIC_FILES_PART_SLOT:
        (void)printf("slot %llu at byte %llu: %s", number(it->index), number(it->place), it->what);
        if (it->generation != 0)
            (void)printf(", generation %llu, %llu chunks, next id %llu, entries from %llu on",
                         number(it->generation), number(it->count), number(it->id),
                         number(it->sequence));
        (void)printf("\n");
        break;
    case SNIC_FILES_PART_CHUNK:
        if (!dull)
            (void)printf("    chunk %llu at byte %llu: %s, generation %llu\n", number(it->index),
                         number(it->place), it->what, number(it->generation));
        break;
    default:
        d->records = !dull || strcmp(it->what, "replayed") == 0;
        if (d->records)
            (void)printf("journal half %llu at byte %llu: entry %llu of generation %llu, %s, "
                         "%llu records, next id %llu\n",
                         number(it->index), number(it->place), number(it->sequence),
                         number(it->generation), it->what, number(it->count), number(it->id));
        break;
    }
}

static void item(void *ctx, const struct snic_files_item *it)
{
    struct dump *d = ctx;
    switch (it->part) {
    case SNIC_FILES_PART_RECORD:
        if (d->records)
            dump_record(it);
        break;
    case SNIC_FILES_PART_NODE:
        (void)printf("%s %llu: %llx \"%s\" in %llx, %llu bytes, %llu segments%s%s\n",
                     dump_kind(it->kind), number(it->index), number(it->id), dump_name(it),
                     number(it->parent), number(it->size), number(it->count),
                     it->error != 0 ? ", " : "", it->error != 0 ? it->what : "");
        break;
    case SNIC_FILES_PART_SEGMENT:
        (void)printf("    place %llu: segment %llu at byte %llu, %llu bytes written%s%s\n",
                     number(it->logical), number(it->index), number(it->place), number(it->size),
                     strcmp(it->what, "whole") != 0 ? ", " : "",
                     strcmp(it->what, "whole") != 0 ? it->what : "");
        break;
    case SNIC_FILES_PART_FREE:
        (void)printf("free: %llu segments from %llu on, at byte %llu\n", number(it->count),
                     number(it->index), number(it->place));
        break;
    default:
        dump_meta(d, it);
        break;
    }
}

static void finding(void *ctx, int error, const char *what, uint64_t n)
{
    (void)ctx;
    (void)printf("%s %s %llu\n", error != 0 ? "wrong:" : "found:", what, number(n));
}

int main(int argc, char **argv)
{
    struct tool_image m;
    struct dump d = {argc == 3 && strcmp(argv[1], "--all") == 0, 0};
    int rc;
    ex_output_must(1);
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        ex_version("snic_dump");
        return 0;
    }
    if (argc != 2 + d.all || argv[argc - 1][0] == '-') {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (tool_image_open(&m, "snic_dump", argv[argc - 1], SNIC_IO_OPEN_READONLY) != 0)
        return 1;
    rc = snic_files_walk(m.io, m.mem, m.size, item, &d);
    if (m.probed != SNIC_ENOENT &&
        snic_files_examine(m.io, m.mem, m.size, finding, NULL) == SNIC_EIO)
        rc = SNIC_EIO;
    if (m.probed != 0)
        tool_image_refused(&m);
    tool_image_close(&m);
    return m.probed != 0 || rc != 0;
}
