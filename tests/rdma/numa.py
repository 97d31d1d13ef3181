#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In a guest of two NUMA nodes, each with two processors and three RDMA devices: lanes, their threads and their memory are
where the devices are; a lane whose device goes moves to one as near; memory that a device's node has not is said.
TAP."""
import os
import re
import signal
import subprocess
import sys
import tempfile

import nighd
from checks import check_all
from nighd import MIB, SLOW, are_joined, move, wait_for

HOSTS = os.environ["RDMA_GUEST_HOSTS"].split()
LISTED, ALONE = HOSTS[:4], HOSTS[5]  # devices of the first node, at 0, 1, 0 and 1; of the second: at 1
NUMA_NODES, CPUS = 2, ("0-1", "2-3")
PAGE = 4096
MEMORY, TOO_MUCH = 128 * MIB, 1400 * MIB  # more than a NUMA node has
OWN_CPUS = {0, 1}


class Node(nighd.Node):
    hosts = [HOSTS[0], ALONE]

    def places(self):
        """Of each lane, as the log has it of the last start: device, NUMA node, whether its thread is bound."""
        found = re.findall(r'near its RDMA device" lane=(\d) device=(\w+) numa_node=(\d) bound=(\d)', self.said())
        return [words[1:] for words in found[-2:]]

    def threads(self):
        """Where the lanes' may run."""
        found = {}
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/status", encoding="ascii") as file:
                words = dict(line.rstrip("\n").split(":\t", 1) for line in file)
            found[words["Name"]] = words["Cpus_allowed_list"]
        return [found[f"nigh-lane-{lane}"] for lane in range(2)]

    def memory(self):
        """By the kernel's word: bytes of extents at each NUMA node, by the node that they are to come from (None: any)."""
        found = {}
        with open(f"/proc/{self.process.pid}/numa_maps", encoding="ascii") as file:
            for line in file:
                policy = re.match(r"[0-9a-f]+ (\w+)(?: \(many\))?:?(\d)?.*/memfd:nigh-extent", line)
                if not policy:
                    continue
                wanted = int(policy[2]) if policy[1] == "prefer" else None
                at = found.setdefault(wanted, [0] * NUMA_NODES)
                for number, pages in re.findall(r" N(\d)=(\d+)", line):
                    at[int(number)] += int(pages) * PAGE
        return found

    def again(self, *flags):
        assert self.end(signal.SIGTERM) == 0, self.said()
        self.start(*flags)

    def doctor(self):
        return self.run("doctor")[1].decode()


def check_lanes_begin_at_devices_of_both_nodes(folder, one, other):
    wait_for(lambda: are_joined(one, other), 2 * SLOW)
    assert one.places() == [("rxe1", "0", "1"), ("rxe2", "1", "1")], one.said()
    # Two lanes at one NUMA node of two processors: their threads are left alone.
    assert other.places() == [("rxe6", "1", "0")] * 2, other.said()


def check_threads_are_kept_there(folder, one, other):
    assert one.threads() == list(CPUS), one.threads()
    assert other.threads() == ["0-3"] * 2, other.threads()


def check_memory_comes_from_there(folder, one, other):
    print(f"# {one.memory()}, {other.memory()}", flush=True)
    assert one.memory() == {0: [MEMORY // 2, 0], 1: [0, MEMORY // 2]}, one.memory()
    assert other.memory() == {1: [0, MEMORY]}, other.memory()
    assert one.numbers()["memory_far_bytes"] == other.numbers()["memory_far_bytes"] == 0


def check_doctor_says_so(folder, one, other):
    said = one.doctor()
    assert "2 NUMA nodes, " in said and "no memory is known to be far from its lane's device" in said, said
    for number in range(1, len(HOSTS) + 1):
        assert f"rxe{number} at node {(number - 1) % NUMA_NODES}" in said, said


def check_objects_go_both_ways(folder, one, other):
    for size in (100, 40000, 5 * MIB + 3):
        move(folder, one, other, f"there-{size}", size)
        move(folder, other, one, f"back-{size}", size)


def check_a_lane_moves_to_a_device_that_is_as_near(folder, one, other):
    """rxe2 comes next in the list, and is at the other NUMA node."""
    subprocess.run(["rdma", "link", "delete", "rxe1"], check=True, timeout=SLOW)
    wait_for(lambda: "an RDMA device is there again" in one.said())
    found = re.findall(r'there again" device=(\w+)', one.said())
    assert found == ["rxe3"], found
    wait_for(lambda: are_joined(one, other), 2 * SLOW)
    move(folder, one, other, "after", 3 * MIB)
    subprocess.run(["rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "h1"], check=True, timeout=SLOW)


def check_a_process_of_one_node_takes_the_devices_there(folder, one, other):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, OWN_CPUS)
    one.again()
    os.sched_setaffinity(0, before)
    assert one.places() == [("rxe1", "0", "0"), ("rxe3", "0", "0")], one.said()
    assert one.memory() == {0: [MEMORY, 0]}, one.memory()


def check_memory_that_is_far_is_said(folder, one, other):
    assert one.end(signal.SIGTERM) == 0, one.said()
    other.again("--memory", str(TOO_MUCH))
    far = other.numbers()["memory_far_bytes"]
    lies = other.memory()
    print(f"# {far} bytes are far: {lies}", flush=True)
    assert "memory lies on another NUMA node than its lane's RDMA device" in other.said(), other.said()
    assert list(lies) == [1] and sum(lies[1]) >= TOO_MUCH and 0 < lies[1][0] <= far, (far, lies)
    assert "of the node's memory is on another than its lane's device" in other.doctor(), other.doctor()


CHECKS = (check_lanes_begin_at_devices_of_both_nodes, check_threads_are_kept_there, check_memory_comes_from_there,
          check_doctor_says_so, check_objects_go_both_ways, check_a_lane_moves_to_a_device_that_is_as_near,
          check_a_process_of_one_node_takes_the_devices_there, check_memory_that_is_far_is_said)


def main():
    print(f"1..{len(CHECKS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        flags = "--memory", str(MEMORY), "--lanes", "2", "--fabric", "verbs"
        nodes = Node(folder, 0, *flags, "--fabric-addresses", ",".join(LISTED)), Node(folder, 1, *flags)
        try:
            return check_all(CHECKS, lambda: [node.fate() for node in nodes], folder, *nodes)
        finally:
            for node in nodes:
                if node.process.poll() is None:
                    node.end(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
