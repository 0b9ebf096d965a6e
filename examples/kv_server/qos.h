/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/qos.h
 * The storage switch under the DPU role's image, and both roles' figures and messages about it.
 */
#ifndef KV_QOS_H
#define KV_QOS_H

#include "../common.h"
#include "control.h"
#include "roles.h"

/** The switch in front of @p io, with the tenants of @p c; exits on failure. For ex_image_opts. */
struct snic_io *kv_qos_open(const struct kv_config *c, struct snic_io *io, void **memory);
/** What is inside need not wait for caps any more: the end waits for it. */
void kv_qos_uncap(struct snic_io *io);
/** The device's figures. */
void kv_qos_device(const struct snic_io *io, struct kv_control_device *out);
/** The next tenant that has had work. @return 0; -1 that was all */
int kv_qos_tenant(const struct snic_io *io, uint32_t *cursor, struct kv_control_tenant *out);
/** Metrics of both, at most @p max of them. @return how many */
size_t kv_qos_metrics(const struct kv_config *c, const struct snic_io *io, struct ex_metric *out,
                      size_t max);

/** What the host role has received from the DPU role, for INFO. */
struct kv_qos_heard {
    struct kv_control_device device;
    struct kv_control_tenant *tenants; /**< by number; magic 0: nothing yet              */
    uint32_t count;
};
void kv_qos_hear_init(struct kv_qos_heard *h, const struct kv_config *c);
/** Take a message in. @return 1 it was one of these */
int kv_qos_hear(struct kv_qos_heard *h, const void *msg, uint32_t size);
void kv_qos_hear_fini(struct kv_qos_heard *h);
/** The section "# Tenants" or "# Device" of INFO, as @p section names it. @return bytes */
size_t kv_qos_info(const struct kv_qos_heard *h, const struct kv_config *c, const char *section,
                   char *out, size_t max);

#endif
