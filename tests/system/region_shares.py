#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What processes of a node share for regions: connections to other nodes are the node's, however many clients use them."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import RegionSession, wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402
from region_faults import make  # noqa: E402

CLIENTS = 50


def connections(process):
    """TCP connections of a node, by the inodes of its sockets."""
    own = set()
    for fd in os.listdir(f"/proc/{process.pid}/fd"):
        try:
            own.add(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
        except FileNotFoundError:
            pass  # it was closed meanwhile
    with open(f"/proc/{process.pid}/net/tcp", encoding="ascii") as file:
        sockets = [line.split() for line in file][1:]
    return {one[9] for one in sockets if one[3] == "01" and f"socket:[{one[9]}]" in own}


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
    for _ in range(CLIENTS):
        clients.append(RegionSession(cluster.socket(0)))
        reads(clients[-1], b"shared")
    assert cluster.stats(0)["region_parts_there"] >= parts + CLIENTS
    after = connections(cluster.processes[0])
    print(f"# {len(before)} connections with one client, {len(after)} with {len(clients)}", flush=True)
    # A link of a busy machine may have broken, and come again.
    wait_for(lambda: len(connections(cluster.processes[0])) == len(before), 20)
    for client in clients:
        client.session.close()
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
