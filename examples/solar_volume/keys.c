/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Keys in files. */
#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_BYTES = 64,
    KEY_CLIENT_BYTES = KEY_BYTES + 8,
    KEY_LINE = 2 * KEY_BYTES + 1,
    KEY_TEXT = 64 + (KEY_TOKENS_MAX + 1) * KEY_LINE
};

static const char key_title[] = "solar_volume %s key 1\n";

/* ---- Files that are read again ---- */

static int key_file_changed(struct key_file *f)
{
    struct stat st;
    if (stat(f->path, &st) != 0)
        memset(&st, 0, sizeof(st));
    int changed = st.st_ino != f->seen.st_ino || st.st_size != f->seen.st_size ||
                  st.st_mtim.tv_sec != f->seen.st_mtim.tv_sec ||
                  st.st_mtim.tv_nsec != f->seen.st_mtim.tv_nsec;
    f->seen = st;
    return changed;
}

void key_file_begin(struct key_file *f, const char *path)
{
    memset(f, 0, sizeof(*f));
    f->path = path;
    if (path != NULL)
        (void)key_file_changed(f);
}

int key_file_due(struct key_file *f)
{
    if (f->path == NULL)
        return 0;
    if (key_file_changed(f)) {
        f->why[0] = 0;
        return 1;
    }
    return f->failed;
}

int key_file_result(struct key_file *f, const char *wrong)
{
    f->failed = wrong != NULL;
    if (wrong == NULL || strncmp(f->why, wrong, sizeof(f->why) - 1) == 0)
        return 0;
    snprintf(f->why, sizeof(f->why), "%s", wrong);
    return 1;
}

/* ---- A file ---- */

/* Why a file is no key; NULL: it is open. */
static const char *key_open_file(const char *path, int *fd)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &st) != 0)
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return "belongs to another user";
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "accessible to other users: chmod 600 it";
    return NULL;
}

static int key_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two digits for each byte, the end of the line. What is wrong, or NULL. */
static const char *key_parse_line(const char *text, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int high = key_digit(text[2 * i]);
        int low = key_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return "corrupt";
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * count] == '\n' ? NULL : "corrupt";
}

/* The title, and so many bytes on each line behind it. What is wrong, or NULL. */
static const char *key_parse(const char *kind, const char *text, size_t size, unsigned char *bytes,
                             size_t count, size_t lines)
{
    char title[64];
    int n = snprintf(title, sizeof(title), key_title, kind);
    if (size < (size_t)n || memcmp(text, title, (size_t)n) != 0)
        return size > 13 && memcmp(text, "solar_volume ", 13) == 0
                   ? "a key of another kind"
                   : "not a key made by `solar_volume ctl key`";
    if (size - (size_t)n != lines * (2 * count + 1))
        return "truncated, or too long";
    const char *wrong = NULL;
    for (size_t i = 0; i < lines && wrong == NULL; i++)
        wrong = key_parse_line(text + n + i * (2 * count + 1), bytes + i * count, count);
    return wrong;
}

/* What is wrong, or NULL. */
static const char *key_read(const char *path, char text[KEY_TEXT], size_t *size)
{
    const struct rlimit none = {0, 0};
    ssize_t n = 1;
    int fd;
    const char *wrong = key_open_file(path, &fd);
    (void)setrlimit(RLIMIT_CORE, &none); /* a core dump would have it */
    *size = 0;
    while (wrong == NULL && *size < KEY_TEXT && n > 0) {
        n = read(fd, text + *size, KEY_TEXT - *size);
        *size += n > 0 ? (size_t)n : 0;
    }
    if (wrong == NULL && n < 0)
        wrong = strerror(errno);
    if (fd >= 0)
        close(fd);
    return wrong;
}

/* @p client: a client's key is taken, too, and sets *client. What is wrong, or NULL. */
static const char *key_try(const char *kind, const char *path,
                           unsigned char bytes[KEY_CLIENT_BYTES], int *client)
{
    char text[KEY_TEXT];
    size_t size;
    const char *wrong = key_read(path, text, &size);
    if (wrong == NULL && client != NULL &&
        key_parse("client", text, size, bytes, KEY_CLIENT_BYTES, 1) == NULL)
        *client = 1;
    else if (wrong == NULL)
        wrong = key_parse(kind, text, size, bytes, KEY_BYTES, 1);
    explicit_bzero(text, sizeof(text));
    return wrong;
}

static void key_load(const char *kind, const char *path, unsigned char bytes[KEY_CLIENT_BYTES],
                     int *client)
{
    const char *wrong = key_try(kind, path, bytes, client);
    if (wrong != NULL)
        ex_die("key file %s: %s (a %s key is needed)", path, wrong, kind);
}

static const struct snic_ebs_sec_ops *key_ciphers(void)
{
    const struct snic_ebs_sec_ops *ops = snic_ebs_openssl();
    if (ops == NULL)
        ex_die("this program was built without libcrypto: it has no ciphers, and takes no keys");
    return ops;
}

/* Identifies the key and reveals nothing about it: a MAC under it. */
static void key_fingerprint(const char *path, const unsigned char bytes[KEY_BYTES],
                            const char *what, unsigned char out[32])
{
    void *secret;
    int r = snic_ebs_openssl_secret_open(&secret, bytes, KEY_BYTES);
    if (r == 0)
        r = key_ciphers()->mac(secret, what, strlen(what), out);
    if (r != 0)
        ex_die("key file %s cannot be used: %s", path, snic_strerror(r));
    snic_ebs_openssl_close(secret);
}

static void key_check(const char *path, const unsigned char bytes[KEY_BYTES], uint64_t check[2])
{
    unsigned char out[32];
    key_fingerprint(path, bytes, "solar_volume disk check 1", out);
    check[0] = snic_get_le64(out);
    check[1] = snic_get_le64(out + 8) | 1; /* 0 stands for no key */
}

void key_disk_check(const char *path, uint64_t check[2])
{
    unsigned char bytes[KEY_CLIENT_BYTES];
    check[0] = check[1] = 0;
    if (path == NULL)
        return;
    (void)key_ciphers();
    key_load("disk", path, bytes, NULL);
    key_check(path, bytes, check);
    explicit_bzero(bytes, sizeof(bytes));
}

void key_disk_open(const char *path, void **xts, uint64_t check[2])
{
    unsigned char bytes[KEY_CLIENT_BYTES];
    (void)key_ciphers();
    key_load("disk", path, bytes, NULL);
    key_check(path, bytes, check);
    int r = snic_ebs_openssl_xts_open(xts, bytes, KEY_BYTES);
    explicit_bzero(bytes, sizeof(bytes));
    if (r != 0)
        ex_die("key file %s: %s", path, snic_strerror(r));
}

static uint32_t key_wire_id(const char *path, const unsigned char bytes[KEY_BYTES])
{
    unsigned char out[32];
    key_fingerprint(path, bytes, "solar_volume wire id 1", out);
    return snic_get_le32(out);
}

void key_wire_open(const char *path, struct key_wire *w)
{
    static const unsigned char any[16] = {0};
    unsigned char bytes[KEY_CLIENT_BYTES];
    int client = 0;
    w->sec = key_ciphers();
    key_load("wire", path, bytes, &client);
    w->account = client ? snic_get_le32(bytes + KEY_BYTES) : 0;
    w->id = client ? snic_get_le32(bytes + KEY_BYTES + 4) : key_wire_id(path, bytes);
    int r = snic_ebs_openssl_secret_open(&w->secret, bytes, KEY_BYTES);
    explicit_bzero(bytes, sizeof(bytes));
    for (uint32_t i = 0; i < 2 && r == 0; i++)
        r = snic_ebs_openssl_gcm_open(&w->keys[i], any, sizeof(any)); /* rekeyed before use */
    if (r != 0)
        ex_die("key file %s: %s", path, snic_strerror(r));
}

void key_auth(const struct key_wire *w, struct snic_control_auth *a, uint64_t seed)
{
    memset(a, 0, sizeof(*a));
    a->sec = w->sec;
    a->secret = w->secret;
    a->key_id = w->id;
    a->account = w->account;
    a->seed = seed;
}

void key_wire_close(struct key_wire *w)
{
    snic_ebs_openssl_close(w->secret);
    snic_ebs_openssl_close(w->keys[0]);
    snic_ebs_openssl_close(w->keys[1]);
}

/* ---- Of tokens ---- */

/* Where the title ends, or size. */
static size_t key_lines(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    size_t rest = end != NULL ? size - (size_t)(end + 1 - text) : 0;
    return rest % KEY_LINE == 0 ? rest / KEY_LINE : 0;
}

const char *key_tokens_open(const char *path, struct key_tokens *k)
{
    unsigned char bytes[KEY_TOKENS_MAX * KEY_BYTES], mac[32];
    char text[KEY_TEXT];
    size_t size;
    memset(k, 0, sizeof(*k));
    const struct snic_ebs_sec_ops *ops = key_ciphers();
    const char *wrong = key_read(path, text, &size);
    size_t lines = wrong == NULL ? key_lines(text, size) : 0;
    if (wrong == NULL && (lines > KEY_TOKENS_MAX || size == KEY_TEXT))
        wrong = "it has more than 8 keys";
    if (wrong == NULL)
        wrong = key_parse("token", text, size, bytes, KEY_BYTES, snic_max_u64(lines, 1));
    for (; wrong == NULL && k->count < lines; k->count++) {
        const char *what = "solar_volume token id 1";
        void **secret = &k->secret[k->count];
        int r =
            snic_ebs_openssl_secret_open(secret, bytes + (size_t)k->count * KEY_BYTES, KEY_BYTES);
        if (r == 0)
            r = ops->mac(*secret, what, strlen(what), mac);
        k->id[k->count] = snic_get_le32(mac);
        if (r != 0)
            wrong = snic_strerror(r);
    }
    explicit_bzero(text, sizeof(text));
    explicit_bzero(bytes, sizeof(bytes));
    if (wrong != NULL)
        key_tokens_close(k);
    return wrong;
}

void key_tokens_close(struct key_tokens *k)
{
    for (uint32_t i = 0; i < KEY_TOKENS_MAX; i++)
        snic_ebs_openssl_close(k->secret[i]);
    memset(k, 0, sizeof(*k));
}

/* ---- Clients' ---- */

/* Two MACs under the wire key, of the number. 0 or an error. */
static int key_derive(void *secret, uint32_t account, unsigned char bytes[KEY_BYTES])
{
    unsigned char text[32] = "solar_volume client key 1";
    int r = 0;
    snic_put_le32(text + 26, account);
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        text[31] = (unsigned char)i;
        r = key_ciphers()->mac(secret, text, sizeof(text), bytes + (size_t)32 * i);
    }
    return r;
}

const char *key_maker_open(const char *path, struct key_maker *m)
{
    unsigned char bytes[KEY_CLIENT_BYTES];
    memset(m, 0, sizeof(*m));
    (void)key_ciphers();
    const char *wrong = key_try("wire", path, bytes, NULL);
    if (wrong == NULL) {
        m->id = key_wire_id(path, bytes);
        int r = snic_ebs_openssl_secret_open(&m->secret, bytes, KEY_BYTES);
        wrong = r != 0 ? snic_strerror(r) : NULL;
    }
    explicit_bzero(bytes, sizeof(bytes));
    return wrong;
}

void *key_maker_secret(const struct key_maker *m, uint32_t account)
{
    unsigned char bytes[KEY_BYTES];
    void *secret = NULL;
    int r = key_derive(m->secret, account, bytes);
    if (r == 0)
        r = snic_ebs_openssl_secret_open(&secret, bytes, KEY_BYTES);
    explicit_bzero(bytes, sizeof(bytes));
    return r == 0 ? secret : NULL;
}

void key_maker_close(struct key_maker *m)
{
    snic_ebs_openssl_close(m->secret);
    m->secret = NULL;
}

/* ---- A new one ---- */

static void key_write(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        ex_die("key file %s: %s", path, strerror(errno));
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, text + at, size - at);
        if (n <= 0) {
            (void)unlink(path);
            ex_die("key file %s: %s", path, strerror(errno));
        }
        at += (size_t)n;
    }
    if (fsync(fd) != 0 || close(fd) != 0)
        ex_die("key file %s: %s", path, strerror(errno));
}

static void key_store(const char *kind, const char *path, unsigned char *bytes, size_t count,
                      size_t lines)
{
    char text[KEY_TEXT];
    size_t n = (size_t)snprintf(text, sizeof(text), key_title, kind);
    for (size_t i = 0; i < count * lines; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%02x", bytes[i]);
        if ((i + 1) % count == 0)
            text[n++] = '\n';
    }
    key_write(path, text, n);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(bytes, count * lines);
}

/* FILE WIRE-KEY NUMBER */
static void key_make_client(char **argv)
{
    unsigned char bytes[KEY_CLIENT_BYTES];
    struct key_maker m;
    char *end;
    errno = 0;
    unsigned long account = strtoul(argv[2], &end, 10);
    if (argv[2][0] < '0' || argv[2][0] > '9' || *end != 0 || errno != 0 || account == 0 ||
        account > UINT32_MAX)
        ex_usage("key client: '%s' is not the number of a client, from 1 to 4294967295", argv[2]);
    const char *wrong = key_maker_open(argv[1], &m);
    if (wrong != NULL)
        ex_usage("key file %s: %s (a wire key is needed)", argv[1], wrong);
    if (key_derive(m.secret, (uint32_t)account, bytes) != 0)
        ex_die("key file %s: cannot derive a client's key from it", argv[1]);
    snic_put_le32(bytes + KEY_BYTES, (uint32_t)account);
    snic_put_le32(bytes + KEY_BYTES + 4, m.id);
    key_maker_close(&m);
    key_store("client", argv[0], bytes, sizeof(bytes), 1);
}

static void key_random(unsigned char bytes[KEY_BYTES])
{
    if (getrandom(bytes, KEY_BYTES, 0) != (ssize_t)KEY_BYTES)
        ex_die("cannot get random numbers: getrandom: %s", strerror(errno));
}

/* FILE, or FILE OLD: a new one before those of OLD, which are the newest first. */
static void key_make_token(int argc, char **argv)
{
    unsigned char bytes[KEY_TOKENS_MAX * KEY_BYTES];
    char text[KEY_TEXT];
    size_t size, lines = 0;
    key_random(bytes);
    if (argc == 2) {
        const char *wrong = key_read(argv[1], text, &size);
        if (wrong == NULL) {
            lines = snic_min_u64(snic_max_u64(key_lines(text, size), 1), KEY_TOKENS_MAX - 1);
            wrong = key_parse("token", text, snic_min_u64(size, KEY_TEXT), bytes + KEY_BYTES,
                              KEY_BYTES, lines);
        }
        if (wrong != NULL)
            ex_die("key file %s: %s (a token key with at most %d keys is needed)", argv[1], wrong,
                   KEY_TOKENS_MAX - 1);
        explicit_bzero(text, sizeof(text));
    }
    key_store("token", argv[0], bytes, KEY_BYTES, 1 + lines);
}

int key_make(int argc, char **argv)
{
    unsigned char bytes[KEY_BYTES];
    if (argc == 5 && strcmp(argv[1], "client") == 0) {
        key_make_client(argv + 2);
        return 0;
    }
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "token") == 0) {
        key_make_token(argc - 2, argv + 2);
        return 0;
    }
    if (argc != 3 || (strcmp(argv[1], "disk") != 0 && strcmp(argv[1], "wire") != 0)) {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fprintf(
            help ? stdout : stderr,
            "Usage: solar_volume ctl key disk|wire FILE\n"
            "       solar_volume ctl key client FILE WIRE-KEY NUMBER\n"
            "       solar_volume ctl key token FILE [OLD]\n\n"
            "Make a new key, for --disk-key, --wire-key or --token-key, in a new file that its\n"
            "owner alone can read. Without a disk's key its data are lost. A client's key is made "
            "of\n"
            "a wire key, for the one client of that number in --clients. A token key is shared by\n"
            "the catalog and its servers; with OLD the new file has the keys of that one, too: "
            "the\n"
            "catalog signs with the first, servers accept all. Replace the servers' files first,\n"
            "then the catalog's: they are read again.\n");
        return help ? 0 : 2;
    }
    key_random(bytes);
    key_store(argv[1], argv[2], bytes, sizeof(bytes), 1);
    return 0;
}
