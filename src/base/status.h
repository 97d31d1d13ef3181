/* SPDX-License-Identifier: Apache-2.0 */
/* From errno to nigh's own codes. The codes themselves are public: nigh/status.h. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "nigh/status.h"

/*
 * What an errno value means where nothing is known about the call that set it; 0 gives NIGH_OK, and
 * a value not listed NIGH_NO_RESOURCES. A caller that knows better (an ENOENT of a socket path is
 * NIGH_UNREACHABLE) decides before it asks here.
 */
nigh_status status_from_errno(int error);

#endif
