/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of tenants: from options to numbers. */
#include "tenant.h"

#include <stdio.h>
#include <string.h>

#define KV_TENANT_WEIGHT_MAX 256u

/* ---- Options ---- */

/* A number with K, M or G behind it, ending at ':' or the end. @return 0 or -1 */
static int tenant_number(const char *text, size_t size, int suffix, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;

    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (v > (UINT64_MAX - 9) / 10)
            return -1;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    if (i == 0)
        return -1;
    if (suffix && i + 1 == size) {
        const char *units = "KMG";
        const char *u = strchr(units, text[i]);

        if (u == NULL || v > UINT64_MAX >> 30)
            return -1;
        v <<= 10 * (u - units + 1);
        i++;
    }
    *out = v;
    return i == size && v >= 1 && v <= max ? 0 : -1;
}

static int tenant_setting(struct kv_tenants *t, struct kv_tenant *k, const char *text, size_t size)
{
    static const struct {
        const char *name;
        int suffix;
        uint64_t max;
    } settings[] = {{"weight=", 0, KV_TENANT_WEIGHT_MAX},
                    {"bytes=", 1, (uint64_t)1 << 40},
                    {"ios=", 0, (uint64_t)1 << 40}};

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        size_t n = strlen(settings[i].name);
        uint64_t v;

        if (size < n || memcmp(text, settings[i].name, n) != 0)
            continue;
        if (tenant_number(text + n, size - n, settings[i].suffix, settings[i].max, &v) != 0) {
            snprintf(t->error, sizeof(t->error), "'%.*s' is not a number from 1 to %llu", (int)size,
                     text, (unsigned long long)settings[i].max);
            return -1;
        }
        if (i == 0)
            k->weight = (uint32_t)v;
        else if (i == 1)
            k->bytes = v;
        else
            k->ios = v;
        return 0;
    }
    snprintf(t->error, sizeof(t->error), "'%.*s' is neither weight=N nor bytes=N nor ios=N",
             size < 60 ? (int)size : 60, text);
    return -1;
}

/* Metrics have '_' for whatever is neither a letter nor a digit: names that are one there. */
static int tenant_alike(const char *a, const char *b)
{
    while (*a != 0 && (*a == *b || (!kv_tenant_alnum(*a) && !kv_tenant_alnum(*b) && *b != 0)))
        a++, b++;
    return *a == *b;
}

int kv_tenant_parse(struct kv_tenants *t, const char *text)
{
    struct kv_tenant k;
    size_t size = strcspn(text, ":");

    memset(&k, 0, sizeof(k));
    if (size == 0 || size >= sizeof(k.name)) {
        snprintf(t->error, sizeof(t->error),
                 "'%.*s': the name of a tenant must have 1 to %zu bytes",
                 size < 70 ? (int)size : 70, text, sizeof(k.name) - 1);
        return -1;
    }
    memcpy(k.name, text, size);
    for (text += size; *text == ':'; text += size) {
        text++;
        size = strcspn(text, ":");
        if (tenant_setting(t, &k, text, size) != 0)
            return -1;
    }
    if (strcmp(k.name, KV_TENANT_OWN) == 0) {
        snprintf(t->error, sizeof(t->error), "'%s' is reserved for the server's own I/O", k.name);
        return -1;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        const char *name = t->list[i].name;
        if (strcmp(name, k.name) == 0) {
            snprintf(t->error, sizeof(t->error), "'%s' is set twice", k.name);
            return -1;
        }
        if (tenant_alike(name, k.name)) {
            snprintf(t->error, sizeof(t->error),
                     "'%s' and '%s' would have the same name in the metrics", name, k.name);
            return -1;
        }
    }
    if (t->count == KV_TENANT_LIST_MAX) {
        snprintf(t->error, sizeof(t->error), "more than %d tenants", KV_TENANT_LIST_MAX);
        return -1;
    }
    t->list[t->count++] = k;
    return 0;
}

int kv_tenants_check(struct kv_tenants *t)
{
    uint32_t next = 2; /* 1 is of all other clients */

    for (uint32_t i = 0; i < t->count; i++) {
        struct kv_tenant *k = &t->list[i];
        uint64_t database;

        if (t->by == KV_TENANT_CLIENT) {
            k->number = strcmp(k->name, KV_TENANT_DEFAULT) == 0 ? 1 : next++;
            continue;
        }
        if (strcmp(k->name, "0") == 0)
            database = 0;
        else if (tenant_number(k->name, strlen(k->name), 0, UINT32_MAX, &database) != 0 ||
                 k->name[0] == '0' || database >= t->databases) {
            snprintf(t->error, sizeof(t->error), "'%s' is not a database from 0 to %u", k->name,
                     t->databases - 1);
            return -1;
        }
        k->number = (uint32_t)database + 1;
    }
    return 0;
}

/* ---- Numbers ---- */

uint32_t kv_tenants_count(const struct kv_tenants *t)
{
    uint32_t n = 2;

    if (t->by == KV_TENANT_DATABASE)
        return 1 + t->databases;
    for (uint32_t i = 0; i < t->count; i++)
        n = t->list[i].number + 1 > n ? t->list[i].number + 1 : n;
    return n;
}

uint32_t kv_tenant_of(const struct kv_tenants *t, uint64_t user)
{
    if (t == NULL || !t->on)
        return KV_TENANT_SERVER;
    return 1 + (uint32_t)(t->by == KV_TENANT_DATABASE ? user & 0xffff : user >> 16 & 0xffff);
}

uint64_t kv_tenant_named(const struct kv_tenants *t, uint64_t user, const char *name)
{
    uint64_t n = 0;

    if (t == NULL || !t->on || t->by != KV_TENANT_CLIENT)
        return user;
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0)
            n = t->list[i].number - 1;
    return (user & ~((uint64_t)0xffff << 16)) | n << 16;
}

void kv_tenant_name(const struct kv_tenants *t, uint32_t number, char *out)
{
    if (number == KV_TENANT_SERVER) {
        snprintf(out, KV_TENANT_NAME_MAX, KV_TENANT_OWN);
        return;
    }
    if (t->by == KV_TENANT_DATABASE) {
        snprintf(out, KV_TENANT_NAME_MAX, "db%u", number - 1);
        return;
    }
    snprintf(out, KV_TENANT_NAME_MAX, "%s", KV_TENANT_DEFAULT);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->list[i].number == number)
            snprintf(out, KV_TENANT_NAME_MAX, "%s", t->list[i].name);
}
