#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: the part of tests/system/bench_cluster.py that has RDMA devices. TAP.
set -u

echo "1..1"
said=$(NIGH_TEST="ranks on rdma devices" "$(dirname "$0")/../system/bench_cluster.py" 2>&1)
status=$?
echo "$said" | sed 's/^/# /'
case $status in
0) echo "ok 1 - ranks on RDMA devices" ;;
77) echo "ok 1 - ranks on RDMA devices # SKIP no MPI" ;;
*) echo "not ok 1 - ranks on RDMA devices" ;;
esac
[ $status = 0 ] || [ $status = 77 ]
