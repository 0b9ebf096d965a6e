/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What happens to a node, as text that does not depend on numbers assigned on the way. */
#include "ddpnic_node.h"

#include <inttypes.h>
#include <stdio.h>

static void print_ts(char *text, size_t size, uint64_t ts)
{
    (void)snprintf(text, size, "%" PRIu32 ".%" PRIu64 ".%" PRIu32, snic_ddp_ts_epoch(ts),
                   snic_ddp_ts_version(ts), snic_ddp_ts_node(ts));
}

static void print_message(const struct snic_ddp_msg *m, char *text, size_t size)
{
    static const char *const types[] = {"?",       "INV",         "ACK",        "ACK_C",
                                        "ACK_P",   "VAL",         "VAL_C",      "VAL_P",
                                        "PERSIST", "PERSIST_ACK", "PERSIST_VAL"};
    char ts[48];

    print_ts(ts, sizeof(ts), m->ts);
    (void)snprintf(text, size, "gets %s from %u: key %u ts %s value %u scope %u flags %x epoch %u",
                   m->type < sizeof(types) / sizeof(types[0]) ? types[m->type] : "?", m->src,
                   (unsigned)m->key.w[0], ts, (unsigned)m->value, (unsigned)m->scope, m->flags,
                   m->epoch);
}

void xn_event_print(const struct xn_space *s, uint32_t node, uint32_t event, char *text,
                    size_t size)
{
    static const char *const kinds[] = {"?",
                                        "?",
                                        "writes",
                                        "deletes",
                                        "syncs",
                                        "PCIe to the NIC",
                                        "PCIe to the host",
                                        "completes",
                                        "timer",
                                        "installs",
                                        "loses its lease",
                                        "crashes"};
    static const char *const types[] = {"VSTORE", "DSTORE", "DMA", "LOG", "MARK"};
    uint32_t kind = event >> 27, arg = XN_ARG(event);
    char what[192], ts[48];

    what[0] = '\0';
    if (kind == XN_MESSAGE) {
        print_message(xn_message(s, arg), what, sizeof(what));
    } else if (kind == XN_FIRE) {
        struct snic_ddp_timer t = xn_timer(s, node, arg);

        print_ts(ts, sizeof(ts), t.ts);
        (void)snprintf(what, sizeof(what), "timer %u: key %u ts %s", t.kind, (unsigned)t.key.w[0],
                       ts);
    } else if (kind == XN_COMPLETE) {
        struct xn_under_way u = xn_under_way(s, node, arg);

        print_ts(ts, sizeof(ts), u.ts);
        (void)snprintf(what, sizeof(what), "%s done: key %u ts %s id %u", types[u.type], u.key, ts,
                       u.id);
    } else if (kind == XN_INSTALL) {
        const struct snic_ddp_view *v = xn_view_at(s, arg);

        (void)snprintf(what, sizeof(what), "installs epoch %u full %x", v->epoch, v->full);
    } else if (kind == XN_WRITE || kind == XN_DELETE) {
        (void)snprintf(what, sizeof(what), "%s key %u value %u scope %u", kinds[kind], arg & 15,
                       arg >> 4 & 255, arg >> 12);
    } else {
        (void)snprintf(what, sizeof(what), "%s %u", kinds[kind], arg);
    }
    (void)snprintf(text, size, "%u %.150s", xn_sum(s, node)->id, what);
}
