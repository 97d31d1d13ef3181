/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a node's logs, and that of each space in it: what space_logs.c needs of it. */
#ifndef NODE_SPACE_LOG_FOLDER_H
#define NODE_SPACE_LOG_FOLDER_H

#include "node/space_logs.h"

#define SPACE_LOG_FOLDER_NAME "%016llx" /* of a space: its birth */

/* The directory of that space, made if it is not there; it says which space it is of. NIGH_CORRUPT,
 * NIGH_VERSION: it says something else; or it was refused. */
nigh_status space_log_folder_make(int fd, const struct space_info *info, int *space_fd);
/* From here on no start begins from what is there. */
nigh_status space_log_folder_refuse(int space_fd);
/* It is kept that it is deleted; else it is said in the node's log that it is not. */
void space_log_folder_bury(int fd, uint64_t birth);
void space_log_folder_remove(int fd, uint64_t birth);

#endif
