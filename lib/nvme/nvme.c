/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Status codes as texts and errors. The rest of the vocabulary is in the header. */
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"

struct nvme_status {
    uint16_t status;
    int error;
    const char *text;
};

/* Codes that mean two things, by the command: 180h to 182h of Connect and of NVM commands. */
static const struct nvme_status nvme_statuses[] = {
    {SNIC_NVME_SC_SUCCESS, 0, "success"},
    {SNIC_NVME_SC_INVALID_OPCODE, SNIC_ENOTSUP, "invalid command opcode"},
    {SNIC_NVME_SC_INVALID_FIELD, SNIC_EINVAL, "invalid field in command"},
    {SNIC_NVME_SC_CID_CONFLICT, SNIC_EEXIST, "command id conflict"},
    {SNIC_NVME_SC_DATA_TRANSFER, SNIC_EAGAIN, "data transfer error"},
    {SNIC_NVME_SC_POWER_LOSS, SNIC_EIO, "aborted due to power loss notification"},
    {SNIC_NVME_SC_INTERNAL, SNIC_EIO, "internal error"},
    {SNIC_NVME_SC_ABORT_REQUESTED, SNIC_ECANCELED, "abort requested"},
    {SNIC_NVME_SC_SQ_DELETED, SNIC_EUNKNOWN, "aborted due to SQ deletion"},
    {SNIC_NVME_SC_FUSED_FAILED, SNIC_ECANCELED, "aborted due to failed fused command"},
    {SNIC_NVME_SC_FUSED_MISSING, SNIC_EINVAL, "aborted due to missing fused command"},
    {SNIC_NVME_SC_INVALID_NS, SNIC_ENXIO, "invalid namespace or format"},
    {SNIC_NVME_SC_SEQUENCE, SNIC_EPROTO, "command sequence error"},
    {SNIC_NVME_SC_SGL_SEGMENT, SNIC_EINVAL, "invalid SGL segment descriptor"},
    {SNIC_NVME_SC_SGL_COUNT, SNIC_EINVAL, "invalid number of SGL descriptors"},
    {SNIC_NVME_SC_SGL_LENGTH, SNIC_EINVAL, "data SGL length invalid"},
    {SNIC_NVME_SC_SGL_METADATA, SNIC_EINVAL, "metadata SGL length invalid"},
    {SNIC_NVME_SC_SGL_TYPE, SNIC_EINVAL, "SGL descriptor type invalid"},
    {SNIC_NVME_SC_PRP_OFFSET, SNIC_EINVAL, "PRP offset invalid"},
    {SNIC_NVME_SC_OPERATION_DENIED, SNIC_EPERM, "operation denied"},
    {SNIC_NVME_SC_SGL_OFFSET, SNIC_EINVAL, "SGL offset invalid"},
    {SNIC_NVME_SC_HOSTID_FORMAT, SNIC_EINVAL, "host identifier inconsistent format"},
    {SNIC_NVME_SC_KATO_EXPIRED, SNIC_ETIMEDOUT, "keep alive timer expired"},
    {SNIC_NVME_SC_KATO_INVALID, SNIC_EINVAL, "keep alive timeout invalid"},
    {SNIC_NVME_SC_PREEMPT_ABORT, SNIC_ECANCELED, "aborted due to preempt and abort"},
    {SNIC_NVME_SC_WRITE_PROTECTED, SNIC_EROFS, "namespace is write protected"},
    {SNIC_NVME_SC_INTERRUPTED, SNIC_EAGAIN, "command interrupted"},
    {SNIC_NVME_SC_TRANSPORT, SNIC_EAGAIN, "transient transport error"},
    {SNIC_NVME_SC_LBA_RANGE, SNIC_ERANGE, "LBA out of range"},
    {SNIC_NVME_SC_CAPACITY, SNIC_ENOSPC, "capacity exceeded"},
    {SNIC_NVME_SC_NS_NOT_READY, SNIC_EAGAIN, "namespace not ready"},
    {SNIC_NVME_SC_RESERVATION_CONFLICT, SNIC_EPERM, "reservation conflict"},
    {SNIC_NVME_SC_CQ_INVALID, SNIC_EINVAL, "completion queue invalid"},
    {SNIC_NVME_SC_QID_INVALID, SNIC_EINVAL, "invalid queue identifier"},
    {SNIC_NVME_SC_QUEUE_SIZE, SNIC_EINVAL, "invalid queue size"},
    {SNIC_NVME_SC_ABORT_LIMIT, SNIC_EAGAIN, "abort command limit exceeded"},
    {SNIC_NVME_SC_AER_LIMIT, SNIC_EAGAIN, "asynchronous event request limit exceeded"},
    {SNIC_NVME_SC_LOG_PAGE, SNIC_ENOTSUP, "invalid log page"},
    {SNIC_NVME_SC_INVALID_FORMAT, SNIC_EINVAL, "invalid format"},
    {SNIC_NVME_SC_NOT_SAVEABLE, SNIC_ENOTSUP, "feature identifier not saveable"},
    {SNIC_NVME_SC_NOT_CHANGEABLE, SNIC_EPERM, "feature not changeable"},
    {SNIC_NVME_SC_NOT_NS_SPECIFIC, SNIC_EINVAL, "feature not namespace specific"},
    {SNIC_NVME_SC_IO_COMMAND_SET, SNIC_ENOTSUP, "I/O command set not supported"},
    {SNIC_NVME_SC_CONNECT_FORMAT, SNIC_EINVAL,
     "connect: incompatible format; NVM command: conflicting attributes"},
    {SNIC_NVME_SC_CONNECT_BUSY, SNIC_EBUSY,
     "connect: controller busy; NVM command: invalid protection information"},
    {SNIC_NVME_SC_CONNECT_PARAM, SNIC_EINVAL,
     "connect: invalid parameters; NVM command: write to read only range"},
    {SNIC_NVME_SC_CONNECT_RESTART, SNIC_EAGAIN, "connect: restart discovery"},
    {SNIC_NVME_SC_CONNECT_HOST, SNIC_EACCES, "connect: invalid host"},
    {SNIC_NVME_SC_QUEUE_TYPE, SNIC_EINVAL, "invalid queue type"},
    {SNIC_NVME_SC_DISCOVER_RESTART, SNIC_EAGAIN, "discover restart"},
    {SNIC_NVME_SC_AUTH_REQUIRED, SNIC_EACCES, "authentication required"},
    {SNIC_NVME_SC_WRITE_FAULT, SNIC_EIO, "write fault"},
    {SNIC_NVME_SC_READ_ERROR, SNIC_EIO, "unrecovered read error"},
    {SNIC_NVME_SC_GUARD, SNIC_ECORRUPT, "end-to-end guard check error"},
    {SNIC_NVME_SC_APP_TAG, SNIC_ECORRUPT, "end-to-end application tag check error"},
    {SNIC_NVME_SC_REF_TAG, SNIC_ECORRUPT, "end-to-end reference tag check error"},
    {SNIC_NVME_SC_COMPARE, SNIC_ESTALE, "compare failure"},
    {SNIC_NVME_SC_ACCESS_DENIED, SNIC_EACCES, "access denied"},
    {SNIC_NVME_SC_DEALLOCATED, SNIC_ENODATA, "deallocated or unwritten logical block"},
    {SNIC_NVME_SC_PATH_INTERNAL, SNIC_EAGAIN, "internal path error"},
    {SNIC_NVME_SC_ANA_LOSS, SNIC_EHOSTUNREACH, "asymmetric access persistent loss"},
    {SNIC_NVME_SC_ANA_INACCESSIBLE, SNIC_EAGAIN, "asymmetric access inaccessible"},
    {SNIC_NVME_SC_ANA_CHANGE, SNIC_EAGAIN, "asymmetric access transition"},
    {SNIC_NVME_SC_PATH_CONTROLLER, SNIC_EAGAIN, "controller pathing error"},
    {SNIC_NVME_SC_PATH_HOST, SNIC_EAGAIN, "host pathing error"},
    {SNIC_NVME_SC_PATH_ABORTED, SNIC_ECANCELED, "command aborted by host"},
};

static const struct nvme_status *nvme_status_find(uint32_t status)
{
    for (size_t i = 0; i < SNIC_COUNTOF(nvme_statuses); i++)
        if (nvme_statuses[i].status == (status & SNIC_NVME_SCT_SC))
            return &nvme_statuses[i];
    return NULL;
}

const char *snic_nvme_status_text(uint32_t status)
{
    const struct nvme_status *s = nvme_status_find(status);
    return s != NULL ? s->text : "unknown status";
}

int snic_nvme_status_error(uint32_t status)
{
    const struct nvme_status *s = nvme_status_find(status);
    return s != NULL ? s->error : SNIC_EIO;
}

uint32_t snic_nvme_error_status(int error)
{
    switch (error) {
    case 0:
        return SNIC_NVME_SC_SUCCESS;
    case SNIC_EAGAIN:
    case SNIC_EBUSY:
    case SNIC_ENOMEM:
        return SNIC_NVME_SC_NS_NOT_READY;
    case SNIC_ENOSPC:
        return SNIC_NVME_SC_CAPACITY | SNIC_NVME_DNR;
    case SNIC_EROFS:
        return SNIC_NVME_SC_WRITE_PROTECTED | SNIC_NVME_DNR;
    case SNIC_ERANGE:
        return SNIC_NVME_SC_LBA_RANGE | SNIC_NVME_DNR;
    case SNIC_ENOTSUP:
        return SNIC_NVME_SC_INVALID_OPCODE | SNIC_NVME_DNR;
    case SNIC_ECORRUPT:
        return SNIC_NVME_SC_READ_ERROR | SNIC_NVME_DNR;
    case SNIC_ESTALE:
        return SNIC_NVME_SC_COMPARE | SNIC_NVME_DNR;
    case SNIC_ECANCELED:
        return SNIC_NVME_SC_ABORT_REQUESTED;
    default:
        return SNIC_NVME_SC_INTERNAL;
    }
}
