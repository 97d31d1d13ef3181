/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a node that joined keeps which rank it was given, and who the others were then:
 * ranks are stable, and the next start asks nobody. Written anew, synced and renamed, so that it is
 * the one or the other, whole. Start-up thread.
 */
#ifndef NODE_MEMBERS_FILE_H
#define NODE_MEMBERS_FILE_H

#include <stddef.h>

#include "cluster/members.h"
#include "nigh/status.h"

/* NIGH_NOT_FOUND: there is none. On any other failure `why` is a sentence with a remedy:
 * NIGH_CORRUPT, NIGH_DENIED, NIGH_DISK, NIGH_NO_RESOURCES. */
nigh_status members_file_read(const char *directory, struct members *members, char *why,
                              size_t why_bytes);

/* NIGH_OK: it is there after a power cut. NIGH_DISK: it is not, and `why` says why. */
nigh_status members_file_write(const char *directory, const struct members *members, char *why,
                               size_t why_bytes);

#endif
