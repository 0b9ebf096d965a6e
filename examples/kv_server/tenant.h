/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/tenant.h
 * Tenants that share the device: databases, or clients by name. Both roles have the same table,
 * from the same options; what differs between connections is in the connection's word.
 *
 * Numbers. The device's tenant 0 is the server itself: its tables, recovery, compaction. Tenant 1 +
 * n is database n, or the n-th name given with --tenant, where n = 0 is of all others ("default").
 * The connection's word has the database in bits 0..15 and the name's n in bits 16..31.
 */
#ifndef KV_TENANT_H
#define KV_TENANT_H

#include <stddef.h>
#include <stdint.h>

#define KV_TENANT_LIST_MAX 64
#define KV_TENANT_NAME_MAX 64
/** Of the server itself, before all others. */
#define KV_TENANT_SERVER 0u
#define KV_TENANT_OWN "server"
/** The tenant of clients without a name, or with one that is not listed. */
#define KV_TENANT_DEFAULT "default"

/** What a metric's name may have of a tenant's; '_' stands for the rest. */
static inline int kv_tenant_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum kv_tenant_by { KV_TENANT_DATABASE, KV_TENANT_CLIENT };

/** One --tenant. */
struct kv_tenant {
    char name[KV_TENANT_NAME_MAX];
    uint32_t number; /**< 1 + n                                                          */
    uint32_t weight; /**< 0: 1                                                           */
    uint64_t bytes;  /**< per second; 0: no cap                                          */
    uint64_t ios;
};

struct kv_tenants {
    int on;
    enum kv_tenant_by by;
    uint32_t databases;
    uint32_t count;
    struct kv_tenant list[KV_TENANT_LIST_MAX];
    char error[384]; /**< what the last parse or check found                             */
};

/** Add NAME[:weight=N][:bytes=N[K|M|G]][:ios=N]. @return 0; -1 and t->error */
int kv_tenant_parse(struct kv_tenants *t, const char *text);
/** Number the list. @return 0; -1 and t->error */
int kv_tenants_check(struct kv_tenants *t);
/** Tenants with the server's. */
uint32_t kv_tenants_count(const struct kv_tenants *t);
/** The device's tenant of a connection with this word; 0 when @p t is off or NULL. */
uint32_t kv_tenant_of(const struct kv_tenants *t, uint64_t user);
/** The word of a connection that is called @p name from now on. */
uint64_t kv_tenant_named(const struct kv_tenants *t, uint64_t user, const char *name);
/** The name of a number, for people. @p out holds KV_TENANT_NAME_MAX bytes. */
void kv_tenant_name(const struct kv_tenants *t, uint32_t number, char *out);

#endif
