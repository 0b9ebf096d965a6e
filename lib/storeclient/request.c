/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A request: an array of bulk strings. Key and value are sent from where they are, the rest is
 * written into the attempt's text.
 */
#include "storeclient_priv.h"

static void storeclient_text(struct storeclient_attempt *a, const char *text, size_t size)
{
    SNIC_ASSERT(a->text_size + size <= SNIC_STORECLIENT__TEXT);
    memcpy(a->text + a->text_size, text, size);
    a->text_size += (uint32_t)size;
}

/* Decimal digits. @return how many */
static size_t storeclient_digits(char out[20], uint64_t n)
{
    char back[20];
    size_t size = 0;
    do {
        back[size++] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    for (size_t i = 0; i < size; i++)
        out[i] = back[size - 1 - i];
    return size;
}

/* A line: a number behind its type. */
static void storeclient_number(struct storeclient_attempt *a, char type, uint64_t n)
{
    char line[23] = {type};
    size_t size = 1 + storeclient_digits(line + 1, n);
    memcpy(line + size, "\r\n", 2);
    storeclient_text(a, line, size + 2);
}

static void storeclient_string(struct storeclient_attempt *a, const char *text, size_t size)
{
    storeclient_number(a, '$', size);
    storeclient_text(a, text, size);
    storeclient_text(a, "\r\n", 2);
}

static void storeclient_word(struct storeclient_attempt *a, const char *word)
{
    storeclient_string(a, word, strlen(word));
}

static void storeclient_word_number(struct storeclient_attempt *a, uint64_t n)
{
    char digits[20];
    storeclient_string(a, digits, storeclient_digits(digits, n));
}

static void storeclient_piece(struct storeclient_attempt *a, const void *data, size_t size)
{
    uint32_t i = a->send.iov_count++;
    SNIC_ASSERT(i < SNIC_STORECLIENT__PIECES);
    a->iov[i].base = (void *)(uintptr_t)data;
    a->iov[i].size = size;
}

static void storeclient_begin(struct storeclient_attempt *a)
{
    memset(&a->send, 0, sizeof(a->send));
    a->send.region = SNIC_NO_REGION;
    a->send.iov = a->iov;
    a->text_size = 0;
}

void storeclient_request_words(struct storeclient_attempt *a, const char *const *words,
                               uint32_t count)
{
    storeclient_begin(a);
    storeclient_number(a, '*', count);
    for (uint32_t i = 0; i < count; i++)
        storeclient_word(a, words[i]);
    storeclient_piece(a, a->text, a->text_size);
}

static const char *storeclient_verb(uint32_t kind)
{
    switch (kind) {
    case SNIC_STORE_GET:
        return "GET";
    case SNIC_STORE_PUT:
        return "PUT";
    case SNIC_STORE_DELETE:
        return "DEL";
    default:
        return "EXPIRE";
    }
}

/* Writes the options when @p a is not NULL. @return how many words they are */
static uint32_t storeclient_options(const struct snic_storeclient *c, struct storeclient_attempt *a,
                                    const struct snic_storeclient_op *op, uint64_t now_ns)
{
    static const char *const durability[] = {"", "memory", "here", "all"};
    static const char *const condition[] = {"", "absent", "present"};
    uint32_t words = 0;
    if (op->kind == SNIC_STORE_EXPIRE || op->ttl_ns != 0) {
        words += 2;
        if (a != NULL) {
            storeclient_word(a, "TTL");
            storeclient_word_number(a, op->ttl_ns / 1000000);
        }
    }
    for (uint32_t flag = 0; flag < 2; flag++) {
        uint32_t bit = flag == 0 ? (uint32_t)SNIC_STORE_KEEP_TTL : (uint32_t)SNIC_STORE_CONFIRM;
        words += (op->flags & bit) != 0;
        if (a != NULL && (op->flags & bit) != 0)
            storeclient_word(a, flag == 0 ? "KEEPTTL" : "CONFIRM");
    }
    if (op->condition != SNIC_STORE_ALWAYS) {
        words += 2;
        if (a != NULL && op->condition == SNIC_STORE_IF_VERSION) {
            storeclient_word(a, "IFVERSION");
            storeclient_word_number(a, op->version);
        } else if (a != NULL) {
            storeclient_word(a, "IF");
            storeclient_word(a, condition[op->condition]);
        }
    }
    if (op->durability != SNIC_DDP_DURABILITY_DEFAULT) {
        words += 2;
        if (a != NULL) {
            storeclient_word(a, "DURABILITY");
            storeclient_word(a, durability[op->durability]);
        }
    }
    if (op->copies_min != 0) {
        words += 2;
        if (a != NULL) {
            storeclient_word(a, "COPIES");
            storeclient_word_number(a, op->copies_min);
        }
    }
    if (op->kind != SNIC_STORE_GET) {
        words += 5;
        if (a != NULL) {
            storeclient_word(a, "SESSION");
            storeclient_word_number(a, c->o.client);
            storeclient_word_number(a, op->sequence);
            storeclient_word_number(a, op->seen);
            storeclient_word_number(a, (now_ns - op->begun_ns) / 1000000);
        }
    }
    return words;
}

void storeclient_request_op(const struct snic_storeclient *c, struct storeclient_attempt *a,
                            uint64_t now_ns)
{
    const struct snic_storeclient_op *op = a->op;
    uint32_t from;
    storeclient_begin(a);
    storeclient_number(
        a, '*', 3u + (op->kind == SNIC_STORE_PUT) + storeclient_options(c, NULL, op, now_ns));
    storeclient_word(a, "STORE");
    storeclient_word(a, storeclient_verb(op->kind));
    storeclient_number(a, '$', op->key_size);
    storeclient_piece(a, a->text, a->text_size);
    storeclient_piece(a, op->key, op->key_size);
    from = a->text_size;
    storeclient_text(a, "\r\n", 2);
    if (op->kind == SNIC_STORE_PUT) {
        storeclient_number(a, '$', op->size);
        storeclient_piece(a, a->text + from, a->text_size - from);
        storeclient_piece(a, op->data, op->size);
        from = a->text_size;
        storeclient_text(a, "\r\n", 2);
    }
    (void)storeclient_options(c, a, op, now_ns);
    storeclient_piece(a, a->text + from, a->text_size - from);
}
