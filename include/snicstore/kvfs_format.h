/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/kvfs_format.h
 * The records KVFS keeps in its store: keys, layouts, checksums. For the engine, and for tools that
 * check a store or repair it. Offsets of fields, and examples: lib/kvfs/FORMAT.md.
 *
 * Depends on  snicstore/base.h, snicstore/fsop.h, snicstore/kvop.h.
 * Memory      Plain data.
 * Threads     None of its own.
 * Progress    No call blocks.
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       bytes. All integers in records are little-endian; in keys big-endian.
 * Input       Records are hostile: each is verified before it is used.
 *
 * The paper's four kinds (section 3.4), and others that a POSIX file system needs. The group
 * is the inode number in the store (the root is 0), so that a directory's entries and attributes,
 * and a file's attributes, data and extended attributes, each share one group. First byte of the
 * key, then what follows it:
 *
 *   'A'                          attributes, 256 bytes with the head (the paper's attribute KV)
 *   'E' hash                     entry: list of (ino, type, name) with that hash (inode KV). hash:
 *                                XXH3-128 of the name with the store's seed, high half first
 *   'D'                          data of a file of up to 8 KiB (small file KV); the rest up to the
 *                                size is zeros. Only where SNIC_KVFS_ATTR_BIG is not set: then the
 *                                object of the number is no part of the file, whatever it holds
 *   'T'                          symlink target
 *   'X' hash                     extended attribute: name size (u16), name, value
 *   'P' parent(8) hash           further names of an inode: how many (u32; more than 1 only where
 *                                names' hashes are equal); the first is in its attributes
 *   'K'                          locks, 40 bytes each: session, owner, start, end (8 bytes each),
 *                                type (4; bit 2: flock), pid (4); those of dead sessions do not
 *                                count, and while a session is alone it need not write its own
 * A file of more than 8 KiB has its bytes in the object of its number (big file KV).
 * Group SNIC_KVFS_GROUP_SUPER:
 *   'S'                          superblock
 *   'I'                          next free inode number
 *   'M'                          number of moves of directories to another parent (u64): guarded
 *                                and raised by each, so that no two such moves make a cycle
 *   's' session(8)               a session; number 0: the table of sessions itself, rewritten by
 *                                every arrival, so that no session arrives unseen
 *   's' session(8) 'b'           its heartbeat
 *   's' session(8) 'f'           its fence: a number, 1, then what the store knows its client by,
 *                                for SNIC_KVOP_FENCE (nothing where there is no such operation).
 *                                Where a commit may name several groups each of the session's is
 *                                guarded by it, and it exists until the session is declared dead;
 *                                elsewhere as long as the session's record
 * Group SNIC_KVFS_GROUP_ORPHANS:
 *   'O' ino(8)                   nlink is 0, and the inode is still open somewhere, or not yet
 *                                removed
 * Group SNIC_KVFS_GROUP_INTENTS:
 *   'N' session(8) number(8)     a commit over several groups, where the store has none
 *
 * Each value begins with a head of 8 bytes: kind (1), version (1), flags (2), CRC32C (4) of group,
 * key bytes, the head with the CRC as zeros, and the rest. Flag SNIC_KVFS_RESERVED: the record is
 * part of an unfinished commit; its body is struct snic_kvfs_reservation, then the old value
 * (a whole record, or nothing) and the new one.
 */
#ifndef SNIC_KVFS_FORMAT_H
#define SNIC_KVFS_FORMAT_H

#include "snicstore/base.h"
#include "snicstore/fsop.h"
#include "snicstore/kvop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_KVFS_VERSION 1U
#define SNIC_KVFS_GROUP_SUPER 0xffffffffffffffffULL
#define SNIC_KVFS_GROUP_ORPHANS 0xfffffffffffffffeULL
#define SNIC_KVFS_GROUP_INTENTS 0xfffffffffffffffdULL
#define SNIC_KVFS_INO_MAX (1ULL << 61) /**< numbers of inodes are below it */
#define SNIC_KVFS_HEAD 8U
#define SNIC_KVFS_RESERVED (1u << 0)
#define SNIC_KVFS_ATTR_BYTES 256U /**< with the head */
#define SNIC_KVFS_SMALL_MAX 8192U /**< bytes of a file kept in its 'D' record */

/** A record's kind is the first byte of its key. */
enum snic_kvfs_record {
    SNIC_KVFS_REC_ATTR = 'A',
    SNIC_KVFS_REC_ENTRY = 'E',
    SNIC_KVFS_REC_DATA = 'D',
    SNIC_KVFS_REC_TARGET = 'T',
    SNIC_KVFS_REC_XATTR = 'X',
    SNIC_KVFS_REC_PARENT = 'P',
    SNIC_KVFS_REC_LOCKS = 'K',
    SNIC_KVFS_REC_SUPER = 'S',
    SNIC_KVFS_REC_NEXT_INO = 'I',
    SNIC_KVFS_REC_MOVES = 'M',
    SNIC_KVFS_REC_SESSION = 's',
    SNIC_KVFS_REC_ORPHAN = 'O',
    SNIC_KVFS_REC_INTENT = 'N'
};

/* Flags of struct snic_fsop_attr. */
#define SNIC_KVFS_ATTR_BIG (1u << 0)   /**< bytes are in the object, not in 'D'                 */
#define SNIC_KVFS_ATTR_XATTR (1u << 1) /**< has (or had) extended attributes                    */
/** Has system.posix_acl_access; the mode overrules its entries of owner, mask and others. */
#define SNIC_KVFS_ATTR_ACL (1u << 2)
#define SNIC_KVFS_ATTR_DEFAULT_ACL                                                                 \
    (1u << 3)                            /**< directory: has system.posix_acl_default          */
#define SNIC_KVFS_ATTR_PARENTS (1u << 4) /**< has 'P' records                                  */
#define SNIC_KVFS_ATTR_PARENT (1u << 5)  /**< parent and name are valid                         */

struct snic_kvfs_super {
    uint32_t version;
    uint32_t flags;
    uint64_t seed; /**< of the name hash                                                    */
    uint8_t uuid[16];
    struct snic_fsop_time created;
};

/** One of the names with a hash. */
struct snic_kvfs_entry {
    uint64_t ino;
    uint32_t type; /**< S_IFMT bits                                                          */
    uint32_t name_size;
    const char *name; /**< into the record                                                    */
};

/** Begins a reserved record's body. */
struct snic_kvfs_reservation {
    uint64_t session;
    uint64_t number;
    uint32_t old_size; /**< 0: there was no record                                            */
    uint32_t new_size; /**< 0: it is deleted                                                  */
};

/** Hash of a name. [any] */
SNIC_API struct snic_fsop_hash snic_kvfs_hash_name(uint64_t seed, const char *name, uint32_t size)
    SNIC_NONNULL(2);
/** The cookie of a hash: its top 63 bits, at least 3. [any] */
static inline uint64_t snic_kvfs_cookie(struct snic_fsop_hash h)
{
    return (h.high >> 1) < 3 ? 3 : h.high >> 1;
}
/** A key that is its kind alone: 'A', 'D', 'T', 'K', 'S', 'I', 'M'. [any] */
SNIC_API void snic_kvfs_key(struct snic_kvop_key *k, uint64_t group, enum snic_kvfs_record kind)
    SNIC_NONNULL(1);
/** Kind and hash: 'E', 'X'. [any] */
SNIC_API void snic_kvfs_key_hash(struct snic_kvop_key *k, uint64_t group,
                                 enum snic_kvfs_record kind, struct snic_fsop_hash h)
    SNIC_NONNULL(1);
/** 'P', parent, hash. [any] */
SNIC_API void snic_kvfs_key_parent(struct snic_kvop_key *k, uint64_t group, uint64_t parent,
                                   struct snic_fsop_hash h) SNIC_NONNULL(1);
/** Kind and number: 's', 'O'. [any] */
SNIC_API void snic_kvfs_key_number(struct snic_kvop_key *k, uint64_t group,
                                   enum snic_kvfs_record kind, uint64_t number) SNIC_NONNULL(1);
/** 'N', session, number, in SNIC_KVFS_GROUP_INTENTS. [any] */
SNIC_API void snic_kvfs_key_intent(struct snic_kvop_key *k, uint64_t session, uint64_t number)
    SNIC_NONNULL(1);
/** A key as text, for messages: "group 12 'E' 0123..."; at most 256 bytes with the 0. [any] */
SNIC_API void snic_kvfs_key_text(const struct snic_kvop_key *k, char *out, size_t room)
    SNIC_NONNULL(1, 2);

/** Fill the head of @p record (its body is at record + SNIC_KVFS_HEAD). [any] */
SNIC_API void snic_kvfs_seal(const struct snic_kvop_key *k, void *record, uint32_t size,
                             uint16_t flags) SNIC_NONNULL(1, 2);
/**
 * Verify a record. [any]
 * @return its flags; SNIC_ECORRUPT size, kind or checksum; SNIC_EVERSION another version, or an
 *         unknown flag
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_verify(const struct snic_kvop_key *k, const void *record,
                                             uint32_t size) SNIC_NONNULL(1, 2);

/** To and from the SNIC_KVFS_ATTR_BYTES of an attribute record (unsealed). [any] */
SNIC_API void snic_kvfs_attr_encode(void *record, const struct snic_fsop_attr *a)
    SNIC_NONNULL(1, 2);
/** From such a record. [any] @return 0; SNIC_ECORRUPT invalid size or contents */
SNIC_API SNIC_NODISCARD int snic_kvfs_attr_decode(struct snic_fsop_attr *a, const void *record,
                                                  uint32_t size) SNIC_NONNULL(1, 2);
/**
 * The entry at *@p at in an entry record (whole, with its head; start with 0), moving *at behind
 * it. The name points into the record. [any]
 * @return 1; 0 no more; SNIC_ECORRUPT an entry over the end, or invalid
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_entry_next(const void *record, uint32_t size, uint32_t *at,
                                                 struct snic_kvfs_entry *out) SNIC_NONNULL(1, 3, 4);
/**
 * Append an entry to a record of *@p size bytes (0: begins it). Copy. [any]
 * @return 0; SNIC_ENOSPC @p room is too small
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_entry_append(void *record, uint32_t *size, uint32_t room,
                                                   const struct snic_kvfs_entry *e)
    SNIC_NONNULL(1, 2, 4);
#define SNIC_KVFS_SUPER_BYTES 64U /**< with the head */
/** To the SNIC_KVFS_SUPER_BYTES of the superblock's record (unsealed). [any] */
SNIC_API void snic_kvfs_super_encode(void *record, const struct snic_kvfs_super *s)
    SNIC_NONNULL(1, 2);
/**
 * From such a record. [any]
 * @return 0; SNIC_ECORRUPT invalid size or contents; SNIC_EVERSION another version, or flags
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_super_decode(struct snic_kvfs_super *s, const void *record,
                                                   uint32_t size) SNIC_NONNULL(1, 2);

/* ---- Sessions, orphans, intents ---- */

#define SNIC_KVFS_SESSION_CACHES (1u << 0) /**< it is alone, and keeps records in memory       */
#define SNIC_KVFS_SESSION_DEAD (1u << 1)   /**< declared so by another; being cleared away      */
#define SNIC_KVFS_SESSION_RANGES_MAX 16U
#define SNIC_KVFS_SESSION_RANGE_MAX 65536U /**< numbers of one */
#define SNIC_KVFS_SESSION_BYTES (SNIC_KVFS_HEAD + 8U + SNIC_KVFS_SESSION_RANGES_MAX * 16U)
#define SNIC_KVFS_ORPHAN_SESSIONS_MAX 128U
#define SNIC_KVFS_ORPHAN_BYTES (SNIC_KVFS_HEAD + 8U + SNIC_KVFS_ORPHAN_SESSIONS_MAX * 16U)
#define SNIC_KVFS_INTENT_KEYS_MAX 128U
#define SNIC_KVFS_INTENT_OBJECTS_MAX 8U
#define SNIC_KVFS_INTENT_BYTES                                                                     \
    (SNIC_KVFS_HEAD + 8U + SNIC_KVFS_INTENT_OBJECTS_MAX * 8U + SNIC_KVFS_INTENT_KEYS_MAX * 64U)

/** Inode numbers that a session may have assigned: [first, first + count). */
struct snic_kvfs_range {
    uint64_t first;
    uint64_t count;
};
/** A session. It changes seldom; its heartbeat is a record of its own. */
struct snic_kvfs_session {
    uint32_t flags; /**< SNIC_KVFS_SESSION_*                                                 */
    uint32_t range_count;
    struct snic_kvfs_range ranges[SNIC_KVFS_SESSION_RANGES_MAX];
};
/** A session's claim on an inode without a name. */
struct snic_kvfs_claim {
    uint64_t session;
    uint64_t open; /**< 1: it has it open; 0: it has not, and will not                        */
};
struct snic_kvfs_orphan {
    uint32_t count;
    uint32_t reserved;
    struct snic_kvfs_claim claims[SNIC_KVFS_ORPHAN_SESSIONS_MAX];
};
enum snic_kvfs_intent_state {
    SNIC_KVFS_INTENT_PENDING = 1,
    SNIC_KVFS_INTENT_COMMITTED = 2,
    SNIC_KVFS_INTENT_ABORTED = 3
};
/** A commit over several groups: its reserved records, and the objects that end with it. */
struct snic_kvfs_intent {
    uint32_t state; /**< enum snic_kvfs_intent_state                                         */
    uint16_t key_count;
    uint16_t object_count;
    uint64_t objects[SNIC_KVFS_INTENT_OBJECTS_MAX];
    struct snic_kvop_key keys[SNIC_KVFS_INTENT_KEYS_MAX];
};

/** 's' session 'b'. [any] */
SNIC_API void snic_kvfs_key_beat(struct snic_kvop_key *k, uint64_t session) SNIC_NONNULL(1);
/** 's' session 'f'. [any] */
SNIC_API void snic_kvfs_key_fence(struct snic_kvop_key *k, uint64_t session) SNIC_NONNULL(1);
/** Record of a session (unsealed) in at least SNIC_KVFS_SESSION_BYTES. [any] @return its size */
SNIC_API uint32_t snic_kvfs_session_encode(void *record, const struct snic_kvfs_session *s)
    SNIC_NONNULL(1, 2);
/** From such a record. [any] @return 0; SNIC_ECORRUPT invalid size or contents */
SNIC_API SNIC_NODISCARD int snic_kvfs_session_decode(struct snic_kvfs_session *s,
                                                     const void *record, uint32_t size)
    SNIC_NONNULL(1, 2);
/** Record of an orphan (unsealed) in at least SNIC_KVFS_ORPHAN_BYTES. [any] @return its size */
SNIC_API uint32_t snic_kvfs_orphan_encode(void *record, const struct snic_kvfs_orphan *o)
    SNIC_NONNULL(1, 2);
/** From such a record. [any] @return 0; SNIC_ECORRUPT invalid size or contents */
SNIC_API SNIC_NODISCARD int snic_kvfs_orphan_decode(struct snic_kvfs_orphan *o, const void *record,
                                                    uint32_t size) SNIC_NONNULL(1, 2);
/** Record of an intent (unsealed) in at least SNIC_KVFS_INTENT_BYTES. [any] @return its size */
SNIC_API uint32_t snic_kvfs_intent_encode(void *record, const struct snic_kvfs_intent *n)
    SNIC_NONNULL(1, 2);
/** From such a record. [any] @return 0; SNIC_ECORRUPT invalid size or contents */
SNIC_API SNIC_NODISCARD int snic_kvfs_intent_decode(struct snic_kvfs_intent *n, const void *record,
                                                    uint32_t size) SNIC_NONNULL(1, 2);
#define SNIC_KVFS_NUMBER_BYTES (SNIC_KVFS_HEAD + 8U)
/** Record of a number (unsealed): next inode, heartbeat, table; SNIC_KVFS_NUMBER_BYTES. [any] */
SNIC_API void snic_kvfs_number_encode(void *record, uint64_t number) SNIC_NONNULL(1);
/** From such a record. [any] @return 0; SNIC_ECORRUPT invalid size or contents */
SNIC_API SNIC_NODISCARD int snic_kvfs_number_decode(uint64_t *number, const void *record,
                                                    uint32_t size) SNIC_NONNULL(1, 2);
#define SNIC_KVFS_FENCE_BYTES (SNIC_KVFS_NUMBER_BYTES + SNIC_KVOP_IDENTITY_MAX)
/** Record of a fence (unsealed) in at least SNIC_KVFS_FENCE_BYTES; @p identity of up to
 *  SNIC_KVOP_IDENTITY_MAX bytes, NULL where @p size is 0. [any] @return the record's size */
SNIC_API uint32_t snic_kvfs_fence_encode(void *record, const void *identity, uint32_t size)
    SNIC_NONNULL(1);
/** The identity, within such a record. [any] @return 0; SNIC_ECORRUPT invalid size */
SNIC_API SNIC_NODISCARD int snic_kvfs_fence_decode(const void **identity, uint32_t *size,
                                                   const void *record, uint32_t record_size)
    SNIC_NONNULL(1, 2, 3);
/**
 * Split a reserved record: its old and its new value, whole records within @p record,
 * NULL for none. It has been verified; those have not. [any]
 * @return 0; SNIC_ECORRUPT invalid size or contents
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_reservation_decode(struct snic_kvfs_reservation *r,
                                                         const void **old_record,
                                                         const void **new_record,
                                                         const void *record, uint32_t size)
    SNIC_NONNULL(1, 2, 3, 4);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_KVFS_FORMAT_H */
