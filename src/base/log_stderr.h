/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sink of a daemon: each line goes to stderr behind the time (UTC), in one system call that
 * does not wait. Whoever reads them may stop for as long as it likes (a pager, a stopped terminal,
 * a log collector that stands still): lines are lost then, and counted on the next that is taken.
 * One of which a part was taken (the disk is full) is lost, too, and the next begins a line.
 */
#ifndef BASE_LOG_STDERR_H
#define BASE_LOG_STDERR_H

#include "base/log.h"

/*
 * Looks at what stderr is, and returns the sink for log_set_sink. Of a pipe or a terminal it opens
 * a description of its own, since the other may be shared with programs that want theirs to wait.
 * Before threads that log; again, if stderr has become something else.
 */
const struct log_sink *log_stderr_open(void);

#endif
