/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** One packet of each type, as fields and as the bytes that were written down for it. */
#ifndef SNIC_TEST_EBS_UTIL_H
#define SNIC_TEST_EBS_UTIL_H

#include "snicstore/ebs.h"

/** The token of ebs_golden.py: rights 5, key 0x5167, generation 3 << 16, account 0xacc00001; its
 * signing key is of 64 bytes, 1 ... 64. */
extern const unsigned char ebs_sample_token[SNIC_EBS_TOKEN_BYTES];

/** The direction that a type goes; those that go both ways go to the client here. */
unsigned ebs_way(unsigned type);
/** The fields of the sample of @p type. */
void ebs_sample(struct snic_ebs_header *h, unsigned type);
/** Its body; returns the size. @p body has SNIC_EBS_BLOCK_BYTES. */
uint32_t ebs_sample_body(unsigned char *body, unsigned type);
/** The whole packet in @p out (SNIC_EBS_PACKET_BYTES), by the encoder; returns its size. */
uint32_t ebs_sample_packet(unsigned char *out, unsigned type, struct snic_ebs_place *place);
/** Write the hdr_crc that makes a changed packet whole again: by the definition, not the codec. */
void ebs_forge(unsigned char *packet, const struct snic_ebs_place *place, unsigned direction);

#endif
