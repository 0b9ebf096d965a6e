/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * EVAL, EVALSHA, SCRIPT: the scripts of script.h, each carried out as one command. A run that
 * waits for a value from the device or for room in the log has changed nothing yet.
 */
#include "engine_priv.h"
#include "script.h"

#include <stdlib.h>
#include <string.h>

/* The scripts that EVALSHA finds; the oldest goes when there are more. */
#define SCRIPTS_MAX 512u

struct kv_scripts {
    uint32_t count;
    uint32_t next;
    struct {
        char name[2 * SHA1_SIZE + 1];
        enum script_kind kind;
    } known[SCRIPTS_MAX];
};

struct script_run {
    struct kv_command *command;
    enum script_kind kind;
    const struct resp_arg *keys;
    uint32_t key_count;
    const struct resp_arg *args;
    uint32_t arg_count;
};

/* ---- The scripts that are known by name ---- */

static enum script_kind script_named(const struct kv_engine *e, const struct resp_arg *a)
{
    const struct kv_scripts *s = e->scripts;

    for (uint32_t i = 0; s != NULL && i < s->count; i++)
        if (resp_arg_is(a, s->known[i].name))
            return s->known[i].kind;
    return SCRIPT_UNKNOWN;
}

/* Learn a script. Its kind, or SCRIPT_UNKNOWN with the error written. */
static enum script_kind script_learn(struct kv_engine *e, const struct resp_arg *text,
                                     char name[2 * SHA1_SIZE + 1])
{
    enum script_kind kind = script_recognise(text->data, text->size);
    unsigned char hash[SHA1_SIZE];
    struct resp_arg named = {(const unsigned char *)name, 2 * SHA1_SIZE};
    struct sha1 s;

    if (kind == SCRIPT_UNKNOWN) {
        kv_put_error(e, "ERR this script is not supported: only the lock scripts of client "
                        "libraries are (compare and delete or expire), and no Lua beyond them");
        return SCRIPT_UNKNOWN;
    }
    sha1_begin(&s);
    sha1_add(&s, text->data, text->size);
    sha1_end(&s, hash);
    sha1_hex(hash, name);
    if (e->scripts == NULL)
        e->scripts = calloc(1, sizeof(*e->scripts));
    if (e->scripts != NULL && script_named(e, &named) == SCRIPT_UNKNOWN) {
        uint32_t i = e->scripts->next;

        e->scripts->next = (i + 1) % SCRIPTS_MAX;
        e->scripts->count += e->scripts->count < SCRIPTS_MAX;
        memcpy(e->scripts->known[i].name, name, sizeof(e->scripts->known[i].name));
        e->scripts->known[i].kind = kind;
    }
    return kind;
}

/* ---- Carrying one out ---- */

/* Is the value of key @p i ARGV[1]? KV_DONE and *equal, or what to return. */
static enum kv_outcome script_equal(struct script_run *s, uint32_t i, int *there, int *equal)
{
    struct kv_command *c = s->command;
    struct kv_entry *e = kv_command_lookup(c, c->database, &s->keys[i], 1);
    const unsigned char *value;
    enum kv_outcome o;
    uint32_t size;

    *there = e != NULL;
    *equal = 0;
    if (e == NULL || s->arg_count == 0 || e->value_size != s->args[0].size)
        return KV_DONE;
    o = kv_value_to_modify(c, e, &value, &size);
    if (o == KV_DONE)
        *equal = memcmp(value, s->args[0].data, size) == 0;
    return o;
}

/* Room for another record of every key. 0 or SNIC_E* */
static int script_room(struct script_run *s, uint32_t value_size, int deletes)
{
    uint64_t bytes = 0;
    uint64_t largest = 0;

    for (uint32_t i = 0; i < s->key_count; i++) {
        uint64_t n = kv_record_bytes(s->keys[i].size, value_size);

        bytes += n;
        largest = snic_max_u64(largest, n);
    }
    return kv_command_room(s->command, bytes, largest, deletes);
}

static enum kv_outcome script_delete(struct script_run *s, uint32_t i)
{
    struct kv_command *c = s->command;
    struct kv_entry *e = kv_command_lookup(c, c->database, &s->keys[i], 0);
    int r = e != NULL ? kv_delete(c, e) : 0;

    return r != 0 ? kv_write_failed(c, r) : KV_DONE;
}

/* ARGV[@p i] as a number. 0, or the error is written. */
static int script_number(struct script_run *s, uint32_t i, int64_t *out)
{
    if (i < s->arg_count && resp_number(s->args[i].data, s->args[i].size, out) == 0)
        return 0;
    kv_put_error(s->command->engine, "ERR value is not an integer or out of range");
    return -1;
}

static enum kv_outcome script_put(struct script_run *s, uint32_t i, const struct resp_arg *value,
                                  uint64_t expire_ms, int *stored)
{
    struct kv_string_put p = {.database = s->command->database,
                              .key = &s->keys[i],
                              .value = value->data,
                              .size = value->size,
                              .expire_ms = expire_ms};

    return kv_string_store(s->command, &p, stored);
}

/* KEYS[1], whose value is ARGV[1], gets @p n ms from now; the reply is 1. */
static enum kv_outcome script_expire(struct script_run *s, int64_t n)
{
    struct kv_command *c = s->command;
    int64_t now = (int64_t)kv_store_wall_ms(c->store);
    enum kv_outcome o;
    int stored = 1;

    if (n > INT64_MAX - now) {
        kv_put_error(c->engine, "ERR invalid expire time in 'pexpire' command");
        return KV_DONE;
    }
    o = n <= 0 ? script_delete(s, 0) : script_put(s, 0, &s->args[0], (uint64_t)(n + now), &stored);
    if (o == KV_DONE && stored)
        kv_put_integer(c->engine, 1);
    return o;
}

/* redis-py's Lock.extend(): a lock without a time is not extended. */
static enum kv_outcome script_extend(struct script_run *s)
{
    struct kv_command *c = s->command;
    struct kv_entry *e = kv_command_lookup(c, c->database, &s->keys[0], 0);
    int64_t left;
    int64_t n;

    if (e == NULL || e->expire_ms == 0) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (script_number(s, 1, &n) != 0)
        return KV_DONE;
    left = (int64_t)e->expire_ms - (int64_t)kv_store_wall_ms(c->store);
    if (s->arg_count > 2 && resp_arg_is(&s->args[2], "0") && n <= INT64_MAX - left)
        n += left;
    return script_expire(s, n);
}

/* Compare and set: without a time, as SET. */
static enum kv_outcome script_set(struct script_run *s)
{
    enum kv_outcome o;
    int stored;

    if (s->arg_count < 2 || s->args[1].size > s->command->engine->opts.value_max) {
        kv_put_error(s->command->engine, "ERR ARGV[2] is missing or too long");
        return KV_DONE;
    }
    o = script_put(s, 0, &s->args[1], 0, &stored);
    if (o == KV_DONE && stored)
        kv_put_text(s->command->engine, "+OK\r\n");
    return o;
}

/* What is done where KEYS[1] is ARGV[1]. */
static enum kv_outcome script_on_equal(struct script_run *s)
{
    struct kv_command *c = s->command;
    struct kv_entry *e = kv_command_lookup(c, c->database, &s->keys[0], 0);
    enum kv_outcome o;
    int64_t n;

    if (s->kind == SCRIPT_EXTEND)
        return script_extend(s);
    if (s->kind == SCRIPT_SET)
        return script_set(s);
    if (s->kind == SCRIPT_PTTL) {
        kv_put_integer(c->engine, e == NULL || e->expire_ms == 0
                                      ? -1
                                      : (int64_t)(e->expire_ms - kv_store_wall_ms(c->store)));
        return KV_DONE;
    }
    if (s->kind == SCRIPT_PEXPIRE)
        return script_number(s, 1, &n) != 0 ? KV_DONE : script_expire(s, n);
    if (s->kind == SCRIPT_EXPIRE) {
        if (script_number(s, 1, &n) != 0)
            return KV_DONE;
        if (n > INT64_MAX / 1000 || n < INT64_MIN / 1000) {
            kv_put_error(c->engine, "ERR invalid expire time in 'expire' command");
            return KV_DONE;
        }
        return script_expire(s, n * 1000);
    }
    o = script_delete(s, 0); /* SCRIPT_DELETE, SCRIPT_DELETE_OR_ABSENT */
    if (o == KV_DONE)
        kv_put_integer(c->engine, 1);
    return o;
}

static enum kv_outcome script_one(struct script_run *s)
{
    struct kv_engine *e = s->command->engine;
    int there;
    int equal;
    enum kv_outcome o;

    if (s->key_count == 0) {
        kv_put_error(e, "ERR this script needs KEYS[1]");
        return KV_DONE;
    }
    o = script_equal(s, 0, &there, &equal);
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    if (equal)
        return script_on_equal(s);
    kv_put_integer(e, s->kind == SCRIPT_PTTL                         ? -3
                      : s->kind == SCRIPT_DELETE_OR_ABSENT && !there ? -1
                                                                     : 0);
    return KV_DONE;
}

/* The time of a lock on several keys. 0, or the error is written. */
static int script_lock_time(struct script_run *s, int64_t *expire_ms)
{
    int64_t now = (int64_t)kv_store_wall_ms(s->command->store);

    if (script_number(s, 1, expire_ms) != 0)
        return -1;
    if (*expire_ms <= 0 || *expire_ms > INT64_MAX - now) {
        kv_put_error(s->command->engine, "ERR invalid expire time in 'set' command");
        return -1;
    }
    *expire_ms += now;
    return 0;
}

/* SCRIPT_LOCK_ALL, SCRIPT_EXTEND_ALL: every key is free or ours, then all are set. */
static enum kv_outcome script_lock_all(struct script_run *s)
{
    struct kv_command *c = s->command;
    int64_t expire_ms;
    int stored = 1;
    int equal;
    int there;
    int r;

    for (uint32_t i = 0; i < s->key_count; i++) {
        enum kv_outcome o = script_equal(s, i, &there, &equal);

        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        if (s->kind == SCRIPT_LOCK_ALL ? there : !equal) {
            kv_put_integer(c->engine, 0);
            return KV_DONE;
        }
    }
    if (s->key_count > 0 && script_lock_time(s, &expire_ms) != 0)
        return KV_DONE;
    r = script_room(s, s->key_count > 0 ? s->args[0].size : 0, 0);
    if (r != 0)
        return kv_write_failed(c, r);
    for (uint32_t i = 0; i < s->key_count; i++) {
        enum kv_outcome o = script_put(s, i, &s->args[0], (uint64_t)expire_ms, &stored);

        if (o != KV_DONE || !stored)
            return o;
    }
    kv_put_integer(c->engine, s->key_count);
    return KV_DONE;
}

/* SCRIPT_UNLOCK_ALL: which are ours is known before the first deletion. */
static enum kv_outcome script_unlock_all(struct script_run *s)
{
    struct kv_command *c = s->command;
    unsigned char *ours = calloc(s->key_count + 1u, 1);
    enum kv_outcome o = KV_DONE;
    int64_t done = 0;
    int equal;
    int there;
    int r = ours == NULL ? SNIC_ENOMEM : 0;

    for (uint32_t i = 0; r == 0 && o == KV_DONE && i < s->key_count; i++) {
        o = script_equal(s, i, &there, &equal);
        ours[i] = (unsigned char)equal;
    }
    if (o != KV_DONE) {
        free(ours);
        return o == KV_LATER ? KV_DONE : o;
    }
    if (r == 0)
        r = script_room(s, 0, 1);
    if (r != 0)
        o = kv_write_failed(c, r);
    for (uint32_t i = 0; r == 0 && o == KV_DONE && i < s->key_count; i++)
        if (ours[i] && kv_command_lookup(c, c->database, &s->keys[i], 0) != NULL) {
            o = script_delete(s, i);
            done++;
        }
    free(ours);
    if (r == 0 && o == KV_DONE)
        kv_put_integer(c->engine, done);
    return o;
}

static enum kv_outcome script_run(struct kv_command *c, enum script_kind kind, int64_t keys)
{
    struct script_run s = {
        c, kind, c->argv + 3, (uint32_t)keys, c->argv + 3 + keys, c->argc - 3 - (uint32_t)keys};

    for (uint32_t i = 0; i < s.key_count; i++)
        if (s.keys[i].size > c->engine->opts.key_max) {
            kv_put_error(c->engine, "ERR key is longer than %u bytes", c->engine->opts.key_max);
            return KV_DONE;
        }
    if (s.arg_count > 0 && s.args[0].size > c->engine->opts.value_max) {
        kv_put_error(c->engine, "ERR value is longer than %u bytes", c->engine->opts.value_max);
        return KV_DONE;
    }
    if (kind == SCRIPT_UNLOCK_ALL)
        return script_unlock_all(&s);
    if (kind == SCRIPT_LOCK_ALL || kind == SCRIPT_EXTEND_ALL)
        return script_lock_all(&s);
    return script_one(&s);
}

enum kv_outcome kv_cmd_eval(struct kv_command *c)
{
    int by_name = strcmp(c->spec->name, "evalsha") == 0;
    char name[2 * SHA1_SIZE + 1];
    enum script_kind kind;
    int64_t keys;

    if (by_name && c->argv[1].size != 2 * SHA1_SIZE) { /* first, as in Redis */
        kv_put_error(c->engine, "NOSCRIPT No matching script. Please use EVAL.");
        return KV_DONE;
    }
    if (kv_number(c, &c->argv[2], &keys) != 0)
        return KV_DONE;
    if (keys > (int64_t)c->argc - 3) {
        kv_put_error(c->engine, "ERR Number of keys can't be greater than number of args");
        return KV_DONE;
    }
    if (keys < 0) {
        kv_put_error(c->engine, "ERR Number of keys can't be negative");
        return KV_DONE;
    }
    kind =
        by_name ? script_named(c->engine, &c->argv[1]) : script_learn(c->engine, &c->argv[1], name);
    if (kind == SCRIPT_UNKNOWN) {
        if (by_name)
            kv_put_error(c->engine, "NOSCRIPT No matching script. Please use EVAL.");
        return KV_DONE;
    }
    return script_run(c, kind, keys);
}

/* ---- SCRIPT ---- */

static void script_flush(struct kv_command *c)
{
    if (c->argc > 3 ||
        (c->argc == 3 && !resp_arg_is(&c->argv[2], "async") && !resp_arg_is(&c->argv[2], "sync"))) {
        kv_put_error(c->engine, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    if (c->engine->scripts != NULL)
        c->engine->scripts->count = c->engine->scripts->next = 0;
    kv_put_text(c->engine, "+OK\r\n");
}

enum kv_outcome kv_cmd_script(struct kv_command *c)
{
    static const char *const help[] = {
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    Which of these scripts EVALSHA finds.",
        "FLUSH [ASYNC|SYNC]",
        "    Forget them all.",
        "KILL",
        "    An error: no script runs for long.",
        "LOAD <script>",
        "    Make a script known to EVALSHA; the lock scripts of client libraries only.",
        "HELP",
        "    Print this help."};
    struct kv_engine *e = c->engine;
    char name[2 * SHA1_SIZE + 1];

    if (kv_subcommand(c, "load")) {
        if (script_learn(e, &c->argv[2], name) != SCRIPT_UNKNOWN)
            kv_put_bulk(e, name, 2 * SHA1_SIZE);
    } else if (kv_subcommand(c, "exists")) {
        kv_put_count(e, '*', (int64_t)c->argc - 2);
        for (uint32_t i = 2; i < c->argc; i++)
            kv_put_integer(e, script_named(e, &c->argv[i]) != SCRIPT_UNKNOWN);
    } else if (kv_subcommand(c, "flush")) {
        script_flush(c);
    } else if (kv_subcommand(c, "kill")) {
        kv_put_error(e, "NOTBUSY No scripts in execution right now.");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(e, help, SNIC_COUNTOF(help));
    }
    return KV_DONE;
}
