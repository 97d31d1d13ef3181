#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In the guest: regions between two nodes on a host each. Reads and writes of what lies at the other node are carried out
by its device: while that node stands still, thousands are, of which its lane has done nothing by any count. The same
over TCP, where a lane has to carry them out, ends none. TAP."""
import os
import signal
import subprocess
import sys
import tempfile

from checks import check_all, counted
from nighd import Node, are_joined, wait_for

# Writes, and as many reads, while the holder stands still: for less than the two seconds after which nodes that say nothing
# are cut off. So often it does.
COUNT, STOPS = 50, 20
REGION_BYTES = 64 << 10  # in which each of so many has a place of its own
DEADLINE_MS = 120000
TCP_DEADLINE_MS = 1000  # of what does not come
LOAD = os.environ["REGION_LOAD"]


class Load:
    """A client of a node that has a region open before the other node stands still."""

    def __init__(self, node, name, deadline_ms=DEADLINE_MS):
        self.process = subprocess.Popen([LOAD, node.path, name, str(COUNT), str(deadline_ms)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"open\n", node.said()[-2000:]

    def go(self):
        """How many reads and writes were done, and the status of the last."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        done, status = self.process.stdout.readline().split()
        return int(done), status.decode()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_MS / 1000) == 0


def tasks(process, name):
    """A file of /proc of each of its threads."""
    folder = f"/proc/{process.pid}/task"
    for task in os.listdir(folder):
        with open(os.path.join(folder, task, name), encoding="ascii") as file:
            yield task, file.read()


def is_still(process):
    return all(text.rsplit(")", 1)[1].split()[0] == "T" for _, text in tasks(process, "stat"))


def deeds(process):
    """What its threads have done by the kernel's count: how long they ran in nanoseconds, and how often."""
    return {task: tuple(map(int, (text.split()[0], text.split()[2]))) for task, text in tasks(process, "schedstat")}


def make(one, name):
    """A region of node 0's clients, all of it at node 1. Until the members agree nobody makes one."""
    def is_made():
        code, _, said = one.run("region", "create", name, str(REGION_BYTES), "--on", "1")
        return code == 0 or "already" in said or "exists" in said

    wait_for(is_made)


def amid_a_stop(one, other, load):
    """What was done of COUNT writes and reads while the other node stood still, and how they ended; the packets that came to
    its device; by how much the counters of regions of the first and of the other have grown."""
    before = [node.numbers() for node in (one, other)]
    other.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: is_still(other.process))
    had, packets = deeds(other.process), counted("rxe2", "rcvd_pkts")
    done, status = load.go()
    assert is_still(other.process) and deeds(other.process) == had, (had, deeds(other.process))
    packets = counted("rxe2", "rcvd_pkts") - packets
    other.process.send_signal(signal.SIGCONT)
    after = [node.numbers() for node in (one, other)]
    return done, status, packets, *({key: after[n][key] - before[n][key] for key in before[n]} for n in range(2))


def check_reads_and_writes_are_the_devices(folder, one, other):
    del folder
    wait_for(lambda: all(node.numbers()["rdma_lanes"] > 0 for node in (one, other)))
    make(one, "by device")
    load = Load(one, "by device")
    good = late = 0
    while good < STOPS:
        done, status, packets, here, there = amid_a_stop(one, other, load)
        if status == "NIGH_PEER_LOST":  # it took too long, on a busy machine
            late += 1
            assert late < STOPS, late
            wait_for(lambda: are_joined(one, other))
            continue
        assert (done, status) == (2 * COUNT, "NIGH_OK"), (done, status)
        assert packets >= 2 * COUNT, packets
        assert here["region_parts_there"] == 2 * COUNT and here["region_parts_here"] == 0, here
        assert here["region_parts_refused"] == 0, here
        assert there["region_operations"] == there["region_parts_here"] == there["region_parts_there"] == 0, there
        good += 1
    load.end()
    print(f"# {good * 2 * COUNT} reads and writes while their holder stood still; {late} times that took too long", flush=True)


def check_the_holder_has_what_was_written(folder, one, other):
    del folder
    wait_for(lambda: all(node.numbers()["view_quorum"] == 1 for node in (one, other)))
    before = other.numbers()["region_parts_here"]
    here = other.good("region", "read", "by device")
    assert other.numbers()["region_parts_here"] > before, "it lies there"
    assert here == one.good("region", "read", "by device")
    assert sum(here[at:at + 8] != bytes(8) for at in range(0, REGION_BYTES, 64)) >= COUNT * STOPS


def check_over_tcp_a_lane_has_to_be_there(folder, one, other):
    del folder
    for node in (one, other):
        assert node.end(signal.SIGTERM) == 0, node.said()
    for node in (one, other):
        node.start("--fabric", "tcp")
    wait_for(lambda: all(node.numbers()["view_quorum"] == 1 for node in (one, other)))
    make(one, "by lane")
    load = Load(one, "by lane", TCP_DEADLINE_MS)
    done, status, _, _, _ = amid_a_stop(one, other, load)
    assert done == 0 and status in ("NIGH_TIMEOUT", "NIGH_PEER_LOST"), (done, status)
    load.end()


CHECKS = (check_reads_and_writes_are_the_devices, check_the_holder_has_what_was_written,
          check_over_tcp_a_lane_has_to_be_there)


def main():
    print(f"1..{len(CHECKS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        nodes = [Node(folder, rank, "--memory", "64M", "--lanes", "1", "--fabric", "verbs", "--state",
                      os.path.join(folder, f"state{rank}")) for rank in range(2)]
        try:
            return check_all(CHECKS, lambda: [node.fate() for node in nodes], folder, *nodes)
        finally:
            for node in nodes:
                if node.process.poll() is None:
                    node.end(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
