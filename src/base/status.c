/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences of status codes, made from the one table in nigh/status.h. */

/* Public functions: exported by the shared libraries, where everything else of base is hidden. */
#pragma GCC visibility push(default)
#include "nigh/status.h"
#pragma GCC visibility pop

#include "base/status.h"

#include <errno.h>

const char *nigh_status_name(nigh_status status)
{
    /* Through int: a code received from elsewhere may be none of the enum. */
    switch ((int)status) {
#define STATUS_NAME(symbol, value, sentence) \
    case value: return #symbol;
        NIGH_STATUS_TABLE(STATUS_NAME)
#undef STATUS_NAME
    }
    return "NIGH_UNKNOWN";
}

const char *nigh_status_string(nigh_status status)
{
    switch ((int)status) {
#define STATUS_SENTENCE(symbol, value, sentence) \
    case value: return sentence;
        NIGH_STATUS_TABLE(STATUS_SENTENCE)
#undef STATUS_SENTENCE
    }
    return "unknown status";
}

nigh_status status_from_errno(int error)
{
    switch (error) {
    case 0: return NIGH_OK;
    case EINVAL:
    case EDOM:
    case ERANGE:
    case EILSEQ:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG: return NIGH_INVALID;
    case ENOENT:
    case ESRCH: return NIGH_NOT_FOUND;
    case EEXIST: return NIGH_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return NIGH_DENIED;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case EADDRINUSE: return NIGH_BUSY;
    case E2BIG:
    case EMSGSIZE:
    case EOVERFLOW:
    case ETOOMANYREFS: return NIGH_LIMIT;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO: return NIGH_DISK;
    case ETIMEDOUT:
    case ETIME: return NIGH_TIMEOUT;
    case ECANCELED: return NIGH_CANCELED;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN: return NIGH_CLOSED;
    case ECONNREFUSED: return NIGH_UNREACHABLE;
    case EPROTO:
    case EBADMSG: return NIGH_PROTOCOL;
    case ENOSYS:
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT: return NIGH_UNSUPPORTED;
    default: return NIGH_NO_RESOURCES;
    }
}
