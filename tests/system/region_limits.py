#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What processes of a node share for regions, and how much each may have: connections to other nodes are the node's, however many
clients use them; and where a node limits its sessions, that is of whatever they ask of regions. Where there are RDMA hosts
(tools/rdma-guest) the two nodes that are connected are at one each."""
import json
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import RegionSession, wait_for  # noqa: E402
from cluster_faults import RDMA_HOSTS  # noqa: E402
from cluster_views import Voters  # noqa: E402
from region_faults import make  # noqa: E402

CLIENTS = 50
# Of 4 KiB, that each of many clients may cost a node at most; sanitizers have some of their own.
PAGES = 512 if "NIGH_SANITIZED" in os.environ else 256
RATE, COUNT = 50, 40  # operations a second of a session; of each kind
LEAST_S = (COUNT - 2) / RATE  # the first is at once, and the next sooner by what ten milliseconds bring


def queue_pairs():
    """By the kernel's word, on the devices of all hosts: both ends of whatever is connected."""
    shown = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    return sum(device.get("qp", 0) for device in shown)


def connections(process):
    """Of a node: over TCP, by the inodes of its sockets. And queue pairs, where there are devices for them: none is added, here or
    there."""
    own = set()
    for fd in os.listdir(f"/proc/{process.pid}/fd"):
        try:
            own.add(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
        except FileNotFoundError:
            pass  # it was closed meanwhile
    with open(f"/proc/{process.pid}/net/tcp", encoding="ascii") as file:
        sockets = [line.split() for line in file][1:]
    tcp = {one[9] for one in sockets if one[3] == "01" and f"socket:[{one[9]}]" in own}
    return len(tcp) + (queue_pairs() if RDMA_HOSTS else 0)


def reads(session, name):
    """A client that has a region open, and has read of it."""
    number = session.open(name, 1)
    status = session.ask(raw.REGION_READ, number, ref=8)[0]
    assert status == "NIGH_OK", status


def test_connections_are_the_nodes():
    """As many with fifty clients as with one, all of which are there and have read what lies at the other node."""
    cluster = Voters(2)
    wait_for(cluster.agrees, 20)
    make(cluster, 0, "shared", bytes(65536), "--on", "1")
    clients = [RegionSession(cluster.socket(0))]
    reads(clients[0], b"shared")
    before, parts = connections(cluster.processes[0]), cluster.stats(0)["region_parts_there"]
    assert before and parts > 0, (before, parts)
    assert not RDMA_HOSTS or queue_pairs() > len(RDMA_HOSTS), "of each device one is the kernel's own"
    for _ in range(CLIENTS):
        clients.append(RegionSession(cluster.socket(0)))
        reads(clients[-1], b"shared")
    assert cluster.stats(0)["region_parts_there"] >= parts + CLIENTS
    after = connections(cluster.processes[0])
    print(f"# {before} connections with one client, {after} with {len(clients)}", flush=True)
    # A link of a busy machine may have broken, and come again.
    wait_for(lambda: connections(cluster.processes[0]) == before, 20)
    for client in clients:
        client.session.close()
    cluster.close()


def anonymous_bytes(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) << 10


def sessions(node):
    said = subprocess.run([os.environ["NIGH"], "top", "--once", "--json", "--socket", node.path], stdout=subprocess.PIPE, check=True, timeout=60)
    return json.loads(said.stdout)["sessions"]


def test_clients_cost_what_they_use_and_give_it_back():
    """Each has one region open: what a node has for the many that it could open comes when these are, also of memory that
    clients before had."""
    node = raw.Node("--max-sessions", "256")
    before, held = anonymous_bytes(node.process), []
    maker = RegionSession(node.path)
    assert maker.create(b"shared", 4096) == "NIGH_OK"
    for _ in range(3):
        clients = [RegionSession(node.path) for _ in range(CLIENTS)]
        for client in clients:
            reads(client, b"shared")
        held.append(anonymous_bytes(node.process) - before)
        for client in clients:
            client.session.close()
        wait_for(lambda: sessions(node) <= 2)  # who made the region, and who asks
    print(f"# bytes that {CLIENTS} clients took, three times: {held}", flush=True)
    assert max(held) < CLIENTS * PAGES << 12, held
    maker.session.close()
    assert node.stop()[0] == 0


def takes(work):
    """Seconds, of so many."""
    begun = time.monotonic()
    for number in range(COUNT):
        status = work(number)
        assert status == "NIGH_OK", (number, status)
    return time.monotonic() - begun


def test_a_session_has_no_more_operations_than_it_may():
    """Of whichever kind: changes and lists are operations, too."""
    node = raw.Node("--session-ops", str(RATE))
    one, other = RegionSession(node.path), RegionSession(node.path)
    grant = struct.pack("<IIII", 0, 12345, 1, 0)
    kinds = {"creates": lambda number: one.create(b"region %d" % number, 4096),
             "lists": lambda number: one.ask(raw.REGION_LIST)[0]}
    taken = {kind: takes(work) for kind, work in kinds.items()}
    handle = one.open(b"region 0", 7)
    taken["reads"] = takes(lambda number: one.ask(raw.REGION_READ, handle, ref=8)[0])
    taken["grants"] = takes(lambda number: one.ask(raw.REGION_GRANT, handle, question=grant)[0])
    print("# seconds for", COUNT, taken, flush=True)
    assert all(seconds >= LEAST_S for seconds in taken.values()), taken
    assert other.create(b"another", 4096) == "NIGH_OK"
    one.session.close()
    other.session.close()
    assert node.stop()[0] == 0


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
