#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# in_guest.sh OPTION... COMMAND...: tools/rdma-guest, for tests that print TAP: where it is not set up, the test is
# skipped. Fetches nothing: `make test-rdma` does.
set -eu

tools=$(dirname "$0")/../../tools
if ! "$tools/rdma-guest-build" --ready; then
    echo "1..0 # SKIP no guest: make test-rdma sets it up"
    exit 0
fi
if [ "${NIGH_SANITIZED-}" ]; then
    # RDMA's libraries have no frame pointers, and a leak there is known by who called them (tools/sanitized.supp).
    export LSAN_OPTIONS="${LSAN_OPTIONS-}:fast_unwind_on_malloc=0"
fi
exec "$tools/rdma-guest" "$@"
