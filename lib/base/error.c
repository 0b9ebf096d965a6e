/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Errors, version and the default assertion handler.
 *
 * One constant table gives each code its symbol and its text; a second maps the
 * Linux errno values that have no constant of their own. Both are scanned: an
 * error path is not a hot path.
 *
 * I1  Every SNIC_E* of base.h is a row of error_rows (a test walks the header).
 * I2  A code between -1 and -1000 has the number of Linux asm-generic errno, so
 *     an errno value e with a row for -e needs no translation, but for those of error_os_rows:
 *     a kernel's EINTR means "again", its ENXIO and ENODATA that a device failed.
 */
#include "snicstore/base.h"

#include <stdio.h>
#include <stdlib.h>

struct error_row {
    int code;
    const char *name;
    const char *text;
};

#define SNIC_ERROR__ROW(code, text)                                                                \
    {                                                                                              \
        (code), #code, (text)                                                                      \
    }
static const struct error_row error_rows[] = {
    SNIC_ERROR__ROW(SNIC_OK, "success"),
    SNIC_ERROR__ROW(SNIC_EPERM, "operation not allowed"),
    SNIC_ERROR__ROW(SNIC_ENOENT, "no such file, directory, key or id"),
    SNIC_ERROR__ROW(SNIC_EINTR, "interrupted"),
    SNIC_ERROR__ROW(SNIC_EIO, "device failed"),
    SNIC_ERROR__ROW(SNIC_ENXIO, "no data there"),
    SNIC_ERROR__ROW(SNIC_E2BIG, "list too long"),
    SNIC_ERROR__ROW(SNIC_EBADF, "no such handle, or not open for this"),
    SNIC_ERROR__ROW(SNIC_EAGAIN, "try again later"),
    SNIC_ERROR__ROW(SNIC_ENOMEM, "out of memory"),
    SNIC_ERROR__ROW(SNIC_EACCES, "permission denied"),
    SNIC_ERROR__ROW(SNIC_EFAULT, "region, key or range is not registered"),
    SNIC_ERROR__ROW(SNIC_EBUSY, "in use"),
    SNIC_ERROR__ROW(SNIC_EEXIST, "exists already"),
    SNIC_ERROR__ROW(SNIC_EXDEV, "across stores"),
    SNIC_ERROR__ROW(SNIC_ENOTDIR, "not a directory"),
    SNIC_ERROR__ROW(SNIC_EISDIR, "is a directory"),
    SNIC_ERROR__ROW(SNIC_EINVAL, "invalid argument, option or alignment"),
    SNIC_ERROR__ROW(SNIC_ENFILE, "too many files are open"),
    SNIC_ERROR__ROW(SNIC_EFBIG, "beyond the largest file"),
    SNIC_ERROR__ROW(SNIC_ENOSPC, "no space left"),
    SNIC_ERROR__ROW(SNIC_EROFS, "read-only"),
    SNIC_ERROR__ROW(SNIC_EMLINK, "too many links"),
    SNIC_ERROR__ROW(SNIC_EPIPE, "the other end stopped receiving"),
    SNIC_ERROR__ROW(SNIC_ERANGE, "number out of range"),
    SNIC_ERROR__ROW(SNIC_EDEADLK, "would deadlock"),
    SNIC_ERROR__ROW(SNIC_ENAMETOOLONG, "name too long"),
    SNIC_ERROR__ROW(SNIC_ENOLCK, "no locks available"),
    SNIC_ERROR__ROW(SNIC_ENOTEMPTY, "directory not empty"),
    SNIC_ERROR__ROW(SNIC_ELOOP, "too many symbolic links"),
    SNIC_ERROR__ROW(SNIC_ENODATA, "no such attribute"),
    SNIC_ERROR__ROW(SNIC_EPROTO, "protocol error by the peer"),
    SNIC_ERROR__ROW(SNIC_EOVERFLOW, "value does not fit"),
    SNIC_ERROR__ROW(SNIC_EMSGSIZE, "record or message larger than the limit"),
    SNIC_ERROR__ROW(SNIC_ENOTSUP, "not supported"),
    SNIC_ERROR__ROW(SNIC_EADDRINUSE, "address or port in use"),
    SNIC_ERROR__ROW(SNIC_ECONNABORTED, "connection aborted by this side"),
    SNIC_ERROR__ROW(SNIC_ECONNRESET, "connection reset by the peer"),
    SNIC_ERROR__ROW(SNIC_ENOTCONN, "not connected"),
    SNIC_ERROR__ROW(SNIC_ESHUTDOWN, "fenced: the store refuses this client"),
    SNIC_ERROR__ROW(SNIC_ETIMEDOUT, "timed out"),
    SNIC_ERROR__ROW(SNIC_ECONNREFUSED, "connection refused"),
    SNIC_ERROR__ROW(SNIC_EHOSTUNREACH, "no route to the peer"),
    SNIC_ERROR__ROW(SNIC_ESTALE, "older epoch, generation or version"),
    SNIC_ERROR__ROW(SNIC_ECANCELED, "cancelled before it took effect"),
    SNIC_ERROR__ROW(SNIC_EPEERDEAD, "the peer is dead"),
    SNIC_ERROR__ROW(SNIC_ECORRUPT, "corrupt: checksum or structure mismatch"),
    SNIC_ERROR__ROW(SNIC_EVERSION, "unsupported format version"),
    SNIC_ERROR__ROW(SNIC_EUNKNOWN, "outcome unknown: done or not done"),
    SNIC_ERROR__ROW(SNIC_ENOQUORUM, "fewer members than the operation requires"),
};
#undef SNIC_ERROR__ROW

/* Linux asm-generic errno values whose meaning, from a kernel, another constant carries. */
static const struct {
    int os;
    int code;
} error_os_rows[] = {
    {3, SNIC_ENOENT},         /* ESRCH           */
    {4, SNIC_EAGAIN},         /* EINTR           */
    {6, SNIC_EIO},            /* ENXIO           */
    {23, SNIC_ENOMEM},        /* ENFILE          */
    {24, SNIC_ENOMEM},        /* EMFILE          */
    {25, SNIC_ENOTSUP},       /* ENOTTY          */
    {26, SNIC_EBUSY},         /* ETXTBSY         */
    {29, SNIC_ENOTSUP},       /* ESPIPE          */
    {30, SNIC_EPERM},         /* EROFS           */
    {33, SNIC_ERANGE},        /* EDOM            */
    {38, SNIC_ENOTSUP},       /* ENOSYS          */
    {61, SNIC_EIO},           /* ENODATA         */
    {62, SNIC_ETIMEDOUT},     /* ETIME           */
    {74, SNIC_ECORRUPT},      /* EBADMSG         */
    {84, SNIC_ECORRUPT},      /* EILSEQ          */
    {88, SNIC_EINVAL},        /* ENOTSOCK        */
    {89, SNIC_EINVAL},        /* EDESTADDRREQ    */
    {91, SNIC_ENOTSUP},       /* EPROTOTYPE      */
    {92, SNIC_ENOTSUP},       /* ENOPROTOOPT     */
    {93, SNIC_ENOTSUP},       /* EPROTONOSUPPORT */
    {94, SNIC_ENOTSUP},       /* ESOCKTNOSUPPORT */
    {97, SNIC_ENOTSUP},       /* EAFNOSUPPORT    */
    {99, SNIC_EINVAL},        /* EADDRNOTAVAIL   */
    {100, SNIC_EHOSTUNREACH}, /* ENETDOWN        */
    {101, SNIC_EHOSTUNREACH}, /* ENETUNREACH     */
    {102, SNIC_ECONNRESET},   /* ENETRESET       */
    {105, SNIC_EAGAIN},       /* ENOBUFS         */
    {106, SNIC_EINVAL},       /* EISCONN         */
    {108, SNIC_EPIPE},        /* ESHUTDOWN       */
    {112, SNIC_EHOSTUNREACH}, /* EHOSTDOWN       */
    {114, SNIC_EBUSY},        /* EALREADY        */
    {115, SNIC_EAGAIN},       /* EINPROGRESS     */
    {117, SNIC_ECORRUPT},     /* EUCLEAN         */
    {122, SNIC_ENOSPC},       /* EDQUOT          */
};

static const struct error_row *error_find(int code)
{
    for (size_t i = 0; i < SNIC_COUNTOF(error_rows); i++) {
        if (error_rows[i].code == code)
            return &error_rows[i];
    }
    return NULL;
}

void snic_assert_fail(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
    fflush(stderr);
    abort();
}

const char *snic_strerror(int error)
{
    const struct error_row *row = error_find(error);
    return row != NULL ? row->text : "unknown error";
}

const char *snic_errname(int error)
{
    const struct error_row *row = error_find(error);
    return row != NULL ? row->name : "SNIC_E?";
}

uint32_t snic_version(void)
{
    return SNIC_VERSION;
}

int snic_error_from_os(int os_error)
{
    /* Negating a negative value could overflow, negating a positive one cannot. */
    int code = os_error > 0 ? -os_error : os_error;
    for (size_t i = 0; i < SNIC_COUNTOF(error_os_rows); i++) {
        if (-error_os_rows[i].os == code)
            return error_os_rows[i].code;
    }
    return code > -1001 && error_find(code) != NULL ? code : SNIC_EIO; /* I2 */
}
