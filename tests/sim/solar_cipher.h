/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ciphers for tests, in a few lines and without any library: what they hide is easily found, but
 * a changed bit of a packet, another key or a number taken twice is detected.
 */
#ifndef SNIC_TESTS_SIM_SOLAR_CIPHER_H
#define SNIC_TESTS_SIM_SOLAR_CIPHER_H

#include "snicstore/ebs.h"

/** A key (gcm_*, 16 bytes) or a secret (mac). */
struct solar_toy_key {
    uint64_t bytes[2];
};
/** gcm_seal, gcm_open, gcm_rekey and mac; XTS is not there. */
extern const struct snic_ebs_sec_ops solar_toy_ops;

#endif
