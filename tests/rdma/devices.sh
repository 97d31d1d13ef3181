#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: every host has its RDMA device, which ibv_devinfo shows as what the tests need. TAP.
set -u

number=0
failures=0

# expect DEVICE TEXT: what is known of the device has a line like TEXT.
expect() {
    number=$((number + 1))
    if ibv_devinfo -v -d "$1" | grep -q "$2"; then
        echo "ok $number - $1: $2"
    else
        echo "not ok $number - $1: $2"
        failures=$((failures + 1))
    fi
}

for address in $RDMA_GUEST_HOSTS; do
    device=rxe${address##*.}
    expect "$device" "state:.*PORT_ACTIVE"
    expect "$device" "active_mtu:.*4096"
    expect "$device" "atomic_cap:.*ATOMIC_HCA"
    expect "$device" "MEM_WINDOW"
    expect "$device" "GID\[.*::ffff:$address, RoCE v2"
done
echo "1..$number"
[ "$failures" = 0 ]
