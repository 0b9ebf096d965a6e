/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/kvop.h
 * The vocabulary of a key-value store: keys, guards, changes and operations as plain data. The
 * door kv.h executes them; an engine such as kvfs.h requests them and never sees a store.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain data. Whatever an operation points to is borrowed until it has completed.
 * Threads     None of its own.
 * Progress    No call blocks.
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 *
 * Records. A key is (group, bytes), a value 1..SNIC_KVOP_VALUE_MAX bytes (never empty: only some
 * stores distinguish an empty value from no value). Within a group keys are ordered as byte
 * strings (memcmp, a prefix first). A commit whose keys are all of one group is atomic on every
 * store; one that names several groups needs SNIC_KV_CAP_ATOMIC_MULTI.
 *
 * Damage. A store whose records have checksums (see kv.h) detects a damaged record when it is read,
 * and others are not affected: GET of it is SNIC_ECORRUPT, the other keys of that GET are
 * answered; SCAN delivers its key in its place, with no value, and continues; GROUPS reports its
 * group. A guard on it, also a guard for its absence, fails the commit with SNIC_ECORRUPT; PUT and
 * DELETE without such a guard repair it.
 *
 * Objects. A 64-bit name and a sparse array of SNIC_KVOP_OBJECT_MAX bytes that exists without
 * creation: bytes never written, punched or truncated read as zeros. An object has no
 * length of its own. Space is taken in blocks of SNIC_KVOP_BLOCK bytes. An aligned block is
 * written as a whole or not at all, also across a crash, where the store has
 * SNIC_KV_CAP_ATOMIC_BLOCK.
 *
 * Order. Operations in flight together are unordered. An operation submitted after another's
 * completion sees its effect. Only SNIC_KVOP_DURABLE and SYNC make operations durable.
 */
#ifndef SNIC_KVOP_H
#define SNIC_KVOP_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_KVOP_KEY_MAX 54U
#define SNIC_KVOP_VALUE_MAX 69632U /**< 68 KiB: an extended attribute of 64 KiB and its name */
#define SNIC_KVOP_BLOCK 8192U
#define SNIC_KVOP_OBJECT_MAX (1ULL << 62)
#define SNIC_KVOP_CHANGES_MAX 64U         /**< of one commit                                    */
#define SNIC_KVOP_GUARDS_MAX 64U          /**< of one commit                                    */
#define SNIC_KVOP_COMMIT_MAX 524288U      /**< bytes of values and guards of one commit         */
#define SNIC_KVOP_GETS_MAX 64U            /**< keys of one GET                                  */
#define SNIC_KVOP_TRANSFER_MAX (4U << 20) /**< bytes of one object READ or WRITE            */
#define SNIC_KVOP_IOV_MAX 257U            /**< pieces of one object READ or WRITE           */
#define SNIC_KVOP_IDENTITY_MAX 128U       /**< bytes of a client's identity                     */

/** Copied freely; bytes beyond size are zero, so that equal keys are equal structs. */
struct snic_kvop_key {
    uint64_t group;
    uint8_t size; /**< 1..SNIC_KVOP_KEY_MAX */
    uint8_t bytes[SNIC_KVOP_KEY_MAX];
    uint8_t pad;
};

enum snic_kvop_kind {
    SNIC_KVOP_GET = 1,              /**< gets[0..get_count)                                      */
    SNIC_KVOP_SCAN = 2,             /**< records of a group by prefix, in key order              */
    SNIC_KVOP_GROUPS = 3,           /**< names of groups and objects that hold anything          */
    SNIC_KVOP_COMMIT = 4,           /**< guards, then changes, all or nothing                    */
    SNIC_KVOP_OBJECT_READ = 5,      /**< [offset, offset+length) into iov                        */
    SNIC_KVOP_OBJECT_WRITE = 6,     /**< iov to [offset, offset+length)                          */
    SNIC_KVOP_OBJECT_ZERO = 7,      /**< reads as zeros; keeps the space (or takes it)           */
    SNIC_KVOP_OBJECT_PUNCH = 8,     /**< reads as zeros; whole blocks are freed                  */
    SNIC_KVOP_OBJECT_ALLOC = 9,     /**< takes the space, content as it was; later writes into it do
                                         not fail for want of space. Capability ALLOC           */
    SNIC_KVOP_OBJECT_TRUNCATE = 10, /**< all from offset on reads as zeros and is freed;
                                         offset 0 removes the object                        */
    SNIC_KVOP_OBJECT_SEEK = 11, /**< first byte >= offset in a block that has space (flag SEEK_HOLE:
                                     that has none); space without data counts as data        */
    SNIC_KVOP_OBJECT_STAT = 12, /**< space taken                                             */
    SNIC_KVOP_SYNC = 13,        /**< all that completed before is durable                    */
    SNIC_KVOP_SPACE = 14,       /**< bytes of the store: all and free                        */
    /**
     * The client whose identity is in iov (one piece, its size in length) is shut out: when this
     * has completed with 0, no operation of it takes effect any more that had not before, and it
     * gets SNIC_ESHUTDOWN. It may be repeated. Capability FENCE.
     */
    SNIC_KVOP_FENCE = 15
};

/** COMMIT, OBJECT_*: complete when it survives power loss. */
#define SNIC_KVOP_DURABLE (1u << 0)
/** OBJECT_READ, OBJECT_WRITE: the caller has its own cache; the store need not cache it. */
#define SNIC_KVOP_DIRECT (1u << 1)
/** OBJECT_SEEK: look for a hole rather than for data. */
#define SNIC_KVOP_SEEK_HOLE (1u << 2)
/** COMMIT, OBJECT_WRITE...: may use the space reserved for removals (kvfs: unlink on a full store).
 */
#define SNIC_KVOP_RESERVE (1u << 3)

/** One key of a GET. */
struct snic_kvop_get {
    struct snic_kvop_key key;
    void *value;    /**< buffer of the value; borrowed                               */
    uint32_t room;  /**< its bytes                                                   */
    uint32_t size;  /**< out: bytes of the value, also when room is too small        */
    int32_t result; /**< out: 0; SNIC_ENOENT; SNIC_EMSGSIZE room too small; SNIC_ECORRUPT */
    uint32_t reserved;
};

/** The commit happens only if the record is equal to this. */
struct snic_kvop_guard {
    struct snic_kvop_key key;
    const void *value; /**< borrowed; NULL: there is no such record                     */
    uint32_t size;     /**< 0 when value is NULL                                        */
    uint32_t reserved;
};

enum snic_kvop_change_kind {
    SNIC_KVOP_PUT = 1,            /**< key, value, size                                  */
    SNIC_KVOP_DELETE = 2,         /**< key; a missing record is no error                 */
    SNIC_KVOP_CHANGE_WRITE = 3,   /**< object, offset, value, size: bytes into an object */
    SNIC_KVOP_CHANGE_TRUNCATE = 4 /**< object, offset                                    */
};

/**
 * One change of a commit; several changes of one key or of one object are refused. A commit may
 * hold one CHANGE_WRITE, of up to SNIC_KVOP_VALUE_MAX bytes. Where key groups and object are one
 * number and the bytes are within stripe_bytes (struct snic_kv), and everywhere with
 * SNIC_KV_CAP_ATOMIC_OBJECT, stores make it one step with the records; otherwise object bytes are
 * written before the records appear, and may have been written although the commit failed. A
 * TRUNCATE takes effect after the records, and after a crash perhaps not at all. The first one of a
 * commit without CHANGE_WRITE does not truncate bytes that a handle wrote after it had seen the
 * records, where key groups and object are one number: none of them, or (RADOS) none within
 * stripe_bytes; those behind may be truncated although they were written after.
 */
struct snic_kvop_change {
    struct snic_kvop_key key;
    const void *value; /**< borrowed                                                    */
    uint32_t size;
    uint32_t kind;   /**< enum snic_kvop_change_kind                                  */
    uint64_t object; /**< CHANGE_*                                                    */
    uint64_t offset; /**< CHANGE_*                                                    */
};

/** A record in SCAN's output, packed at multiples of 8; key bytes, then value bytes follow. */
struct snic_kvop_record {
    uint32_t bytes;      /**< to the next record, a multiple of 8                       */
    uint32_t value_size; /**< 0: the record is damaged, its value is unavailable           */
    uint8_t key_size;
    uint8_t pad[7];
};

/** An operation. Zero it, set kind and the fields of the kind. */
struct snic_kvop {
    uint32_t kind;  /**< enum snic_kvop_kind                                            */
    uint32_t flags; /**< SNIC_KVOP_*                                                    */

    struct snic_kvop_get *gets; /**< GET */
    uint32_t get_count;

    uint32_t guard_count; /**< COMMIT: may be 0 */
    struct snic_kvop_guard *guards;
    struct snic_kvop_change *changes;
    uint32_t change_count; /**< COMMIT: may be 0: the guards are checked alone */

    /**
     * SCAN: records of `key.group` whose bytes begin with key.bytes[0..key.size) (size 0: all),
     * behind `after` (size 0: from the first), at most scan_max, into out[0..out_room). The next
     * scan's `after` is the last key delivered. GROUPS: as u64 numbers into out; `cursor` in and
     * out.
     */
    uint32_t scan_max; /**< 1 or more */
    struct snic_kvop_key key;
    struct snic_kvop_key after;
    void *out;
    uint32_t out_room;  /**< SCAN: at least one record of the largest size is wise, else EMSGSIZE */
    uint32_t out_size;  /**< out: bytes used                                            */
    uint32_t out_count; /**< out: records or numbers                                   */
    uint32_t end;       /**< out: 1 when nothing follows                               */
    uint64_t cursor;    /**< GROUPS: 0 to begin; opaque                                */

    uint64_t object; /**< OBJECT_*                                                     */
    uint64_t offset;
    uint64_t length;      /**< READ and WRITE: the sum of the pieces, 1..TRANSFER_MAX  */
    struct snic_iov *iov; /**< READ, WRITE; borrowed                                   */
    uint32_t iov_count;

    /* -- results -- */
    uint32_t failed_guard; /**< SNIC_ECANCELED of a commit: its index; else UINT32_MAX      */
    /**
     * 0, or bytes for READ and WRITE (all of them: no short transfers), or the position for SEEK;
     * or SNIC_E*: SNIC_ECANCELED a guard failed, nothing was changed; SNIC_EMSGSIZE no room for
     * one record; SNIC_ENOENT a GET of one key, SEEK without a match; SNIC_ENOSPC; SNIC_ECORRUPT
     * a checksum is wrong (bad_offset; GET: of one key or several); SNIC_EIO; SNIC_ETIMEDOUT not
     * done, and will not be; SNIC_EUNKNOWN a change that may or may not have happened;
     * SNIC_EPEERDEAD the store is gone; SNIC_ESHUTDOWN this client was fenced (FENCE): nothing of
     * it takes effect any more, though this operation may have; SNIC_EACCES the client has no right
     * to do this.
     */
    int64_t result;
    int64_t allocated;   /**< change in the object's space in bytes; STAT: all of it        */
    uint64_t bad_offset; /**< SNIC_ECORRUPT of READ: where the block begins                  */
    uint64_t space;      /**< SPACE: bytes in all                                           */
    uint64_t space_free; /**< SPACE: bytes available                                         */
    int32_t os_error;    /**< raw code of the backend, 0 if none                             */
    uint32_t reserved;
};

/** A key of @p size bytes; @p bytes is copied. [any] */
static inline void snic_kvop_key_set(struct snic_kvop_key *k, uint64_t group, const void *bytes,
                                     uint32_t size)
{
    memset(k, 0, sizeof(*k));
    k->group = group;
    k->size = (uint8_t)size;
    memcpy(k->bytes, bytes, size);
}
/** Order of groups, then of bytes: < 0, 0 or > 0 as @p a is below, equal or above. [any] */
SNIC_API int snic_kvop_key_compare(const struct snic_kvop_key *a, const struct snic_kvop_key *b)
    SNIC_NONNULL(1, 2);
/**
 * Check that it is well-formed. Stores call it first. [any]
 * @param caps  SNIC_KV_CAP_*, below
 * @return 0; SNIC_EINVAL kind, flags, counts, keys, pieces, a key or an object changed twice;
 *         SNIC_EMSGSIZE too large; SNIC_ERANGE beyond SNIC_KVOP_OBJECT_MAX; SNIC_ENOTSUP several
 *         groups without ATOMIC_MULTI, ALLOC without ALLOC; SNIC_EPERM a change with READONLY
 */
SNIC_API SNIC_NODISCARD int snic_kvop_validate(const struct snic_kvop *op, uint32_t caps)
    SNIC_NONNULL(1);
/** The first record of a SCAN's output, or NULL. [any] */
SNIC_API const struct snic_kvop_record *snic_kvop_first(const struct snic_kvop *op) SNIC_NONNULL(1);
/** The one behind @p r, or NULL. [any] */
SNIC_API const struct snic_kvop_record *snic_kvop_next(const struct snic_kvop *op,
                                                       const struct snic_kvop_record *r)
    SNIC_NONNULL(1, 2);
/** Its key bytes (r->key_size of them). [any] */
static inline const unsigned char *snic_kvop_record_key(const struct snic_kvop_record *r)
{
    return (const unsigned char *)(r + 1);
}
/** Its value (r->value_size bytes). [any] */
static inline const unsigned char *snic_kvop_record_value(const struct snic_kvop_record *r)
{
    return (const unsigned char *)(r + 1) + r->key_size;
}
/** 1: it is damaged, its key is the one in the store; else 0. [any] */
static inline int snic_kvop_record_damaged(const struct snic_kvop_record *r)
{
    return r->value_size == 0;
}
/**
 * Stores append to SCAN's output with it; @p value_size 0: a damaged record. Copy. [owner]
 * @return 0; SNIC_EMSGSIZE no room (the output is as it was)
 */
SNIC_API SNIC_NODISCARD int snic_kvop_append(struct snic_kvop *op, const void *key,
                                             uint32_t key_size, const void *value,
                                             uint32_t value_size) SNIC_NONNULL(1, 2, 4);

#define SNIC_KV_CAP_ATOMIC_MULTI (1u << 0) /**< a commit may name several groups             */
#define SNIC_KV_CAP_ATOMIC_BLOCK (1u << 1) /**< aligned 8 KiB object writes are not torn     */
#define SNIC_KV_CAP_CHECKSUM (1u << 2)     /**< object blocks have checksums, reads verify    */
#define SNIC_KV_CAP_ALLOC (1u << 3)        /**< OBJECT_ALLOC                                  */
#define SNIC_KV_CAP_DURABLE (1u << 4)      /**< SYNC and DURABLE survive power loss           */
#define SNIC_KV_CAP_SHARED (1u << 5)       /**< several handles may have the store open        */
#define SNIC_KV_CAP_READONLY (1u << 6)     /**< changes are refused with SNIC_EPERM            */
/** A commit's object bytes are one step with its records wherever they are, not only within
    stripe_bytes, and whatever groups it names. */
#define SNIC_KV_CAP_ATOMIC_OBJECT (1u << 7)
#define SNIC_KV_CAP_FENCE (1u << 8) /**< FENCE; handles have an identity (struct snic_kv)     */

#ifdef __cplusplus
}
#endif
#endif /* SNIC_KVOP_H */
