/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume: keys, which are in files and nowhere else. A file is made by `ctl key` and has two
 * lines: what key it is, and its 64 bytes in hexadecimal digits. It has to be its owner's alone.
 *
 *   disk   AES-256-XTS: what the client writes is ciphertext wherever it goes. Servers and catalog
 *          never have it; the catalog knows a check value, so that no other key is used.
 *   wire   a secret of servers and clients: their packets are sealed (AES-128-GCM) under keys that
 *          each connection derives from it. What servers copy from each other is not sealed.
 *   token  keys that a catalog signs tokens with (the first), and its servers verify them with
 * (all); each has a line. client a secret that one client has, with a number, made of a wire key; a
 * server makes it of the same wire key again, for the numbers that stand in its --clients.
 */
#ifndef SOLAR_VOLUME_KEYS_H
#define SOLAR_VOLUME_KEYS_H

#include "../common.h"

#include <sys/stat.h>

/* A file that is read again when it changes, and each time until it can be used: one that was
 * replaced with wrong permissions, for one, does not change when they are corrected. */
struct key_file {
    const char *path; /* NULL: none */
    struct stat seen;
    int failed;    /* to be read again */
    char why[160]; /* the reason that was logged last */
};
void key_file_begin(struct key_file *f, const char *path);
/* @return 1 read it now */
int key_file_due(struct key_file *f);
/* The result of reading it: NULL, or why it cannot be used. @return 1 the reason is to be logged */
int key_file_result(struct key_file *f, const char *wrong);

struct key_wire {
    const struct snic_ebs_sec_ops *sec;
    void *secret;
    void *keys[2];
    uint32_t id;      /* of the secret, or of the wire key that it was made of */
    uint32_t account; /* the client's; 0: a wire key */
};

/* Each exits with a clear line when the file is missing, can be read by others, or is no such key.
 */
void key_disk_open(const char *path, void **xts, uint64_t check[2]);
/* As the end of a connection of the control plane proves it. */
void key_auth(const struct key_wire *w, struct snic_control_auth *a, uint64_t seed);
/* The check value alone; 0 0 when path is NULL. */
void key_disk_check(const char *path, uint64_t check[2]);
/* Of a wire key, or a client's. */
void key_wire_open(const char *path, struct key_wire *w);
/* A wire key that clients' keys are made of. What is wrong with the file, or NULL. */
struct key_maker {
    void *secret;
    uint32_t id;
};
const char *key_maker_open(const char *path, struct key_maker *m);
/* The secret of a client's key; NULL: it cannot be made. */
void *key_maker_secret(const struct key_maker *m, uint32_t account);
void key_maker_close(struct key_maker *m);
/* Most keys of a token key file. */
enum { KEY_TOKENS_MAX = 8 };
struct key_tokens {
    uint32_t count;
    uint32_t id[KEY_TOKENS_MAX];
    void *secret[KEY_TOKENS_MAX];
};
/* What is wrong with the file, or NULL. */
const char *key_tokens_open(const char *path, struct key_tokens *k);
void key_tokens_close(struct key_tokens *k);
void key_wire_close(struct key_wire *w);
/* `ctl key disk|wire FILE`, `ctl key client FILE WIRE-KEY NUMBER`, `ctl key token FILE [OLD]`: a
 * new one. */
int key_make(int argc, char **argv);

#endif
