/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SNIC_TESTS_DIRFIX_PRIV_H
#define SNIC_TESTS_DIRFIX_PRIV_H

#include "dirfix.h"

/* dirstore.c */
int dirfix_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                struct snic_offload_read *out, struct snic_offload_reply *reply);
enum snic_offload_verdict dirfix_judge(void *ctx, const struct snic_offload_msg *msg,
                                       const struct snic_offload_read *op,
                                       const unsigned char *data, int64_t result, uint64_t now_ns,
                                       struct snic_offload_reply *out);
void dirfix_host_start(struct dirfix *f);
void dirfix_host_stop(struct dirfix *f);
void dirfix_server_start(struct dirfix *f);

#endif
