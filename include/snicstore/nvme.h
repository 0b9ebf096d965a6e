/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvme.h
 * Constants and queue entries of NVM Express: the base specification 2.0, the NVM command set 1.0
 * and NVMe over Fabrics, as far as a target or an initiator of block devices needs them.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain structs of the caller's.
 * Threads     Pure functions and constants.
 * Progress    Every call is constant time.
 * Errors      None, except where a function documents them.
 * Units       Those of the specification; "0's based" counts are marked so.
 *
 * Here are codes, bits and queue entries; nvme_wire.h has the data structures. struct snic_nvme_sqe
 * and _cqe are in host order; the codec functions translate.
 *
 * A status is 15 bits: SC in 7:0, SCT in 10:8, CRD in 12:11, More in 13, Do Not Retry in 14: the
 * completion's Dword3 31:17.
 */
#ifndef SNIC_NVME_H
#define SNIC_NVME_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_NVME_SQE_BYTES 64U
#define SNIC_NVME_CQE_BYTES 16U
#define SNIC_NVME_IDENTIFY_BYTES 4096U
#define SNIC_NVME_NQN_BYTES 256U /**< the field; a name has at most 223 characters and a zero */
#define SNIC_NVME_NQN_LENGTH 223U
#define SNIC_NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define SNIC_NVME_NSID_ALL 0xffffffffU
#define SNIC_NVME_CNTLID_DYNAMIC 0xffffU
#define SNIC_NVME_CNTLID_STATIC 0xfffeU
#define SNIC_NVME_VERSION_2_0 0x00020000U

/* ---- Status ---- */

#define SNIC_NVME_DNR 0x4000U  /**< do not retry                                              */
#define SNIC_NVME_MORE 0x2000U /**< more in the error log                                     */
#define SNIC_NVME_CRD 0x1800U  /**< which delay before a retry                                */
#define SNIC_NVME_SCT_SC 0x7ffU
/** Of a status without its flags: 0 generic, 1 command specific, 2 media, 3 path, 7 vendor. */
#define SNIC_NVME_SCT(status) (((status) >> 8) & 7U)

#define SNIC_NVME_SC_SUCCESS 0x000U
#define SNIC_NVME_SC_INVALID_OPCODE 0x001U
#define SNIC_NVME_SC_INVALID_FIELD 0x002U
#define SNIC_NVME_SC_CID_CONFLICT 0x003U
#define SNIC_NVME_SC_DATA_TRANSFER 0x004U
#define SNIC_NVME_SC_POWER_LOSS 0x005U
#define SNIC_NVME_SC_INTERNAL 0x006U
#define SNIC_NVME_SC_ABORT_REQUESTED 0x007U
#define SNIC_NVME_SC_SQ_DELETED 0x008U
#define SNIC_NVME_SC_FUSED_FAILED 0x009U
#define SNIC_NVME_SC_FUSED_MISSING 0x00aU
#define SNIC_NVME_SC_INVALID_NS 0x00bU
#define SNIC_NVME_SC_SEQUENCE 0x00cU
#define SNIC_NVME_SC_SGL_SEGMENT 0x00dU
#define SNIC_NVME_SC_SGL_COUNT 0x00eU
#define SNIC_NVME_SC_SGL_LENGTH 0x00fU
#define SNIC_NVME_SC_SGL_METADATA 0x010U
#define SNIC_NVME_SC_SGL_TYPE 0x011U
#define SNIC_NVME_SC_PRP_OFFSET 0x013U
#define SNIC_NVME_SC_OPERATION_DENIED 0x015U
#define SNIC_NVME_SC_SGL_OFFSET 0x016U
#define SNIC_NVME_SC_HOSTID_FORMAT 0x018U
#define SNIC_NVME_SC_KATO_EXPIRED 0x019U
#define SNIC_NVME_SC_KATO_INVALID 0x01aU
#define SNIC_NVME_SC_PREEMPT_ABORT 0x01bU
#define SNIC_NVME_SC_WRITE_PROTECTED 0x020U
#define SNIC_NVME_SC_INTERRUPTED 0x021U
#define SNIC_NVME_SC_TRANSPORT 0x022U
#define SNIC_NVME_SC_LBA_RANGE 0x080U
#define SNIC_NVME_SC_CAPACITY 0x081U
#define SNIC_NVME_SC_NS_NOT_READY 0x082U
#define SNIC_NVME_SC_RESERVATION_CONFLICT 0x083U
/* Command specific. */
#define SNIC_NVME_SC_CQ_INVALID 0x100U
#define SNIC_NVME_SC_QID_INVALID 0x101U
#define SNIC_NVME_SC_QUEUE_SIZE 0x102U
#define SNIC_NVME_SC_ABORT_LIMIT 0x103U
#define SNIC_NVME_SC_AER_LIMIT 0x105U
#define SNIC_NVME_SC_LOG_PAGE 0x109U
#define SNIC_NVME_SC_INVALID_FORMAT 0x10aU
#define SNIC_NVME_SC_NOT_SAVEABLE 0x10dU
#define SNIC_NVME_SC_NOT_CHANGEABLE 0x10eU
#define SNIC_NVME_SC_NOT_NS_SPECIFIC 0x10fU
#define SNIC_NVME_SC_IO_COMMAND_SET 0x12cU
#define SNIC_NVME_SC_CONFLICTING 0x180U /**< NVM commands: conflicting attributes             */
#define SNIC_NVME_SC_PROTECTION 0x181U  /**< NVM commands: invalid protection information     */
#define SNIC_NVME_SC_READ_ONLY 0x182U   /**< NVM commands: write to a read only range         */
#define SNIC_NVME_SC_CONNECT_FORMAT 0x180U
#define SNIC_NVME_SC_CONNECT_BUSY 0x181U
#define SNIC_NVME_SC_CONNECT_PARAM 0x182U
#define SNIC_NVME_SC_CONNECT_RESTART 0x183U
#define SNIC_NVME_SC_CONNECT_HOST 0x184U
#define SNIC_NVME_SC_QUEUE_TYPE 0x185U /**< Disconnect on an admin queue                      */
#define SNIC_NVME_SC_DISCOVER_RESTART 0x190U
#define SNIC_NVME_SC_AUTH_REQUIRED 0x191U
/* Media. */
#define SNIC_NVME_SC_WRITE_FAULT 0x280U
#define SNIC_NVME_SC_READ_ERROR 0x281U
#define SNIC_NVME_SC_GUARD 0x282U
#define SNIC_NVME_SC_APP_TAG 0x283U
#define SNIC_NVME_SC_REF_TAG 0x284U
#define SNIC_NVME_SC_COMPARE 0x285U
#define SNIC_NVME_SC_ACCESS_DENIED 0x286U
#define SNIC_NVME_SC_DEALLOCATED 0x287U
/* Path. */
#define SNIC_NVME_SC_PATH_INTERNAL 0x300U
#define SNIC_NVME_SC_ANA_LOSS 0x301U
#define SNIC_NVME_SC_ANA_INACCESSIBLE 0x302U
#define SNIC_NVME_SC_ANA_CHANGE 0x303U
#define SNIC_NVME_SC_PATH_CONTROLLER 0x360U
#define SNIC_NVME_SC_PATH_HOST 0x370U
#define SNIC_NVME_SC_PATH_ABORTED 0x371U

/** Text of a status, its flags ignored; never NULL. [any] */
SNIC_API const char *snic_nvme_status_text(uint32_t status);
/**
 * A status as an error of this library; flags other than DNR are ignored. [any]
 * @return 0 for success, else the SNIC_E* of that meaning; SNIC_EAGAIN one worth another try (on
 *         this or another path), SNIC_EIO one without a meaning of its own
 */
SNIC_API int snic_nvme_status_error(uint32_t status);
/** The status that reports an error of a device (0 or SNIC_E*) to a host. [any] */
SNIC_API uint32_t snic_nvme_error_status(int error);

/* ---- Opcodes: bits 1:0 are the direction of the data ---- */

#define SNIC_NVME_DIR_NONE 0U
#define SNIC_NVME_DIR_OUT 1U /**< host to controller                                          */
#define SNIC_NVME_DIR_IN 2U  /**< controller to host                                          */

#define SNIC_NVME_ADMIN_DELETE_SQ 0x00U
#define SNIC_NVME_ADMIN_CREATE_SQ 0x01U
#define SNIC_NVME_ADMIN_GET_LOG 0x02U
#define SNIC_NVME_ADMIN_DELETE_CQ 0x04U
#define SNIC_NVME_ADMIN_CREATE_CQ 0x05U
#define SNIC_NVME_ADMIN_IDENTIFY 0x06U
#define SNIC_NVME_ADMIN_ABORT 0x08U
#define SNIC_NVME_ADMIN_SET_FEATURES 0x09U
#define SNIC_NVME_ADMIN_GET_FEATURES 0x0aU
#define SNIC_NVME_ADMIN_AER 0x0cU
#define SNIC_NVME_ADMIN_KEEP_ALIVE 0x18U

#define SNIC_NVME_IO_FLUSH 0x00U
#define SNIC_NVME_IO_WRITE 0x01U
#define SNIC_NVME_IO_READ 0x02U
#define SNIC_NVME_IO_WRITE_UNCORRECTABLE 0x04U
#define SNIC_NVME_IO_COMPARE 0x05U
#define SNIC_NVME_IO_WRITE_ZEROES 0x08U
#define SNIC_NVME_IO_DSM 0x09U
#define SNIC_NVME_IO_VERIFY 0x0cU
#define SNIC_NVME_IO_RESV_REGISTER 0x0dU
#define SNIC_NVME_IO_RESV_REPORT 0x0eU
#define SNIC_NVME_IO_RESV_ACQUIRE 0x11U
#define SNIC_NVME_IO_RESV_RELEASE 0x15U

#define SNIC_NVME_FABRICS 0x7fU /**< any queue; byte 4 is the type                            */
#define SNIC_NVME_FABRICS_PROPERTY_SET 0x00U
#define SNIC_NVME_FABRICS_CONNECT 0x01U
#define SNIC_NVME_FABRICS_PROPERTY_GET 0x04U
#define SNIC_NVME_FABRICS_AUTH_SEND 0x05U
#define SNIC_NVME_FABRICS_AUTH_RECEIVE 0x06U
#define SNIC_NVME_FABRICS_DISCONNECT 0x08U

/* ---- Queue entries ---- */

#define SNIC_NVME_FLAG_FUSE 0x03U
#define SNIC_NVME_FLAG_PSDT 0xc0U
#define SNIC_NVME_FLAG_SGL 0x40U         /**< PSDT 01b; metadata, if any, is one buffer        */
#define SNIC_NVME_FLAG_SGL_SEGMENT 0x80U /**< PSDT 10b                                         */

/** Submission queue entry, host order. */
struct snic_nvme_sqe {
    uint8_t opcode;
    uint8_t flags; /**< 1:0 FUSE, 7:6 PSDT                                                    */
    uint16_t cid;
    uint32_t nsid; /**< fabrics commands: 7:0 the type                                        */
    uint32_t cdw2;
    uint32_t cdw3;
    uint64_t mptr;
    uint64_t sgl_address;
    uint32_t sgl_length;
    uint32_t sgl_key; /**< 31:24 the descriptor's type                                        */
    uint32_t cdw10;
    uint32_t cdw11;
    uint32_t cdw12;
    uint32_t cdw13;
    uint32_t cdw14;
    uint32_t cdw15;
};

/** Completion queue entry, host order. */
struct snic_nvme_cqe {
    uint32_t dw0; /**< result                                                                 */
    uint32_t dw1;
    uint16_t sqhd;
    uint16_t sqid; /**< reserved in fabrics                                                   */
    uint16_t cid;
    uint16_t status; /**< 15 bits, see above; the phase is not part of it                     */
};

/* SGL descriptor: type in 7:4, subtype in 3:0. */
#define SNIC_NVME_SGL_DATA 0x00U
#define SNIC_NVME_SGL_DATA_OFFSET 0x01U /**< in the capsule, at an offset                      */
#define SNIC_NVME_SGL_SEGMENT 0x20U
#define SNIC_NVME_SGL_LAST 0x30U
#define SNIC_NVME_SGL_TRANSPORT 0x5aU /**< transport data block: the transport moves the data */

/** Read an entry of SNIC_NVME_SQE_BYTES at any alignment. [any] */
static inline void snic_nvme_sqe_load(struct snic_nvme_sqe *s, const void *in)
{
    const unsigned char *p = (const unsigned char *)in;
    s->opcode = p[0];
    s->flags = p[1];
    s->cid = snic_get_le16(p + 2);
    s->nsid = snic_get_le32(p + 4);
    s->cdw2 = snic_get_le32(p + 8);
    s->cdw3 = snic_get_le32(p + 12);
    s->mptr = snic_get_le64(p + 16);
    s->sgl_address = snic_get_le64(p + 24);
    s->sgl_length = snic_get_le32(p + 32);
    s->sgl_key = snic_get_le32(p + 36);
    s->cdw10 = snic_get_le32(p + 40);
    s->cdw11 = snic_get_le32(p + 44);
    s->cdw12 = snic_get_le32(p + 48);
    s->cdw13 = snic_get_le32(p + 52);
    s->cdw14 = snic_get_le32(p + 56);
    s->cdw15 = snic_get_le32(p + 60);
}
/** Write one. [any] */
static inline void snic_nvme_sqe_store(void *out, const struct snic_nvme_sqe *s)
{
    unsigned char *p = (unsigned char *)out;
    p[0] = s->opcode;
    p[1] = s->flags;
    snic_put_le16(p + 2, s->cid);
    snic_put_le32(p + 4, s->nsid);
    snic_put_le32(p + 8, s->cdw2);
    snic_put_le32(p + 12, s->cdw3);
    snic_put_le64(p + 16, s->mptr);
    snic_put_le64(p + 24, s->sgl_address);
    snic_put_le32(p + 32, s->sgl_length);
    snic_put_le32(p + 36, s->sgl_key);
    snic_put_le32(p + 40, s->cdw10);
    snic_put_le32(p + 44, s->cdw11);
    snic_put_le32(p + 48, s->cdw12);
    snic_put_le32(p + 52, s->cdw13);
    snic_put_le32(p + 56, s->cdw14);
    snic_put_le32(p + 60, s->cdw15);
}
/** Read a completion of SNIC_NVME_CQE_BYTES; the phase is dropped. [any] */
static inline void snic_nvme_cqe_load(struct snic_nvme_cqe *c, const void *in)
{
    const unsigned char *p = (const unsigned char *)in;
    c->dw0 = snic_get_le32(p);
    c->dw1 = snic_get_le32(p + 4);
    c->sqhd = snic_get_le16(p + 8);
    c->sqid = snic_get_le16(p + 10);
    c->cid = snic_get_le16(p + 12);
    c->status = (uint16_t)(snic_get_le16(p + 14) >> 1);
}
/** Write one with phase 0, as fabrics have it. [any] */
static inline void snic_nvme_cqe_store(void *out, const struct snic_nvme_cqe *c)
{
    unsigned char *p = (unsigned char *)out;
    snic_put_le32(p, c->dw0);
    snic_put_le32(p + 4, c->dw1);
    snic_put_le16(p + 8, c->sqhd);
    snic_put_le16(p + 10, c->sqid);
    snic_put_le16(p + 12, c->cid);
    snic_put_le16(p + 14, (uint16_t)(c->status << 1));
}
/** The SGL descriptor's type and subtype. [any] */
static inline uint8_t snic_nvme_sgl_type(const struct snic_nvme_sqe *s)
{
    return (uint8_t)(s->sgl_key >> 24);
}
/** Direction of a command's data, SNIC_NVME_DIR_*; 3 is bidirectional. [any] */
static inline uint32_t snic_nvme_direction(const struct snic_nvme_sqe *s)
{
    return (s->opcode == SNIC_NVME_FABRICS ? s->nsid : s->opcode) & 3U;
}

/* ---- Connect, properties ---- */

#define SNIC_NVME_CATTR_NO_SQ_FLOW 0x04U /**< SQ flow control is disabled                      */
/** Of the completion of a failed Connect, Dword0: 15:0 offset, 16 in the data (else the entry). */
#define SNIC_NVME_IATTR_DATA 0x10000U
/** Of that of a successful one: an authentication transaction is required. */
#define SNIC_NVME_CONNECT_ATR 0x20000U

#define SNIC_NVME_PROP_CAP 0x00U
#define SNIC_NVME_PROP_VS 0x08U
#define SNIC_NVME_PROP_CC 0x14U
#define SNIC_NVME_PROP_CSTS 0x1cU
#define SNIC_NVME_PROP_NSSR 0x20U
#define SNIC_NVME_PROP_CRTO 0x68U

#define SNIC_NVME_CC_EN 0x1U
#define SNIC_NVME_CC_CSS(cc) (((cc) >> 4) & 7U)
#define SNIC_NVME_CC_MPS(cc) (((cc) >> 7) & 15U)
#define SNIC_NVME_CC_AMS(cc) (((cc) >> 11) & 7U)
#define SNIC_NVME_CC_SHN(cc) (((cc) >> 14) & 3U)
#define SNIC_NVME_CC_IOSQES(cc) (((cc) >> 16) & 15U)
#define SNIC_NVME_CC_IOCQES(cc) (((cc) >> 20) & 15U)
#define SNIC_NVME_CSTS_RDY 0x1U
#define SNIC_NVME_CSTS_CFS 0x2U
#define SNIC_NVME_CSTS_SHST_OCCURRING 0x4U
#define SNIC_NVME_CSTS_SHST_COMPLETE 0x8U

/* ---- Identify, logs, features, events ---- */

#define SNIC_NVME_CNS_NS 0x00U
#define SNIC_NVME_CNS_CTRL 0x01U
#define SNIC_NVME_CNS_NS_LIST 0x02U
#define SNIC_NVME_CNS_NS_DESC 0x03U
#define SNIC_NVME_CNS_CSI_NS 0x05U
#define SNIC_NVME_CNS_CSI_CTRL 0x06U
#define SNIC_NVME_CNS_CSI_NS_LIST 0x07U
#define SNIC_NVME_CNS_NS_INDEPENDENT 0x08U
#define SNIC_NVME_CNS_NS_CTRL_LIST 0x12U
#define SNIC_NVME_CNS_CTRL_LIST 0x13U
#define SNIC_NVME_CNS_COMMAND_SETS 0x1cU

#define SNIC_NVME_NIDT_EUI64 1U
#define SNIC_NVME_NIDT_NGUID 2U
#define SNIC_NVME_NIDT_UUID 3U
#define SNIC_NVME_NIDT_CSI 4U

#define SNIC_NVME_LOG_SUPPORTED 0x00U
#define SNIC_NVME_LOG_ERROR 0x01U
#define SNIC_NVME_LOG_SMART 0x02U
#define SNIC_NVME_LOG_FIRMWARE 0x03U
#define SNIC_NVME_LOG_CHANGED_NS 0x04U
#define SNIC_NVME_LOG_EFFECTS 0x05U
#define SNIC_NVME_LOG_ANA 0x0cU
#define SNIC_NVME_LOG_DISCOVERY 0x70U
#define SNIC_NVME_LOG_RESERVATION 0x80U

#define SNIC_NVME_FEAT_ARBITRATION 0x01U
#define SNIC_NVME_FEAT_POWER 0x02U
#define SNIC_NVME_FEAT_TEMPERATURE 0x04U
#define SNIC_NVME_FEAT_ERROR_RECOVERY 0x05U
#define SNIC_NVME_FEAT_VWC 0x06U
#define SNIC_NVME_FEAT_QUEUES 0x07U
#define SNIC_NVME_FEAT_ATOMICITY 0x0aU
#define SNIC_NVME_FEAT_AEC 0x0bU
#define SNIC_NVME_FEAT_KATO 0x0fU
#define SNIC_NVME_FEAT_HOST_BEHAVIOR 0x16U
#define SNIC_NVME_FEAT_HOSTID 0x81U
#define SNIC_NVME_FEAT_RESV_MASK 0x82U
#define SNIC_NVME_FEAT_RESV_PERSIST 0x83U
/** Vendor specific, ours: bit 0 asks for the credit in Dword1 of each I/O completion. */
#define SNIC_NVME_FEAT_CREDIT 0xc0U

#define SNIC_NVME_SELECT_CURRENT 0U
#define SNIC_NVME_SELECT_DEFAULT 1U
#define SNIC_NVME_SELECT_SAVED 2U
#define SNIC_NVME_SELECT_SUPPORTED 3U
#define SNIC_NVME_FEATURE_SAVEABLE 1U /**< of SELECT_SUPPORTED                                 */
#define SNIC_NVME_FEATURE_NS_SPECIFIC 2U
#define SNIC_NVME_FEATURE_CHANGEABLE 4U

/* Asynchronous events. Dword0 of the completion: 2:0 type, 15:8 information, 23:16 log page. */
#define SNIC_NVME_EVENT_ERROR 0U
#define SNIC_NVME_EVENT_HEALTH 1U
#define SNIC_NVME_EVENT_NOTICE 2U
#define SNIC_NVME_EVENT_IO 6U
#define SNIC_NVME_NOTICE_NS 0x00U
#define SNIC_NVME_NOTICE_ANA 0x03U
#define SNIC_NVME_NOTICE_DISCOVERY 0xf0U
/* Of OAES and the feature AEC; 7:0 are the critical warnings of the health log. */
#define SNIC_NVME_AEC_NS (1U << 8)
#define SNIC_NVME_AEC_ANA (1U << 11)
#define SNIC_NVME_AEC_DISCOVERY (1U << 31)

/* ANA states. */
#define SNIC_NVME_ANA_OPTIMIZED 0x1U
#define SNIC_NVME_ANA_NON_OPTIMIZED 0x2U
#define SNIC_NVME_ANA_INACCESSIBLE 0x3U
#define SNIC_NVME_ANA_LOSS 0x4U
#define SNIC_NVME_ANA_CHANGE 0xfU

/* ---- Reservations ---- */

#define SNIC_NVME_RESV_WRITE_EXCLUSIVE 1U
#define SNIC_NVME_RESV_EXCLUSIVE_ACCESS 2U
#define SNIC_NVME_RESV_WRITE_EXCLUSIVE_RO 3U /**< registrants only                             */
#define SNIC_NVME_RESV_EXCLUSIVE_ACCESS_RO 4U
#define SNIC_NVME_RESV_WRITE_EXCLUSIVE_AR 5U /**< all registrants                              */
#define SNIC_NVME_RESV_EXCLUSIVE_ACCESS_AR 6U
#define SNIC_NVME_RESV_REGISTER 0U
#define SNIC_NVME_RESV_UNREGISTER 1U
#define SNIC_NVME_RESV_REPLACE 2U
#define SNIC_NVME_RESV_ACQUIRE 0U
#define SNIC_NVME_RESV_PREEMPT 1U
#define SNIC_NVME_RESV_PREEMPT_ABORT 2U
#define SNIC_NVME_RESV_RELEASE 0U
#define SNIC_NVME_RESV_CLEAR 1U
#define SNIC_NVME_RESV_IEKEY 0x8U /**< Dword10 bit 3: ignore the existing key                 */
#define SNIC_NVME_RESV_PTPL_NONE 0U
#define SNIC_NVME_RESV_PTPL_CLEAR 2U
#define SNIC_NVME_RESV_PTPL_SET 3U
/* Types in the reservation notification log; the mask feature has bit (1 << type). */
#define SNIC_NVME_RESV_LOG_EMPTY 0U
#define SNIC_NVME_RESV_LOG_REGISTRATION_PREEMPTED 1U
#define SNIC_NVME_RESV_LOG_RELEASED 2U
#define SNIC_NVME_RESV_LOG_PREEMPTED 3U

/* ---- NVM command set: Dword12 of reads and writes ---- */

#define SNIC_NVME_RW_LR (1U << 31)
#define SNIC_NVME_RW_FUA (1U << 30)
#define SNIC_NVME_RW_PRINFO (15U << 26)
#define SNIC_NVME_RW_STC (1U << 24)
#define SNIC_NVME_RW_DEAC (1U << 25) /**< Write Zeroes: deallocate if that reads zeros         */
#define SNIC_NVME_DSM_DEALLOCATE (1U << 2) /**< Dword11                                        */
#define SNIC_NVME_DSM_RANGES 256U          /**< most of one command, 16 bytes each             */

/* ---- Discovery ---- */

#define SNIC_NVME_TRTYPE_RDMA 1U
#define SNIC_NVME_TRTYPE_TCP 3U
#define SNIC_NVME_ADRFAM_IPV4 1U
#define SNIC_NVME_ADRFAM_IPV6 2U
#define SNIC_NVME_SUBTYPE_REFERRAL 1U
#define SNIC_NVME_SUBTYPE_NVM 2U
#define SNIC_NVME_SUBTYPE_CURRENT 3U
#define SNIC_NVME_TREQ_NOT_SPECIFIED 0U /**< secure channel                                   */
#define SNIC_NVME_TREQ_NOT_REQUIRED 2U
#define SNIC_NVME_CNTRLTYPE_IO 1U
#define SNIC_NVME_CNTRLTYPE_DISCOVERY 2U

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVME_H */
