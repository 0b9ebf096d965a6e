/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/qos.h
 * The storage switch (snic_qos) under the DPU role's image, its statistics, and the messages by
 * which the host role receives them.
 */
#ifndef KV_QOS_H
#define KV_QOS_H

#include "../common.h"
#include "../server/memory.h"
#include "control.h"
#include "roles.h"

/** The switch in front of @p io, with the tenants of @p c; exits on failure. For ex_image_opts. */
struct snic_io *kv_qos_open(const struct kv_config *c, struct snic_io *io,
                            struct ex_memory *memory);
/** Keep what it has learned of the device (--devices). */
void kv_qos_keep(const struct kv_config *c, const struct snic_io *io);
/** Lift the caps of all tenants, so that the shutdown does not wait for I/Os delayed by them. */
void kv_qos_uncap(struct snic_io *io);
/** Statistics of the device. */
void kv_qos_device(const struct snic_io *io, struct kv_control_device *out);
/** The next tenant with any I/O so far. @return 0; -1 no further one */
int kv_qos_tenant(const struct snic_io *io, uint32_t *cursor, struct kv_control_tenant *out);
/** Metrics of the device and its tenants, at most @p max. @return how many */
size_t kv_qos_metrics(const struct kv_config *c, const struct snic_io *io, struct ex_metric *out,
                      size_t max);

/** What the host role has received from the DPU role, for INFO. */
struct kv_qos_heard {
    struct kv_control_device device;
    struct kv_control_tenant *tenants; /**< by number; magic 0: nothing yet              */
    uint32_t count;
};
void kv_qos_hear_init(struct kv_qos_heard *h, const struct kv_config *c);
/** Store @p msg if it is a report of a device or tenant. @return 1 if it is, else 0 */
int kv_qos_hear(struct kv_qos_heard *h, const void *msg, uint32_t size);
void kv_qos_hear_fini(struct kv_qos_heard *h);
/** The section "# Tenants" or "# Device" of INFO, as @p section names it. @return bytes */
size_t kv_qos_info(const struct kv_qos_heard *h, const struct kv_config *c, const char *section,
                   char *out, size_t max);

#endif
