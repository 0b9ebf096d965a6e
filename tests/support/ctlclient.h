/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The clients of ctlfix, their sessions, and the oracle. */
#ifndef SNIC_TESTS_SUPPORT_CTLCLIENT_H
#define SNIC_TESTS_SUPPORT_CTLCLIENT_H

#include "ctlfix.h"

void ctlclient_init(struct ctlfix *f, uint32_t client);
void ctlclient_fini(struct ctlfix *f, uint32_t client);

#endif
