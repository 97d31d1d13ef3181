#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: from each host to each, itself too, rdma_cm connects, and SENDs, READs and WRITEs bring the bytes that
# were sent (rping -V). Between two hosts they cross the bridge. TAP.
set -u

count=5
number=0
failures=0
listening=$(mktemp)

# packets HOST: how many packets it has sent.
packets() {
    cat "/sys/class/net/h${1##*.}/statistics/tx_packets"
}

# await_listener ADDRESS: until it listens there.
await_listener() {
    for _ in $(seq 300); do
        rdma resource show cm_id >"$listening"
        if grep -q "LISTEN.*src-addr $1:" "$listening"; then
            return 0
        fi
        sleep 0.1
    done
    echo "# nobody listens at $1"
    return 1
}

# ping FROM TO: both ends of one connection, and whether its packets went out at FROM as they should.
ping() {
    timeout 60 rping -s -a "$2" -C $count -V >/dev/null 2>&1 &
    server=$!
    status=1
    before=$(packets "$1")
    if await_listener "$2"; then
        timeout 60 rping -c -I "$1" -a "$2" -C $count -V 2>&1 | sed 's/^/# /'
        wait $server && status=0
    else
        kill $server
    fi
    sent=$(($(packets "$1") - before))
    echo "# $sent packets sent"
    [ "$1" = "$2" ] || [ $sent -gt $count ] || status=1
    return $status
}

for from in $RDMA_GUEST_HOSTS; do
    for to in $RDMA_GUEST_HOSTS; do
        number=$((number + 1))
        if ping "$from" "$to"; then
            echo "ok $number - $from to $to"
        else
            echo "not ok $number - $from to $to"
            failures=$((failures + 1))
        fi
    done
done
rm -f "$listening"
echo "1..$number"
[ "$failures" = 0 ]
