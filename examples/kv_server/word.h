/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/word.h
 * The word of a connection that both roles know (the director's conn_user): what the DPU role
 * needs in order to answer for the host, and what a new host must know about connections that
 * outlived the one before.
 *
 *   bits 0..15   database
 *   bits 16..31  tenant (tenant.h)
 *   bits 32..    KV_WORD_*
 *
 * The host changes it with a reply (KV_REPLY_USER); the DPU sets KV_WORD_MULTI by itself when
 * it sees MULTI, so that no command behind it is taken for one outside of a transaction.
 */
#ifndef KV_WORD_H
#define KV_WORD_H

#include <stdint.h>

#define KV_WORD_DATABASE ((uint64_t)0xffff)
#define KV_WORD_AUTH ((uint64_t)1 << 32)   /**< may run commands although there is a password    */
#define KV_WORD_MULTI ((uint64_t)1 << 33)  /**< between MULTI and EXEC                           */
#define KV_WORD_WATCH ((uint64_t)1 << 34)  /**< has watched keys                                 */
#define KV_WORD_RESP3 ((uint64_t)1 << 35)  /**< replies are RESP3                                */
#define KV_WORD_SILENT ((uint64_t)1 << 36) /**< CLIENT REPLY OFF */
#define KV_WORD_SKIP ((uint64_t)1 << 37)   /**< CLIENT REPLY SKIP: the next command's            */

/** With one of these the host must see every message. */
#define KV_WORD_HOST (KV_WORD_MULTI | KV_WORD_SILENT | KV_WORD_SKIP)

#endif
