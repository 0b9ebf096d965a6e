/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hiredis with its defaults: client_hiredis PORT */
#include <hiredis/hiredis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIPELINE 2000

static redisContext *context;

static void fail(const char *what)
{
    fprintf(stderr, "failed: %s: %s\n", what, context->errstr);
    exit(1);
}

static void expect_text(redisReply *r, int type, const char *text, size_t size)
{
    if (r == NULL || r->type != type || r->len != size || memcmp(r->str, text, size) != 0)
        fail(r != NULL && r->str != NULL ? r->str : text);
    freeReplyObject(r);
}

static void expect_integer(redisReply *r, long long n)
{
    if (r == NULL || r->type != REDIS_REPLY_INTEGER || r->integer != n)
        fail("an integer");
    freeReplyObject(r);
}

static redisReply *next(void)
{
    void *reply;

    if (redisGetReply(context, &reply) != REDIS_OK)
        fail("a reply of the pipeline");
    return reply;
}

static void pipeline(void)
{
    char text[16];

    for (int i = 0; i < PIPELINE; i++) {
        redisAppendCommand(context, "SET p%d %d", i, i);
        redisAppendCommand(context, "GET p%d", i);
    }
    for (int i = 0; i < PIPELINE; i++) {
        int n = snprintf(text, sizeof(text), "%d", i);

        expect_text(next(), REDIS_REPLY_STATUS, "OK", 2);
        expect_text(next(), REDIS_REPLY_STRING, text, (size_t)n);
    }
}

static void transaction(void)
{
    redisReply *r;

    expect_text(redisCommand(context, "MULTI"), REDIS_REPLY_STATUS, "OK", 2);
    expect_text(redisCommand(context, "SET t 5"), REDIS_REPLY_STATUS, "QUEUED", 6);
    expect_text(redisCommand(context, "INCR t"), REDIS_REPLY_STATUS, "QUEUED", 6);
    r = redisCommand(context, "EXEC");
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[1]->integer != 6)
        fail("EXEC");
    freeReplyObject(r);
}

int main(int argc, char **argv)
{
    char binary[256];
    redisReply *r;

    if (argc != 2)
        return 2;
    context = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
    if (context == NULL || context->err != 0)
        return 1;
    for (int i = 0; i < 256; i++)
        binary[i] = (char)i;
    expect_text(redisCommand(context, "FLUSHALL"), REDIS_REPLY_STATUS, "OK", 2);
    expect_text(redisCommand(context, "SET b %b", binary, sizeof(binary)), REDIS_REPLY_STATUS, "OK",
                2);
    expect_text(redisCommand(context, "GET b"), REDIS_REPLY_STRING, binary, sizeof(binary));
    r = redisCommand(context, "GET none");
    if (r == NULL || r->type != REDIS_REPLY_NIL)
        fail("a null");
    freeReplyObject(r);
    expect_integer(redisCommand(context, "INCRBY n 41"), 41);
    expect_integer(redisCommand(context, "APPEND b xyz"), 259);
    pipeline();
    transaction();
    redisFree(context);
    printf("hiredis %d.%d.%d ok\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    return 0;
}
