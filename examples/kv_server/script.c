/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Recognising scripts by the SHA-1 of their tokens. */
#include "script.h"

#include <ctype.h>
#include <string.h>

#define SCRIPT_SIZE_MAX 4096u /* longer ones are none of ours */
#define SCRIPT_NAMES_MAX 8u
#define SCRIPT_NAME_MAX 32u

struct script_text {
    const unsigned char *at;
    const unsigned char *end;
};

struct script_token {
    const unsigned char *data;
    size_t size;
    char kind; /* n name or number, s string, o anything else, 0 the end, ! broken */
};

/* Names of locals in the order in which they are declared. */
struct script_names {
    struct {
        const unsigned char *data;
        size_t size;
    } names[SCRIPT_NAMES_MAX];
    uint32_t count;
};

/* Blanks, comments, semicolons. -1: a comment without an end */
static int script_skip(struct script_text *t)
{
    while (t->at < t->end) {
        if (isspace(*t->at) || *t->at == ';') {
            t->at++;
        } else if (t->end - t->at >= 2 && t->at[0] == '-' && t->at[1] == '-') {
            t->at += 2;
            if (t->end - t->at >= 2 && t->at[0] == '[' && t->at[1] == '[') {
                while (t->end - t->at >= 2 && (t->at[0] != ']' || t->at[1] != ']'))
                    t->at++;
                if (t->end - t->at < 2)
                    return -1;
                t->at += 2;
            }
            while (t->at < t->end && *t->at != '\n')
                t->at++;
        } else {
            break;
        }
    }
    return 0;
}

static struct script_token script_next(struct script_text *t)
{
    struct script_token k = {t->at, 0, '!'};

    if (script_skip(t) != 0)
        return k;
    k.data = t->at;
    if (t->at == t->end) {
        k.kind = 0;
        return k;
    }
    if (*t->at == '"' || *t->at == '\'') {
        unsigned char quote = *t->at++;

        k.data = t->at;
        while (t->at < t->end && *t->at != quote && *t->at != '\\' && *t->at != '\n')
            t->at++;
        if (t->at == t->end || *t->at != quote)
            return k;
        k.size = (size_t)(t->at - k.data);
        k.kind = 's';
        t->at++;
        return k;
    }
    if (isalnum(*t->at) || *t->at == '_') {
        while (t->at < t->end && (isalnum(*t->at) || *t->at == '_'))
            t->at++;
        k.kind = 'n';
    } else {
        int two = t->end - t->at >= 2 && t->at[1] == '=' && strchr("=~<>", *t->at) != NULL;

        t->at += two ? 2 : 1;
        k.kind = 'o';
    }
    k.size = (size_t)(t->at - k.data);
    return k;
}

static int script_is(const struct script_token *k, const char *word)
{
    return k->kind != 's' && k->size == strlen(word) && memcmp(k->data, word, k->size) == 0;
}

static uint32_t script_name(const struct script_names *n, const struct script_token *k)
{
    uint32_t i = 0;

    while (i < n->count &&
           (n->names[i].size != k->size || memcmp(n->names[i].data, k->data, k->size) != 0))
        i++;
    return i;
}

/* A token as it is hashed: a blank behind each. */
static void script_add(struct sha1 *s, const struct script_names *n, const struct script_token *k)
{
    uint32_t i = k->kind == 'n' ? script_name(n, k) : n->count;

    if (k->kind == 's') {
        sha1_add(s, "\"", 1);
        for (size_t j = 0; j < k->size; j++) {
            unsigned char c = (unsigned char)tolower(k->data[j]);

            sha1_add(s, &c, 1);
        }
        sha1_add(s, "\"", 1);
    } else if (i < n->count) {
        unsigned char name[2] = {'%', (unsigned char)('a' + i)};

        sha1_add(s, name, 2);
    } else if (script_is(k, "pcall")) {
        sha1_add(s, "call", 4);
    } else {
        sha1_add(s, k->data, k->size);
    }
    sha1_add(s, " ", 1);
}

int script_fingerprint(const unsigned char *text, size_t size, unsigned char out[SHA1_SIZE])
{
    struct script_text t = {text, text + size};
    struct script_names names = {.count = 0};
    struct sha1 s;
    int declares = 0; /* behind "local" or "for": names, until something else */

    if (size > SCRIPT_SIZE_MAX)
        return -1;
    sha1_begin(&s);
    for (;;) {
        struct script_token k = script_next(&t);

        if (k.kind == 0)
            break;
        if (k.kind == '!')
            return -1;
        if (declares && k.kind == 'n' && !script_is(&k, "in")) {
            if (names.count == SCRIPT_NAMES_MAX || k.size > SCRIPT_NAME_MAX)
                return -1;
            if (script_name(&names, &k) == names.count) {
                names.names[names.count].data = k.data;
                names.names[names.count++].size = k.size;
            }
        } else {
            declares =
                (declares && script_is(&k, ",")) || script_is(&k, "local") || script_is(&k, "for");
        }
        script_add(&s, &names, &k);
    }
    sha1_end(&s, out);
    return 0;
}

/* In the order of script_kind; the scripts themselves are in tests/support/kvscripts.py. */
static const struct {
    enum script_kind kind;
    char fingerprint[2 * SHA1_SIZE + 1];
} script_known[] = {
    {SCRIPT_DELETE, "2ef754ffeeb31596df704e628f2802d8da174b65"},
    {SCRIPT_DELETE, "2aae8be90e95737e752c5da3bddf7a0bb33c3317"},
    {SCRIPT_DELETE, "9e2e5904cea1fe8c50980e855ee20efec88b10e7"},
    {SCRIPT_DELETE, "91f9f41c16b20ff7a8224676905f043b1b65c2a2"},
    {SCRIPT_DELETE, "f4b3f2582348391a229f9e33415d21af68d62dd3"},
    {SCRIPT_DELETE, "a843a160a56e4cd13bd4854b0990250b123e551c"},
    {SCRIPT_DELETE, "a4123b6581dc89bc3ee5b51b552b06e51e87042e"},
    {SCRIPT_DELETE, "73518a0b8a655e60c24f65d9def3ad518c09284e"},
    {SCRIPT_DELETE_OR_ABSENT, "028c217a07f74f28e694d3ec5f0688ad4e83ca9b"},
    {SCRIPT_PEXPIRE, "7c388415956e34d8c2742730b4e43d18b8498a24"},
    {SCRIPT_PEXPIRE, "091d2947f58c927aa9e36dac4b1a662d4899b2c0"},
    {SCRIPT_PEXPIRE, "62fa51931c7089020e168d0219e2ae1754dfa7df"},
    {SCRIPT_PEXPIRE, "25cd8872910fdf52264dfc72bc80c85a010e653c"},
    {SCRIPT_PEXPIRE, "d7681e6f4cfcba98b6f9c6807a070e7dcc0df908"},
    {SCRIPT_EXPIRE, "7f2bd8a433cf513070521c349ecf71131a542dd3"},
    {SCRIPT_EXPIRE, "368a2f5bb34fcdadf210d9fd2a5e8da1186feb5a"},
    {SCRIPT_EXPIRE, "0c1360c5043d7a62ffdae3c00981dc70bb861a9d"},
    {SCRIPT_EXPIRE, "f0528fa79685ebf382add2f0f3ab2d00e153f4db"},
    {SCRIPT_EXPIRE, "e0de4e736694030d7f2367f744c3bc13384207bd"},
    {SCRIPT_PEXPIRE, "4650542032fae979427de704d9c7e5e133005cbb"},
    {SCRIPT_EXTEND, "b802b97d303e46100bf6210b367f179f0b06f606"},
    {SCRIPT_PTTL, "be5bfdce0a8fff90369347691707cb388c316070"},
    {SCRIPT_SET, "ef8ed48b49a42233f98a348ea6b3f9793cc02057"},
    {SCRIPT_LOCK_ALL, "083a51a28ee9fa876c55120ab0a06de8e55c3ea6"},
    {SCRIPT_UNLOCK_ALL, "4717a8134fad7a6b17227d61f09c17d1b9a04f62"},
    {SCRIPT_EXTEND_ALL, "ed57f7e925275c106f42c7b5c87f7051b2fa5ac2"},
};

enum script_kind script_recognise(const unsigned char *text, size_t size)
{
    unsigned char hash[SHA1_SIZE];
    char hex[2 * SHA1_SIZE + 1];

    if (script_fingerprint(text, size, hash) != 0)
        return SCRIPT_UNKNOWN;
    sha1_hex(hash, hex);
    for (size_t i = 0; i < sizeof(script_known) / sizeof(script_known[0]); i++)
        if (memcmp(script_known[i].fingerprint, hex, 2 * SHA1_SIZE) == 0)
            return script_known[i].kind;
    return SCRIPT_UNKNOWN;
}
