#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One large object that several real nodes pull at once, over links of a limited rate: each serves as many as it was
told, the others are sent on to those, and when one on the way dies, or is stopped, or lets go, the others get it all the
same, with the right bytes."""
import importlib.machinery
import importlib.util
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_faults import Cluster, only  # noqa: E402
from raw_session import wait_for  # noqa: E402

SKIPPED = 77
SIZE, MBITS = 24 << 20, 160  # 1.2 s over one link
GET_MS = 60000


def bench():
    """The benchmark's network, whose links have a rate."""
    loader = importlib.machinery.SourceFileLoader("broadcast_run", os.path.join(os.environ["NIGH_SOURCE"],
                                                                              "bench/broadcast-run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("broadcast_run", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Tree:
    """A source, rank 0, that has the object, and others that are getting it."""

    def __init__(self, count, fanout, size=SIZE):
        self.net, self.fanout, self.size, self.count = bench().Net(count), fanout, size, count
        self.loads = {}

    def open(self):
        count, size = self.count, self.size
        self.net.open()
        self.cluster = Cluster(count, memory="96M", hosts=[self.net.address(rank) for rank in range(count)],
                               prefix=lambda rank: ["ip", "netns", "exec", self.net.space(rank)],
                               flags=["--fanout", str(self.fanout)])
        # Its home is the source: who is killed takes no directory along.
        self.number = self.number_at_home()
        self.cluster.put(0, self.number, 1, size)
        self.net.limit(MBITS)
        self.loads = {rank: self.begin(rank) for rank in range(1, count)}

    def number_at_home(self):
        for rank in range(1, self.net.count):
            self.cluster.stop(rank)
        number = int(self.cluster.begin(0, "near", 0, 1).communicate(timeout=120)[0])
        for rank in range(1, self.net.count):
            self.cluster.stop(rank, False)
        self.cluster.wait_met()
        return number

    def begin(self, rank):
        return self.cluster.begin(rank, "get", self.number, 1, self.size, GET_MS)

    def stats(self, rank):
        stats = self.cluster.stats(rank)
        assert stats["loans"] <= self.fanout, (rank, stats["loans"])
        return stats

    def relay(self):
        """A node that pulls, and serves another meanwhile."""
        found = []

        def look():
            for rank in self.loads:
                stats = self.stats(rank)
                if stats["loans_partial"] > 0 and stats["loans"] > 0 and stats["pulls"] == 0:
                    found.append(rank)
                    return True
            return False

        wait_for(look, 30)
        return found[0]

    def end(self):
        """All that are left have it."""
        for rank, load in self.loads.items():
            result = self.cluster.end(load, 120)
            assert result["statuses"] == {"NIGH_OK": 1}, (rank, result)
        for rank in [0, *self.loads]:
            assert self.cluster.stats(rank)["checksum_failures"] == 0

    def give_up(self, rank):
        load = self.loads.pop(rank)
        load.kill()
        load.communicate()

    def close(self):
        self.net.limit(0)
        self.cluster.close()


def with_tree(count, fanout, act):
    tree = Tree(count, fanout)
    try:
        tree.open()
        act(tree)
        tree.close()
    finally:
        tree.net.close()


def test_who_pulls_serves_the_next():
    def act(tree):
        tree.relay()
        tree.end()
        stats = [tree.cluster.stats(rank) for rank in range(6)]
        print("# partial loans and pulls sent on, by node:",
              [(one["loans_partial"], one["pulls_sent_on"]) for one in stats])
        assert sum(one["loans_partial"] for one in stats) >= 2
        assert stats[0]["pulls_sent_on"] >= 3 and stats[0]["served_bytes"] < 5 * tree.size

    with_tree(6, 2, act)


def test_the_middle_is_killed():
    def act(tree):
        rank = tree.relay()
        tree.give_up(rank)
        tree.cluster.kill(rank)
        tree.end()

    with_tree(5, 1, act)


def test_the_middle_stands_still():
    def act(tree):
        rank = tree.relay()
        load = tree.loads.pop(rank)
        tree.cluster.stop(rank)
        tree.end()
        tree.cluster.stop(rank, False)
        assert only(tree.cluster.end(load, 120), "NIGH_OK", "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 1
        tree.cluster.wait_met()

    with_tree(5, 1, act)


def test_the_middle_lets_go():
    def act(tree):
        rank = tree.relay()
        tree.give_up(rank)
        tree.end()
        assert tree.cluster.processes[rank].poll() is None

    with_tree(5, 1, act)


def test_the_source_is_killed():
    def act(tree):
        tree.relay()
        tree.cluster.kill(0)
        # Nobody has all of it: a status, by the deadline.
        for load in tree.loads.values():
            load.send_signal(signal.SIGKILL)
            load.communicate()
        for rank in tree.loads:
            result = tree.cluster.load(rank, "get", tree.number, 1, tree.size, 1000)
            assert only(result, "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 1, result

    with_tree(4, 1, act)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("# skipped: name spaces need root")
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
