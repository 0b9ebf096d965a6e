/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the nodes of a cluster have in common: a text file (--config) with its number, addresses and
 * sizes, and a file with its key (--cluster-key), which `ddp_server found` makes. The file has a
 * line "NAME VALUE" for each of the options of cluster_lines; lines that begin with # are comments.
 */
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLUSTER_HEAD "ddp_server-cluster 1"
#define CLUSTER_LINE 2048
#define KEY_DIGITS (2 * DS_CLUSTER_KEY)

/* ---- The key ---- */

static int cluster_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ds_hex_read(const char *text, size_t size, unsigned char *out)
{
    if (size % 2 != 0)
        return -1;
    for (size_t i = 0; i < size; i += 2) {
        int high = cluster_digit(text[i]);
        int low = cluster_digit(text[i + 1]);

        if (high < 0 || low < 0)
            return -1;
        out[i / 2] = (unsigned char)(high * 16 + low);
    }
    return 0;
}

void ds_hex_write(const unsigned char *data, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * size] = 0;
}

void ds_random(void *out, size_t size)
{
    if (getrandom(out, size, 0) != (ssize_t)size)
        ex_die("cannot get random numbers: getrandom: %s", strerror(errno));
}

void ds_cluster_key_read(const char *path, unsigned char key[DS_CLUSTER_KEY])
{
    char text[KEY_DIGITS + 2];
    struct stat s;
    ssize_t n;
    int fd = open(path, O_RDONLY);

    if (fd < 0 || fstat(fd, &s) != 0)
        ex_die("cannot read the cluster's key '%s' (--cluster-key): %s", path, strerror(errno));
    if ((s.st_mode & 077) != 0)
        ex_die("--cluster-key: '%s' can be read by others: chmod 600 it", path);
    n = read(fd, text, sizeof(text));
    (void)close(fd);
    if (n < KEY_DIGITS || (n > KEY_DIGITS && text[KEY_DIGITS] != '\n') ||
        ds_hex_read(text, KEY_DIGITS, key) != 0)
        ex_die("--cluster-key: '%s' is not a key: it has to have %d hexadecimal digits", path,
               KEY_DIGITS);
}

void *ds_cluster_secret(const unsigned char key[DS_CLUSTER_KEY])
{
    void *secret = NULL;
    int r = snic_ebs_openssl_secret_open(&secret, key, DS_CLUSTER_KEY);

    if (r != 0)
        ex_die("cannot use the cluster's key: %s%s", snic_strerror(r),
               r == SNIC_ENOTSUP ? ": this program was built without libcrypto" : "");
    return secret;
}

void ds_cluster_prove(void *secret, const unsigned char nonce[DS_NONCE],
                      unsigned char out[DS_PROOF])
{
    static const char label[] = "ddp_server admin";
    unsigned char text[sizeof(label) + DS_NONCE];

    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), nonce, DS_NONCE);
    if (snic_ebs_openssl()->mac(secret, text, sizeof(text), out) != 0)
        memset(out, 0, DS_PROOF);
}

/* ---- The file ---- */

enum cluster_kind { CLUSTER_NUMBER, CLUSTER_TEXT };

static void *cluster_target(struct ds_config *c, size_t line)
{
    void *const targets[] = {&c->cluster,  &c->shards, &c->value_max,   &c->witness,
                             &c->min_full, &c->peers,  &c->clients_text};

    return targets[line];
}

static const struct {
    const char *name;
    enum cluster_kind kind;
    uint64_t least;
    uint64_t most;
} cluster_lines[] = {
    {"cluster", CLUSTER_NUMBER, 1, UINT64_MAX / 2},
    {"shards", CLUSTER_NUMBER, 1, DS_SHARDS_MAX},
    {"value-max", CLUSTER_NUMBER, DS_VALUE_LEAST, DS_VALUE_MOST},
    {"witness", CLUSTER_NUMBER, 0, DS_NODES_MAX - 1},
    {"min-full", CLUSTER_NUMBER, 1, DS_NODES_MAX},
    {"peers", CLUSTER_TEXT, 0, 0},
    {"clients", CLUSTER_TEXT, 0, 0},
};

/* One line of the file. */
static void cluster_line(struct ds_config *c, const char *path, unsigned number, char *line)
{
    char *value = strchr(line, ' ');
    size_t i = 0;
    uint64_t n;

    line[strcspn(line, "\n")] = 0;
    if (line[0] == 0 || line[0] == '#')
        return;
    if (value != NULL)
        *value++ = 0;
    while (i < SNIC_COUNTOF(cluster_lines) && strcmp(line, cluster_lines[i].name) != 0)
        i++;
    if (i == SNIC_COUNTOF(cluster_lines) || value == NULL)
        ex_die("--config: '%s', line %u: '%s' is not a setting of a cluster with its value", path,
               number, line);
    if (cluster_lines[i].kind == CLUSTER_TEXT) {
        *(const char **)cluster_target(c, i) = strdup(value);
        return;
    }
    if (ex_number(value, 0, &n) != 0 || n < cluster_lines[i].least || n > cluster_lines[i].most)
        ex_die("--config: '%s', line %u: %s: '%s' is not a number from %" PRIu64 " to %" PRIu64,
               path, number, line, value, cluster_lines[i].least, cluster_lines[i].most);
    *(uint64_t *)cluster_target(c, i) = n;
}

void ds_cluster_read(struct ds_config *c, const char *path)
{
    static char key[4096];
    char line[CLUSTER_LINE];
    unsigned number = 1;
    FILE *f = fopen(path, "r");

    if (f == NULL)
        ex_die("cannot read '%s' (--config): %s", path, strerror(errno));
    if (fgets(line, sizeof(line), f) == NULL || strcmp(line, CLUSTER_HEAD "\n") != 0)
        ex_die("--config: '%s' is not a file of `ddp_server found`, or is of another version",
               path);
    while (fgets(line, sizeof(line), f) != NULL)
        cluster_line(c, path, ++number, line);
    (void)fclose(f);
    if (c->key_file == NULL && snprintf(key, sizeof(key), "%s.key", path) < (int)sizeof(key) &&
        access(key, F_OK) == 0)
        c->key_file = key;
}

/* ---- found ---- */

static const char found_summary[] =
    "ddp_server found: draws the number and the key of a new cluster, and writes the two files "
    "that\n"
    "all its nodes are started with: --config FILE, and beside it FILE.key.";

static void found_write(const char *path, const char *text, size_t size, unsigned mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);

    if (fd < 0)
        ex_die("cannot make '%s': %s", path, strerror(errno));
    if (write(fd, text, size) != (ssize_t)size || fsync(fd) != 0 || ex_folder_sync(path) != 0)
        ex_die("cannot write '%s': %s", path, strerror(errno));
    (void)close(fd);
}

static size_t found_text(struct ds_config *c, char *text, size_t max)
{
    size_t n = (size_t)snprintf(text, max,
                                CLUSTER_HEAD "\n# The same at every node; unchanged for ever.\n");

    for (size_t i = 0; i < SNIC_COUNTOF(cluster_lines) && n < max; i++) {
        const void *t = cluster_target(c, i);

        if (cluster_lines[i].kind == CLUSTER_NUMBER) {
            uint64_t v = *(const uint64_t *)t;

            if (v != UINT64_MAX && (v != 0 || cluster_lines[i].least == 0))
                n += (size_t)snprintf(text + n, max - n, "%s %" PRIu64 "\n", cluster_lines[i].name,
                                      v);
        } else if (*(const char *const *)t != NULL) {
            n += (size_t)snprintf(text + n, max - n, "%s %s\n", cluster_lines[i].name,
                                  *(const char *const *)t);
        }
    }
    return n;
}

int ds_found(struct ds_config *c, int argc, char **argv)
{
    static const char *path = "cluster.conf";
    const struct ex_option options[] = {
        {"peers", EX_TEXT, &c->peers, "ADDRESS:PORT,...",
         "of all nodes, by number, for each other; shard S uses the port plus S", 0, 0, NULL},
        {"clients", EX_TEXT, &c->clients_text, "ADDRESS:PORT,...",
         "of all nodes, by number, as clients reach them", 0, 0, NULL},
        {"shards", EX_NUMBER, &c->shards, "N", "parts of the keys; default 1", 1, DS_SHARDS_MAX,
         NULL},
        {"value-max", EX_SIZE, &c->value_max, "BYTES", "of a value; default 64K", DS_VALUE_LEAST,
         DS_VALUE_MOST, NULL},
        {"witness", EX_NUMBER, &c->witness, "N", "this node votes and holds no data", 0,
         DS_NODES_MAX - 1, NULL},
        {"min-full", EX_NUMBER, &c->min_full, "N", "nodes that must have all keys for writes", 1,
         DS_NODES_MAX, NULL},
        {"file", EX_TEXT, &path, "PATH", "to write; default cluster.conf", 0, 0, NULL},
    };
    unsigned char key[DS_CLUSTER_KEY];
    char digits[KEY_DIGITS + 2];
    char key_path[4096];
    char text[2 * CLUSTER_LINE];
    size_t n;

    ex_synopsis = "found --peers ADDRESS:PORT,... [OPTION]...";
    ex_options(argc, argv, options, SNIC_COUNTOF(options), found_summary);
    if (c->peers == NULL)
        ex_usage("--peers is missing: the addresses of all nodes");
    ds_random(&c->cluster, sizeof(c->cluster));
    c->cluster = c->cluster % (UINT64_MAX / 2 - 1) + 1;
    ds_random(key, sizeof(key));
    ds_hex_write(key, sizeof(key), digits);
    digits[KEY_DIGITS] = '\n';
    n = found_text(c, text, sizeof(text));
    if (n >= sizeof(text) ||
        (size_t)snprintf(key_path, sizeof(key_path), "%s.key", path) >= sizeof(key_path))
        ex_die("--peers or --file is too long");
    if (access(path, F_OK) == 0) /* a new key beside it would lock its nodes out of their cluster */
        ex_die("cannot make '%s' (--file): %s", path, strerror(EEXIST));
    found_write(key_path, digits, KEY_DIGITS + 1, 0600);
    found_write(path, text, n, 0644);
    printf("wrote %s and %s; copy both to every node, then start each with\n"
           "    ddp_server --config %s --found --node N --listen ADDRESS:PORT --dir PATH\n"
           "--found only the first time\n",
           path, key_path, path);
    return 0;
}
