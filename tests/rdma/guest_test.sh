#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tools/rdma-guest promises: the command's status, output and arguments as they are, files that vanish or stay,
# and statuses of its own for a guest that is late or dies. TAP.
set -u

tools=$(realpath "$(dirname "$0")/../../tools")
if ! "$tools/rdma-guest-build" --ready; then
    echo "1..0 # SKIP no guest: make test-rdma sets it up"
    exit 0
fi
folder=$(mktemp -d /tmp/guest-test.XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/stay here"
cd "$folder" || exit 1
number=0
failures=0
status=0

check() {
    local name=$1
    shift
    number=$((number + 1))
    if "$@"; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        echo "# status $status"
        sed 's/^/# errors: /' errors | tail -n 30
        failures=$((failures + 1))
    fi
}

# guest OPTION... COMMAND...: what it says goes to the files output and errors, its status to $status.
guest() {
    "$tools/rdma-guest" "$@" >output 2>errors
    status=$?
}

is() {
    [ "$status" = "$1" ]
}

holds() {
    printf '%b' "$2" | cmp -s - "$1"
}

has() {
    grep -q -- "$2" "$1"
}

guest -n 0 true
check "status 0" is 0
check "and nothing on standard output" holds output ""
check "nor on standard error" holds errors ""

# Every kind of argument, the folder, the environment, and what stays of what is written.
export GUEST_TEST_VALUE=$'two lines\nand a \'quote\''
# shellcheck disable=SC2016 # the guest expands it
guest -n 0 -w "$folder/stay here" sh -c '
    printf "<%s>" "$@"
    printf "%s\n" "$GUEST_TEST_VALUE" >&2
    pwd >&2
    read -r line || echo "no input" >&2
    echo kept >"stay here/kept"
    echo gone >gone && cat gone >&2
    exit 37' sh 'a b' '' "it's" '"$HOME"' $'new\nline' '*' '\n'
check "status 37" is 37
check "arguments with blanks, quotes, new lines" holds output "<a b><><it's><\"\$HOME\"><new\nline><*><\\\\n>"
check "standard error apart, environment, folder, empty input" \
    holds errors "two lines\nand a 'quote'\n$folder\nno input\ngone\n"
check "what is written below -w stays" holds "stay here/kept" "kept\n"
check "what is written elsewhere vanishes" [ ! -e gone ]

# More than pipes and the guest's queues hold, to the last byte, with a slow reader.
"$tools/rdma-guest" -n 0 sh -c 'seq 400000; echo end >&2; exit 5' 2>errors | (sleep 8 && cat) >output
status=${PIPESTATUS[0]}
check "status 5" is 5
check "megabytes come whole" cmp -s output <(seq 400000)
check "standard error too" holds errors "end\n"

guest -n 0 sh -c 'kill -9 $$'
check "a command that a signal ends" is 137
guest -n 0 sh -c 'sleep 1000 & echo left; exit 3'
check "what a command leaves running ends with it" is 3
check "and keeps nothing back" holds output "left\n"
guest -n 0 no-such-command
check "a command that is not there" is 127
guest -n 0 -t 4 sleep 60
check "late: 124" is 124
check "and says so" has errors "after 4 s (-t)"

# One that stands still before its command has begun is booted anew; what it would have done was not done.
"$tools/rdma-guest" -n 0 -b 2 sh -c 'echo once' >output 2>errors &
machine=$!
until still=$(pgrep -P "$machine" qemu) || ! kill -0 "$machine" 2>errors; do :; done
kill -STOP "$still"
wait "$machine"
status=$?
check "one that stands still is booted anew" is 0
check "and its command runs once" holds output "once\n"
check "and says so, too" has errors "did not begin within 2 s"
guest -n 0 sh -c 'echo before; echo c >/proc/sysrq-trigger; sleep 60'
check "a guest that dies: 125" is 125
check "and says why" has errors "Kernel panic"
check "what was said before is there" holds output "before\n"

# shellcheck disable=SC2016 # the guest expands it
guest -n 2 --first 7 sh -c 'echo $RDMA_GUEST_HOSTS; ls /sys/class/infiniband'
check "hosts by number" holds output "10.99.0.7 10.99.0.8\nrxe7\nrxe8\n"

# shellcheck disable=SC2016 # the guest expands it
guest -n 2 --numa 2 sh -c 'cat /sys/devices/system/node/online
    for i in 1 2; do cat /sys/devices/system/node/node$((i - 1))/cpulist /sys/class/net/h$i/device/../numa_node; done'
check "NUMA nodes, and a host at each" holds output "0-1\n0\n0\n1\n1\n"
guest --numa 2 -c 3 true
check "NUMA nodes that are not alike: 2" is 2
check "and why" has errors "multiples"

# A system of its own under systemd is tried with the packages (tools/test-packages).
guest --root "$folder/none" true
check "--root of no folder: 2" is 2
guest --root "$folder" -w "$folder" true
check "--root with -w: 2" is 2

guest -n many true
check "options that make no sense: 2" is 2
guest
check "no command: 2" is 2
PATH=/bin.none "$tools/rdma-guest" true >output 2>errors
status=$?
check "no qemu: 125" is 125
check "and what to do" has errors "tools/setup rdma"
printf '#!/bin/sh\necho "E: no route" >&2\nexit 100\n' >apt-get
printf '#!/bin/sh\necho "  Depends: linux-image-9.9-amd64"\n' >apt-cache
chmod +x apt-get apt-cache
PATH=$folder:$PATH RDMA_GUEST_DIR=$folder/empty "$tools/rdma-guest" true >output 2>errors
status=$?
check "no network: 125" is 125
check "and what to do then" has errors "put the .deb that linux-image-amd64 depends on into $folder/empty"
echo "1..$number"
[ "$failures" = 0 ]
