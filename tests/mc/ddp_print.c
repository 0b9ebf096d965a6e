/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What happens to a node, as text that does not depend on numbers assigned on the way. */
#include "ddp_node.h"

#include <inttypes.h>
#include <stdio.h>

static void print_ts(char *text, size_t size, uint64_t ts)
{
    (void)snprintf(text, size, "%" PRIu32 ".%" PRIu64 ".%" PRIu32, snic_ddp_ts_epoch(ts),
                   snic_ddp_ts_version(ts), snic_ddp_ts_node(ts));
}

static void print_message(const struct snic_ddp_msg *m, char *text, size_t size)
{
    static const char *const types[] = {
        "?",       "INV",         "ACK",           "ACK_C",     "ACK_P", "VAL",  "VAL_C",  "VAL_P",
        "PERSIST", "PERSIST_ACK", "PERSIST_VAL",   "QUERY",     "NACK",  "PULL", "RECORD", "PULLED",
        "DIGEST",  "RESTARTED",   "PURGE_REQUEST", "PURGE_ACK", "PURGE", "OFFER"};
    char ts[48], seen[2][48];

    print_ts(ts, sizeof(ts), m->ts);
    print_ts(seen[0], sizeof(seen[0]), m->seen[0]);
    print_ts(seen[1], sizeof(seen[1]), m->seen[1]);
    (void)snprintf(text, size,
                   "gets %s from %u: key %u ts %s value %u scope %" PRIx64
                   " flags %x epoch %u seen %s %s index %u",
                   m->type < sizeof(types) / sizeof(types[0]) ? types[m->type] : "?", m->src,
                   (unsigned)m->key.w[0], ts, (unsigned)m->value, m->scope, m->flags, m->epoch,
                   seen[0], seen[1], m->index);
}

static void print_timer(const struct snic_ddp_timer *t, char *text, size_t size)
{
    static const char *const kinds[] = {"?",    "WRITE",   "SCOPE", "LOCK",
                                        "PULL", "RESTART", "PURGE", "SWEEP"};
    char ts[48];

    print_ts(ts, sizeof(ts), t->ts);
    (void)snprintf(text, size, "timer %s: key %u ts %s",
                   t->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[t->kind] : "?",
                   (unsigned)t->key.w[0], ts);
}

void dn_event_print(const struct dn_space *s, uint32_t node, uint32_t event, char *text,
                    size_t size)
{
    static const char *const kinds[] = {
        "?", "?",        "writes",          "deletes", "swaps",   "syncs", "has durable", "flushed",
        "?", "installs", "loses its lease", "crashes", "reboots", "reads", "returns"};
    static const char *const durabilities[] = {"",        ", memory", ", here", ", all",
                                               ", scope", ", ?5",     ", ?6",   ", ?7"};
    uint32_t kind = event >> 27, arg = event & ((1u << 27) - 1);
    char what[256];

    what[0] = '\0';
    if (kind == DN_MESSAGE) {
        print_message(dn_message(s, arg), what, sizeof(what));
    } else if (kind == DN_FIRE) {
        struct snic_ddp_timer t = dn_timer(s, node, arg);

        print_timer(&t, what, sizeof(what));
    } else if (kind == DN_INSTALL) {
        const struct snic_ddp_view *v = dn_view_at(s, arg);

        (void)snprintf(what, sizeof(what), "installs epoch %u full %x learners %x%s", v->epoch,
                       v->full, v->learners, v->restart ? " restart" : "");
    } else if (kind == DN_WRITE || kind == DN_DELETE || kind == DN_CAS) {
        (void)snprintf(what, sizeof(what), "%s key %u value %u scope %u%s", kinds[kind], arg & 15,
                       arg >> 4 & 255, arg >> 12 & 255, durabilities[DN_DURABILITY(arg)]);
    } else if (kind == DN_READ) {
        (void)snprintf(what, sizeof(what), "%s %u%s", kinds[kind], arg & 255,
                       durabilities[DN_DURABILITY(arg)]);
    } else {
        (void)snprintf(what, sizeof(what), "%s %u", kinds[kind], arg);
    }
    (void)snprintf(text, size, "%u %.150s", dn_sum(s, node)->id, what);
}
