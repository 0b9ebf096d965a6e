/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvme_wire.h
 * Data structures of NVM Express: Connect, Identify, log pages, reservations, discovery.
 *
 * Depends on  snicstore/base.h, snicstore/nvme.h.
 * Memory      Plain structs of the caller's.
 * Threads     No functions.
 * Progress    No functions.
 * Errors      None.
 * Units       Those of the specification; "0's based" counts are marked so.
 *
 * Integers are little-endian as they lie on the wire: read them with snic_get_le16/32/64() and
 * store them with snic_put_le16/32/64(). Names are those of the specification in lower case.
 */
#ifndef SNIC_NVME_WIRE_H
#define SNIC_NVME_WIRE_H

#include "snicstore/base.h"
#include "snicstore/nvme.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_nvme_connect_data {
    uint8_t hostid[16];
    uint16_t cntlid;
    uint8_t reserved18[238];
    uint8_t subnqn[SNIC_NVME_NQN_BYTES];
    uint8_t hostnqn[SNIC_NVME_NQN_BYTES];
    uint8_t reserved768[256];
};

struct snic_nvme_power_state {
    uint16_t mp; /**< centiwatts                                                              */
    uint8_t reserved2;
    uint8_t flags;
    uint32_t enlat;
    uint32_t exlat;
    uint8_t rest[20];
};

struct snic_nvme_id_ctrl {
    uint16_t vid;
    uint16_t ssvid;
    uint8_t sn[20];
    uint8_t mn[40];
    uint8_t fr[8];
    uint8_t rab;
    uint8_t ieee[3];
    uint8_t cmic; /**< 0 ports, 1 controllers, 3 ANA                                          */
    uint8_t mdts;
    uint16_t cntlid;
    uint32_t ver;
    uint32_t rtd3r;
    uint32_t rtd3e;
    uint32_t oaes;
    uint32_t ctratt; /**< 0 128-bit host id, 6 traffic based keep alive                       */
    uint16_t rrls;
    uint8_t reserved102[9];
    uint8_t cntrltype;
    uint8_t fguid[16];
    uint16_t crdt1; /**< 100 ms                                                               */
    uint16_t crdt2;
    uint16_t crdt3;
    uint8_t reserved134[119];
    uint8_t nvmsr;
    uint8_t vwci;
    uint8_t mec;
    uint16_t oacs;
    uint8_t acl;  /**< 0's based                                                              */
    uint8_t aerl; /**< 0's based                                                              */
    uint8_t frmw;
    uint8_t lpa;
    uint8_t elpe; /**< 0's based                                                              */
    uint8_t npss;
    uint8_t avscc;
    uint8_t apsta;
    uint16_t wctemp;
    uint16_t cctemp;
    uint16_t mtfa;
    uint32_t hmpre;
    uint32_t hmmin;
    uint8_t tnvmcap[16];
    uint8_t unvmcap[16];
    uint32_t rpmbs;
    uint16_t edstt;
    uint8_t dsto;
    uint8_t fwug;
    uint16_t kas; /**< 100 ms                                                                 */
    uint16_t hctma;
    uint16_t mntmt;
    uint16_t mxtmt;
    uint32_t sanicap;
    uint32_t hmminds;
    uint16_t hmmaxd;
    uint16_t nsetidmax;
    uint16_t endgidmax;
    uint8_t anatt;
    uint8_t anacap;
    uint32_t anagrpmax;
    uint32_t nanagrpid;
    uint32_t pels;
    uint16_t domainid;
    uint8_t reserved358[10];
    uint8_t megcap[16];
    uint8_t reserved384[128];
    uint8_t sqes;
    uint8_t cqes;
    uint16_t maxcmd;
    uint32_t nn;
    uint16_t oncs;
    uint16_t fuses;
    uint8_t fna;
    uint8_t vwc;
    uint16_t awun;
    uint16_t awupf;
    uint8_t icsvscc;
    uint8_t nwpc;
    uint16_t acwu;
    uint16_t cdfs;
    uint32_t sgls;
    uint32_t mnan;
    uint8_t maxdna[16];
    uint32_t maxcna;
    uint8_t reserved564[204];
    uint8_t subnqn[SNIC_NVME_NQN_BYTES];
    uint8_t reserved1024[768];
    uint32_t ioccsz; /**< 16 bytes                                                            */
    uint32_t iorcsz; /**< 16 bytes                                                            */
    uint16_t icdoff;
    uint8_t fcatt;
    uint8_t msdbd;
    uint16_t ofcs;
    uint8_t reserved1806[242];
    struct snic_nvme_power_state psd[32];
    uint8_t vendor[1024];
};

/* OACS none; ONCS: */
#define SNIC_NVME_ONCS_COMPARE 0x001U
#define SNIC_NVME_ONCS_WRITE_UNCORRECTABLE 0x002U
#define SNIC_NVME_ONCS_DSM 0x004U
#define SNIC_NVME_ONCS_WRITE_ZEROES 0x008U
#define SNIC_NVME_ONCS_SAVE 0x010U
#define SNIC_NVME_ONCS_RESERVATIONS 0x020U
#define SNIC_NVME_ONCS_VERIFY 0x080U

struct snic_nvme_lbaf {
    uint16_t ms;
    uint8_t lbads; /**< log2 of the block size                                                */
    uint8_t rp;
};

struct snic_nvme_id_ns {
    uint64_t nsze;
    uint64_t ncap;
    uint64_t nuse;
    uint8_t nsfeat; /**< 0 thin, 2 deallocate error, 4 optimal I/O fields                     */
    uint8_t nlbaf;  /**< 0's based                                                            */
    uint8_t flbas;
    uint8_t mc;
    uint8_t dpc;
    uint8_t dps;
    uint8_t nmic;
    uint8_t rescap;
    uint8_t fpi;
    uint8_t dlfeat;
    uint16_t nawun;
    uint16_t nawupf;
    uint16_t nacwu;
    uint16_t nabsn;
    uint16_t nabo;
    uint16_t nabspf;
    uint16_t noiob;
    uint8_t nvmcap[16];
    uint16_t npwg; /**< 0's based                                                             */
    uint16_t npwa;
    uint16_t npdg;
    uint16_t npda;
    uint16_t nows;
    uint16_t mssrl;
    uint32_t mcl;
    uint8_t msrc;
    uint8_t reserved81[11];
    uint32_t anagrpid;
    uint8_t reserved96[3];
    uint8_t nsattr; /**< 0 write protected                                                    */
    uint16_t nvmsetid;
    uint16_t endgid;
    uint8_t nguid[16];
    uint8_t eui64[8];
    struct snic_nvme_lbaf lbaf[64];
    uint8_t vendor[3712];
};

/** CNS 08h, what is independent of the command set. */
struct snic_nvme_id_ns_independent {
    uint8_t nsfeat;
    uint8_t nmic;
    uint8_t rescap;
    uint8_t fpi;
    uint32_t anagrpid;
    uint8_t nsattr;
    uint8_t reserved9;
    uint16_t nvmsetid;
    uint16_t endgid;
    uint8_t nstat; /**< 0 ready                                                               */
    uint8_t rest[4081];
};

/** CNS 06h of the NVM command set. */
struct snic_nvme_id_ctrl_nvm {
    uint8_t vsl;
    uint8_t wzsl; /**< log2 of memory pages; 0 no limit                                       */
    uint8_t wusl;
    uint8_t dmrl;   /**< ranges                                                               */
    uint32_t dmrsl; /**< blocks of a range                                                    */
    uint64_t dmsl;  /**< blocks of a command                                                  */
    uint8_t rest[4080];
};

struct snic_nvme_error_entry {
    uint64_t count; /**< 1 for the first error                                                */
    uint16_t sqid;
    uint16_t cid;
    uint16_t status; /**< shifted by one, as in the completion                                */
    uint16_t location;
    uint64_t lba;
    uint32_t nsid;
    uint8_t vendor;
    uint8_t trtype;
    uint8_t reserved30[2];
    uint64_t specific;
    uint16_t transport;
    uint8_t reserved42[22];
};

struct snic_nvme_smart {
    uint8_t critical_warning;
    uint8_t temperature[2]; /**< kelvin                                                       */
    uint8_t available_spare;
    uint8_t spare_threshold;
    uint8_t percentage_used;
    uint8_t reserved6[26];
    uint8_t data_units_read[16]; /**< thousands of 512 bytes                                  */
    uint8_t data_units_written[16];
    uint8_t host_reads[16];
    uint8_t host_writes[16];
    uint8_t busy_minutes[16];
    uint8_t power_cycles[16];
    uint8_t power_on_hours[16];
    uint8_t unsafe_shutdowns[16];
    uint8_t media_errors[16];
    uint8_t error_entries[16];
    uint8_t rest[320];
};

struct snic_nvme_firmware_log {
    uint8_t afi;
    uint8_t reserved1[7];
    uint8_t frs[7][8];
    uint8_t reserved64[448];
};

#define SNIC_NVME_EFFECT_SUPPORTED 0x1U
#define SNIC_NVME_EFFECT_CONTENT 0x2U /**< logical blocks may change                          */
/** Log page 05h. */
struct snic_nvme_effects_log {
    uint32_t admin[256];
    uint32_t io[256];
    uint8_t reserved2048[2048];
};

struct snic_nvme_ana_header {
    uint64_t chgcnt;
    uint16_t ngrps;
    uint8_t reserved10[6];
};
/** Of a group; its namespaces' ids follow. */
struct snic_nvme_ana_group {
    uint32_t grpid;
    uint32_t nnsids;
    uint64_t chgcnt;
    uint8_t state;
    uint8_t reserved17[15];
};

struct snic_nvme_discovery_header {
    uint64_t genctr;
    uint64_t numrec;
    uint16_t recfmt;
    uint8_t reserved18[1006];
};
struct snic_nvme_discovery_entry {
    uint8_t trtype;
    uint8_t adrfam;
    uint8_t subtype;
    uint8_t treq;
    uint16_t portid;
    uint16_t cntlid;
    uint16_t asqsz;
    uint16_t eflags;
    uint8_t reserved12[20];
    uint8_t trsvcid[32];
    uint8_t reserved64[192];
    uint8_t subnqn[SNIC_NVME_NQN_BYTES];
    uint8_t traddr[256];
    uint8_t tsas[256];
};

struct snic_nvme_resv_register_data {
    uint64_t crkey;
    uint64_t nrkey;
};
struct snic_nvme_resv_acquire_data {
    uint64_t crkey;
    uint64_t prkey;
};
/** Reservation Report: extended (128-bit host ids); its controllers follow. */
struct snic_nvme_resv_status {
    uint32_t gen;
    uint8_t rtype;
    uint8_t regctl[2];
    uint8_t reserved7[2];
    uint8_t ptpls;
    uint8_t reserved10[54];
};
struct snic_nvme_resv_controller {
    uint16_t cntlid;
    uint8_t rcsts; /**< 0: holds the reservation                                              */
    uint8_t reserved3[5];
    uint64_t rkey;
    uint8_t hostid[16];
    uint8_t reserved32[32];
};
struct snic_nvme_resv_log {
    uint64_t count;
    uint8_t type;
    uint8_t available;
    uint8_t reserved10[2];
    uint32_t nsid;
    uint8_t reserved16[48];
};

struct snic_nvme_dsm_range {
    uint32_t attributes;
    uint32_t blocks;
    uint64_t lba;
};

SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_connect_data) == 1024, "Connect data");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_connect_data, subnqn) == 256, "Connect data");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_connect_data, hostnqn) == 512, "Connect data");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_id_ctrl) == 4096, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, cmic) == 76, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, oaes) == 92, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, cntrltype) == 111, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, oacs) == 256, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, kas) == 320, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, anagrpmax) == 344, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, sqes) == 512, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, sgls) == 536, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, subnqn) == 768, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, ioccsz) == 1792, "identify controller");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ctrl, psd) == 2048, "identify controller");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_id_ns) == 4096, "identify namespace");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ns, nvmcap) == 48, "identify namespace");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ns, anagrpid) == 92, "identify namespace");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ns, nguid) == 104, "identify namespace");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_id_ns, lbaf) == 128, "identify namespace");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_id_ns_independent) == 4096, "CNS 08h");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_id_ctrl_nvm) == 4096, "CNS 06h");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_error_entry) == 64, "error log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_smart) == 512, "health log");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_smart, data_units_read) == 32, "health log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_firmware_log) == 512, "firmware log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_effects_log) == 4096, "effects log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_ana_header) == 16, "ANA log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_ana_group) == 32, "ANA log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_discovery_header) == 1024, "discovery log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_discovery_entry) == 1024, "discovery log");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_discovery_entry, subnqn) == 256, "discovery log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_resv_status) == 64, "reservation status");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvme_resv_status, ptpls) == 9, "reservation status");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_resv_controller) == 64, "reservation status");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_resv_log) == 64, "reservation log");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_dsm_range) == 16, "DSM range");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvme_power_state) == 32, "power state");

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVME_WIRE_H */
