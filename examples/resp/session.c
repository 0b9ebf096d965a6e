/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* HELLO, AUTH, names. Error texts are Redis 7's. */
#include "session.h"

#include <string.h>

int resp_name_valid(struct resp_reply *r, const struct resp_arg *a, size_t max)
{
    for (uint32_t i = 0; i < a->size; i++)
        if (a->data[i] < '!' || a->data[i] > '~') {
            resp_put_error(r, "ERR Client names cannot contain spaces, newlines or special "
                              "characters.");
            return 0;
        }
    if (a->size >= max) {
        resp_put_error(r, "ERR Client names are limited to %zu bytes", max - 1);
        return 0;
    }
    return 1;
}

/* In a time that does not depend on the password's bytes. */
static int session_equal(const char *password, const struct resp_arg *a)
{
    size_t n = strlen(password);
    unsigned char d = n == a->size ? 0 : 1;

    for (uint32_t i = 0; i < a->size; i++)
        d |= (unsigned char)(a->data[i] ^ (unsigned char)password[n > 0 ? i % n : 0]);
    return d == 0;
}

int resp_login(struct resp_reply *r, const char *want, const struct resp_arg *user,
               const struct resp_arg *password)
{
    if ((user == NULL || (user->size == 7 && memcmp(user->data, "default", 7) == 0)) &&
        (want[0] == 0 || session_equal(want, password)))
        return 0;
    resp_put_error(r, "WRONGPASS invalid username-password pair or user is disabled.");
    return -1;
}

int resp_auth(struct resp_reply *r, const char *want, const struct resp_arg *argv, uint32_t argc)
{
    if (argc > 3)
        resp_put_error(r, "ERR syntax error");
    else if (argc == 2 && want[0] == 0)
        resp_put_error(r, "ERR AUTH <password> called without any password configured for the "
                          "default user. Are you sure your configuration is correct?");
    else
        return resp_login(r, want, argc == 3 ? &argv[1] : NULL, &argv[argc - 1]);
    return -1;
}

int resp_hello_options(struct resp_reply *r, const struct resp_arg *argv, uint32_t argc,
                       size_t name_max, struct resp_hello *h)
{
    memset(h, 0, sizeof(*h));
    if (argc > 1) {
        if (resp_number(argv[1].data, argv[1].size, &h->version) != 0) {
            resp_put_error(r, "ERR Protocol version is not an integer or out of range");
            return -1;
        }
        if (h->version < 2 || h->version > 3) {
            resp_put_error(r, "NOPROTO unsupported protocol version");
            return -1;
        }
    }
    for (uint32_t i = 2; i < argc; i++) {
        if (resp_arg_is(&argv[i], "setname") && i + 1 < argc) {
            h->name = &argv[++i];
            if (!resp_name_valid(r, h->name, name_max))
                return -1;
        } else if (resp_arg_is(&argv[i], "auth") && i + 2 < argc) {
            h->login = &argv[i + 1];
            i += 2;
        } else {
            resp_put_error(r, "ERR Syntax error in HELLO option '%.*s'",
                           argv[i].size < 128 ? (int)argv[i].size : 128,
                           (const char *)argv[i].data);
            return -1;
        }
    }
    return 0;
}

void resp_hello_no_auth(struct resp_reply *r)
{
    resp_put_error(r, "NOAUTH HELLO must be called with the client already authenticated, "
                      "otherwise the HELLO AUTH <user> <pass> option can be used to authenticate "
                      "the client and select the RESP protocol version at the same time");
}

static void session_text(struct resp_reply *r, const char *text)
{
    resp_put_bulk(r, text, strlen(text));
}

void resp_hello_greet(struct resp_reply *r, int64_t id)
{
    resp_put_map(r, 7);
    session_text(r, "server");
    session_text(r, "redis");
    session_text(r, "version");
    session_text(r, RESP_REDIS_VERSION);
    session_text(r, "proto");
    resp_put_count(r, ':', r->resp3 ? 3 : 2);
    session_text(r, "id");
    resp_put_count(r, ':', id);
    session_text(r, "mode");
    session_text(r, "standalone");
    session_text(r, "role");
    session_text(r, "master");
    session_text(r, "modules");
    resp_put_count(r, '*', 0);
}
