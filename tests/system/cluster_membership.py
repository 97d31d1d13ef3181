#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real nodes, and who of them lives by each other's word: one that is stopped is suspected, then dead, and alive again
when it goes on; one that leaves has left; where no datagram arrives the connections judge alone."""
import json
import os
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_faults import Cluster  # noqa: E402


def lives(cluster, rank):
    result = subprocess.run([os.environ["NIGH"], "nodes", "--json", "--socket", cluster.socket(rank)],
                            stdout=subprocess.PIPE, check=True, timeout=20)
    return {item["rank"]: item["life"] for item in json.loads(result.stdout)}


def test_stopped_node_is_suspected_dead_and_back():
    cluster = Cluster(5)
    # All have answered all others: only from then on does silence count.
    wait_for(lambda: all(cluster.stats(rank)["nodes_reached"] == 4 for rank in range(5)), 30)
    cluster.stop(4)
    wait_for(lambda: lives(cluster, 0)[4] == "suspect", 30)
    wait_for(lambda: all(lives(cluster, rank)[4] == "dead" for rank in range(4)), 60)
    wait_for(lambda: all(cluster.nodes(rank)[4] == "dead" for rank in range(4)), 20)
    for rank in range(4):
        assert 'a member is suspected' in cluster.log(rank) and "a member is declared dead" in cluster.log(rank)
        assert all(lives(cluster, rank)[other] == "alive" for other in range(4)), lives(cluster, rank)
    cluster.stop(4, False)
    wait_for(lambda: all(lives(cluster, rank)[4] == "alive" and cluster.nodes(rank)[4] == "up" for rank in range(4)),
             60)
    assert "which refutes it" in cluster.log(4)
    # It stood still, and blames nobody for it.
    assert "a member is declared dead" not in cluster.log(4), cluster.log(4)
    assert all(life == "alive" for life in lives(cluster, 4).values())
    cluster.put(4, 0, 10, 1000)
    cluster.get_all(0, 0, 10, 1000)
    assert cluster.stats(4)["suspicions_refuted"] > 0 and cluster.stats(0)["nodes_found_dead"] > 0

    process = cluster.processes[3]
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    raw.Node.running.remove(process)
    cluster.processes[3] = None
    wait_for(lambda: all(lives(cluster, rank)[3] == "left" for rank in (0, 1, 2, 4)), 30)
    cluster.start(3)
    cluster.wait_ready(3)
    wait_for(lambda: all(lives(cluster, rank)[3] == "alive" for rank in (0, 1, 2, 4)), 30)
    cluster.close()


def test_without_datagrams_connections_judge():
    """Each port for datagrams is somebody else's before its node starts."""
    real = socket.socket.bind
    cluster = Cluster.__new__(Cluster)
    taken = []
    start = Cluster.start

    def start_without(self, rank):
        host, port = self.join.split(",")[rank].rsplit(":", 1)
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        real(one, (host, int(port)))
        taken.append(one)
        start(self, rank)

    Cluster.start = start_without
    try:
        cluster.__init__(3)
    finally:
        Cluster.start = start
    for rank in range(3):
        assert cluster.log(rank).count("connections alone tell who is dead") == 1, cluster.log(rank)
        assert all(life == "alive" for life in lives(cluster, rank).values())
    cluster.put(0, 0, 10, 1000)
    cluster.get_all(2, 0, 10, 1000)
    cluster.kill(2)
    wait_for(lambda: cluster.nodes(0)[2] == "dead" and cluster.nodes(1)[2] == "dead", 30)
    assert all(lives(cluster, rank)[2] == "alive" for rank in (0, 1))  # nothing is said of it
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
