/* SPDX-License-Identifier: Apache-2.0 */
/* See lock_fault.h. */
#include "lock_fault.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int lock_fault;

int flock(int fd, int operation)
{
    if (lock_fault != 0) {
        errno = lock_fault;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}
