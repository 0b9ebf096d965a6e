/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A main for fuzz targets without libFuzzer: runs the target once on the empty
 * input and once on every file named on the command line or found (not
 * recursively) in a directory named there, in name order. Each input is an
 * exact-size heap block, so that a sanitizer sees a read past its end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static unsigned long standalone_runs;

static void standalone_die(const char *what, const char *path) __attribute__((noreturn));

static void standalone_die(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s\n", what, path);
    exit(1);
}

static void standalone_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    long size = 0;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0)
        standalone_die("cannot read", path);
    rewind(f);
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size)
        standalone_die("cannot read", path);
    fclose(f);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    standalone_runs++;
}

static int standalone_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void standalone_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    int count;

    if (stat(path, &st) != 0)
        standalone_die("no such file or directory", path);
    if (!S_ISDIR(st.st_mode)) {
        standalone_file(path);
        return;
    }
    count = scandir(path, &entries, standalone_visible, alphasort);
    if (count <= 0)
        standalone_die("no input in", path);
    for (int i = 0; i < count; i++) {
        char full[4096];
        int n = snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name);

        if (n < 0 || (size_t)n >= sizeof(full))
            standalone_die("path too long in", path);
        standalone_file(full);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];

    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE_OR_DIRECTORY...\n", argv[0]);
        return 1;
    }
    (void)LLVMFuzzerTestOneInput(nothing, 0);
    for (int i = 1; i < argc; i++)
        standalone_path(argv[i]);
    printf("%lu inputs\n", standalone_runs);
    return 0;
}
