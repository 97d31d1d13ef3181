#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Five real nodes, each in a network namespace of its own, joined by a bridge, under load that does not end (net_load.c):
nodes are killed and stopped, links cut, cut in one direction, and flap, two are cut off together. What was acknowledged
is there afterwards as long as one replica lives, with the right bytes, at every node; what was deleted is not; no
exclusive create was granted to two; every call ended once. NIGH_NET_PAUSE: for how many seconds a node is stopped, 30
unless it is said."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402

NODES, PORT = 5, 7470
PAUSE_S = int(os.environ.get("NIGH_NET_PAUSE") or 30)
STOPPED = 4  # the node that is


def ip(*words):
    try:
        result = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise raw.Skipped("ip is missing: install iproute2") from error
    if result.returncode != 0:
        raise raw.Skipped(f"no network namespaces: ip {' '.join(words)}: {result.stderr.strip()}")


class Net:
    """Namespaces on a bridge, which has one of its own."""

    def __init__(self):
        self.name, self.made = f"nigh-net-{os.getpid()}", []

    def space(self, rank):
        return f"{self.name}-{rank}"

    @staticmethod
    def address(rank):
        return f"10.77.0.{rank + 1}"

    def open(self):
        if os.geteuid() != 0:
            raise raw.Skipped("network namespaces need root")
        for rank in ["hub", *range(NODES)]:
            ip("netns", "add", self.space(rank))
            self.made.append(self.space(rank))
        hub = self.space("hub")
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for rank in range(NODES):
            space = self.space(rank)
            ip("-n", hub, "link", "add", f"port{rank}", "type", "veth", "peer", "name", "eth", "netns", space)
            ip("-n", hub, "link", "set", f"port{rank}", "master", "bridge", "up")
            ip("-n", space, "addr", "add", f"{self.address(rank)}/24", "dev", "eth")
            ip("-n", space, "link", "set", "eth", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def cut(self, rank, is_cut=True):
        ip("-n", self.space("hub"), "link", "set", f"port{rank}", "down" if is_cut else "up")

    def mute(self, rank, is_mute=True):
        """Nothing that it says reaches the others; it hears them."""
        for other in range(NODES):
            if other != rank:
                ip("-n", self.space(rank), "route", "add" if is_mute else "del", "blackhole", self.address(other))

    def close(self):
        for space in self.made:
            subprocess.run(["ip", "netns", "del", space], check=False)


class Spaces(Voters):
    """Voters, and a load beside each, in namespaces."""

    def __init__(self, net):
        self.net, self.loads = net, []
        super().__init__(NODES, hosts=[net.address(rank) for rank in range(NODES)])

    def inside(self, rank, words):
        return ["ip", "netns", "exec", self.net.space(rank), *words]

    def start(self, rank):
        words = self.prefix
        self.prefix = lambda one: self.inside(one, words(one))
        try:
            super().start(rank)
        finally:
            self.prefix = words

    def journal(self, rank):
        return os.path.join(self.folder.name, f"journal{rank}")

    def begin_load(self):
        for rank in range(NODES):
            # Only who asks the node that stands still may have its answers later.
            more = {"NIGH_NET_PAUSE": str(PAUSE_S if rank == STOPPED else 0)}
            with open(self.journal(rank), "wb") as journal:
                self.loads.append(subprocess.Popen([os.environ["NET_LOAD"], self.socket(rank), str(rank), str(NODES)],
                                                   stdin=subprocess.PIPE, stdout=journal, env={**os.environ, **more}))
                raw.Node.running.append(self.loads[-1])

    def lines(self, rank, word):
        with open(self.journal(rank), encoding="utf-8") as journal:
            return [line.split()[1:] for line in journal.read().splitlines() if line.split()[0] == word]

    def numbers(self, rank, word):
        return [int(line[0]) for line in self.lines(rank, word)]

    def goes_on(self, *ranks, count=5):
        """Until at each of these nodes so many more puts were acknowledged."""
        before = {rank: len(self.lines(rank, "put")) for rank in ranks}
        wait_for(lambda: all(len(self.lines(rank, "put")) >= before[rank] + count for rank in ranks), 60)

    def is_whole(self):
        return self.agrees() and all(self.stats(rank)["replicas_missing"] == 0 for rank in range(NODES))

    def heal(self):
        wait_for(self.is_whole, 90)
        self.goes_on(*range(NODES), count=2)

    def end_load(self):
        for load in self.loads:
            load.stdin.close()
        for load in self.loads:
            assert load.wait(60) == 0
            raw.Node.running.remove(load)

    def leader(self):
        """Who was elected last, as the logs say."""
        said = [(line.split(" ", 1)[0], rank) for rank in range(NODES) for line in self.log(rank).splitlines()
                if 'msg="leads the views"' in line]
        return max(said)[1]


def without(*ranks):
    return [rank for rank in range(NODES) if rank not in ranks]


# ---- faults, each under load


def kill(cluster, rank):
    cluster.kill(rank)
    wait_for(lambda: cluster.agrees(out=(rank,)), 40)
    cluster.goes_on(*without(rank))
    cluster.back(rank)
    cluster.heal()


def stop(cluster, rank):
    """It stands still for so long, and until it is out of the view; the others go on all the while."""
    begun, running = time.monotonic(), cluster.processes[rank]
    cluster.stop(rank)
    cluster.processes[rank] = None
    wait_for(lambda: cluster.agrees(out=(rank,)), 60)
    while time.monotonic() < begun + PAUSE_S:
        cluster.goes_on(*without(rank))
    cluster.goes_on(*without(rank))
    cluster.processes[rank] = running
    cluster.stop(rank, False)
    cluster.heal()


def cut(cluster, *ranks):
    """Nobody reaches them, nor they each other: a minority of one or two, which says so."""
    for rank in ranks:
        cluster.net.cut(rank)
    wait_for(lambda: all(cluster.stats(rank)["view_quorum"] == 0 for rank in ranks), 40)
    wait_for(lambda: all(cluster.views(rank)[other] == "out" for rank in without(*ranks) for other in ranks), 40)
    cluster.goes_on(*without(*ranks))
    for rank in ranks:
        cluster.net.cut(rank, False)
    cluster.heal()


def mute(cluster, rank):
    cluster.net.mute(rank)
    wait_for(lambda: cluster.views(without(rank)[0])[rank] == "out", 60)
    cluster.goes_on(*without(rank))
    cluster.net.mute(rank, False)
    cluster.heal()


def flap(cluster, rank):
    """Up and down while others put, again and again."""
    for _ in range(6):
        cluster.net.cut(rank)
        cluster.goes_on(without(rank)[0], count=1)
        cluster.net.cut(rank, False)
        cluster.goes_on(without(rank)[1], count=1)
    cluster.heal()


# ---- what must hold


def check_calls(cluster):
    calls = 0
    for rank in range(NODES):
        assert cluster.lines(rank, "wrong") == [], cluster.lines(rank, "wrong")
        begun, ended = map(int, cluster.lines(rank, "end")[0])
        assert begun == ended > 0, (rank, begun, ended)
        calls += begun
    return calls


def check_owners(cluster):
    owners = {}
    for rank in range(NODES):
        for number, at in cluster.lines(rank, "only"):
            assert number not in owners, f"{number} was created by {owners[number]} and by {rank}, at {at} ms"
            owners[number] = (rank, at)
    assert owners
    return len(owners)


def check_objects(cluster):
    """At every node what was acknowledged is there, and what was deleted is not."""
    kept = [f"0 {rank} {number}" for rank in range(NODES) for number in cluster.numbers(rank, "put")]
    gone = [f"2 {rank} {number}" for rank in range(NODES) for number in cluster.numbers(rank, "gone")]
    assert kept and gone
    for rank in range(NODES):
        for what, names in (("there", kept), ("gone", gone)):
            result = subprocess.run([os.environ["NET_LOAD"], cluster.socket(rank), "check", what], text=True, timeout=120,
                                    input="".join(f"{name}\n" for name in names), stdout=subprocess.PIPE, check=False)
            assert result.returncode == 0, (rank, result.stdout[-500:])
    return len(kept), len(gone)


def test_faults_under_load():
    net = Net()
    try:
        net.open()
        cluster = Spaces(net)
        wait_for(cluster.agrees, 40)
        cluster.begin_load()
        cluster.goes_on(*range(NODES))
        for fault, ranks in ((kill, (3,)), (kill, None), (stop, (STOPPED,)), (cut, (2,)), (mute, (1,)), (cut, (0, 3)),
                             (flap, (4,))):
            begun = time.monotonic()
            ranks = ranks or (cluster.leader(),)
            fault(cluster, *ranks)
            print("#", fault.__name__, *ranks, f"{time.monotonic() - begun:.1f} s from {begun * 1000:.0f} ms", flush=True)
        cluster.end_load()
        calls, owners = check_calls(cluster), check_owners(cluster)
        kept, gone = check_objects(cluster)
        print(f"# {kept} kept objects, {gone} deleted, {owners} created by one alone, {calls} calls")
        cluster.close()
    finally:
        net.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
