#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real nodes that agree on views: a home that is killed is replaced, so that what others hold is found and what was
exclusive is so again; a minority serves what it has and says that it is one; votes outlive the process."""
import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_faults import Cluster  # noqa: E402

OBJECTS = 60


class Voters(Cluster):
    """Nodes with --state; each has a directory of its own."""

    def __init__(self, count, **more):
        super().__init__(count, prefix=lambda rank: ["/bin/sh", "-c", 'exec "$@" --state "$0"', self.state(rank)],
                         **more)

    def state(self, rank):
        return os.path.join(self.folder.name, f"state{rank}")

    def views(self, rank):
        return {item["rank"]: item["view"] for item in self.list(rank)}

    def list(self, rank):
        result = subprocess.run([os.environ["NIGH"], "nodes", "--json", "--socket", self.socket(rank)],
                                stdout=subprocess.PIPE, check=True, timeout=20)
        return json.loads(result.stdout)

    def agrees(self, out=()):
        """Whether all that run are in one active view, with everybody in it but those."""
        running = [rank for rank, process in enumerate(self.processes) if process is not None]
        stats = [self.stats(rank) for rank in running]
        return (len({one["view_epoch"] for one in stats}) == 1
                and all(one["view_epoch"] == one["view_active_epoch"] > 0 and one["view_quorum"] == 1 for one in stats)
                and all(view == ("out" if other in out else "in") for rank in running
                        for other, view in self.views(rank).items()))

    def nigh(self, rank, *arguments, **more):
        return subprocess.run([os.environ["NIGH"], *arguments, "--socket", self.socket(rank)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)

    def ask_all(self, rank, *whom):
        """A call of all nodes of the group, which is the view, or of these: its version, and how many these are; None: no such
        rank is of it."""
        done = self.nigh(rank, "call", "nobody's", "x", *(whom or ("--all",)), "--json")
        said = json.loads(done.stdout)
        if "version" not in said:
            return None
        assert said["unknown"] == 0, said
        return said["version"], said["unasked"]

    def back(self, rank):
        self.start(rank)
        self.wait_ready(rank)


def test_dead_homes_are_replaced():
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    cluster.put(0, 0, OBJECTS, 2000)
    cluster.put(1, 1000, OBJECTS, 2000)
    assert cluster.ask_all(0) == (cluster.stats(0)["view_epoch"], 3)
    cluster.kill(2)
    # Everything is found, whoever was its home, as soon as the view without it is active; gets that began before wait.
    early = cluster.begin(1, "get", 0, OBJECTS, 2000, 30000)
    wait_for(lambda: cluster.agrees(out=(2,)), 30)
    asked = cluster.ask_all(1)
    assert asked == (cluster.stats(0)["view_epoch"], 2), (asked, cluster.log(0)[-4000:])
    assert cluster.ask_all(1, "--ranks", "0,2") is None
    assert cluster.end(early)["statuses"] == {"NIGH_OK": OBJECTS}
    cluster.get_all(0, 1000, OBJECTS, 2000)
    # An exclusive create needs its home: all of them have one.
    for name in range(8):
        assert cluster.nigh(0, "put", f"only{name}", "-", input=b"first").returncode == 0
    cluster.back(2)
    wait_for(lambda: cluster.agrees(), 30)
    cluster.get_all(2, 0, OBJECTS, 2000)
    cluster.get_all(2, 1000, OBJECTS, 2000)
    epoch = cluster.stats(0)["view_epoch"]
    assert epoch >= 3, epoch
    cluster.close()


def test_what_nobody_has_is_absent_from_the_start():
    """In the first view, too: everybody has said that it has nothing, also to who had no lease yet."""
    for count in (3, 5):
        cluster = Voters(count)
        wait_for(lambda: cluster.agrees(), 20)
        for rank in range(count):
            for name in range(4):
                said = cluster.nigh(rank, "put", f"first {rank} {name}", "-", input=b"first")
                assert said.returncode == 0, said
        cluster.close()


def test_with_two_the_first_decides():
    cluster = Voters(2)
    wait_for(lambda: cluster.agrees(), 20)
    cluster.put(0, 0, 20, 1000)
    cluster.put(1, 100, 20, 1000)
    cluster.kill(1)
    wait_for(lambda: cluster.agrees(out=(1,)), 30)
    cluster.get_all(0, 0, 20, 1000)
    cluster.back(1)
    wait_for(lambda: cluster.agrees(), 30)
    cluster.put(1, 100, 20, 1000)
    cluster.put(0, 20, 10, 1000)
    cluster.get_all(1, 20, 10, 1000)
    cluster.kill(0)
    assert b"views     epoch " in cluster.nigh(1, "top", "--once").stdout
    wait_for(lambda: b"no quorum" in cluster.nigh(1, "top", "--once").stdout, 30)
    seen = cluster.stats(1)
    assert (seen["view_quorum"], seen["view_votes"], seen["view_seats"], seen["view_seats_free"]) == (0, 0, 0, 6), seen
    # What is here is served, its own and copies of what only the other has, and puts of its own go on; what is not here is
    # not known by a minority, nobody else's seal is excluded, and no delete is said to be over.
    cluster.get_all(1, 100, 20, 1000)
    cluster.get_all(1, 20, 10, 1000)
    cluster.put(1, 200, 20, 1000)
    result = cluster.load(1, "get", 0, 20, 1000, 500)
    assert result["statuses"] == {"NIGH_NO_QUORUM": 20}, result
    said = cluster.nigh(1, "put", "only", "-", "--timeout", "500ms", stdin=subprocess.DEVNULL)
    assert said.returncode == 1 and b"only: " in said.stderr and b"this node is cut off from most voters" in said.stderr, said
    assert b"node 0" not in said.stderr and b"--no-claim" in said.stderr, said
    said = cluster.nigh(1, "rm", "only", "--json")
    assert json.loads(said.stdout)[0]["status"] == "NIGH_NO_QUORUM", said
    # What is wrong is said of this node, and nobody else is blamed.
    cluster.put(1, 300, 1, 1000)
    for name, what in (("load-300", b"deleted on this node"), ("only", b"not there on this node")):
        said = cluster.nigh(1, "rm", name)
        assert said.returncode == 1 and what in said.stderr and b"which is cut off from most voters" in said.stderr, said
        assert b"node 0" not in said.stderr, said
    said = cluster.nigh(1, "get", "--timeout", "500ms", "nowhere")
    assert said.returncode != 0 and b"cut off from most voters" in said.stderr, said
    assert b"cut off from most of those that vote" in cluster.nigh(1, "doctor").stdout
    cluster.back(0)
    wait_for(lambda: cluster.agrees(), 30)
    cluster.get_all(0, 200, 20, 1000)
    cluster.close()


def test_votes_outlive_all():
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    cluster.kill(2)
    wait_for(lambda: cluster.agrees(out=(2,)), 30)
    cluster.back(2)
    wait_for(lambda: cluster.agrees(), 30)
    epoch = cluster.stats(0)["view_epoch"]
    for rank in range(3):
        cluster.kill(rank)
    for rank in range(3):
        cluster.start(rank)
    for rank in range(3):
        cluster.wait_ready(rank)
    wait_for(lambda: cluster.agrees(), 30)
    assert cluster.stats(0)["view_epoch"] >= epoch
    cluster.close()


def test_stopped_node_comes_back():
    """One of five is stopped for a while under load: out of the view, and in again; nobody serves for it twice."""
    cluster = Voters(5)
    wait_for(lambda: cluster.agrees(), 30)
    for rank in range(5):
        cluster.put(rank, rank * 1000, 20, 1000)
    cluster.stop(4)
    running = cluster.processes[4]
    cluster.processes[4] = None
    wait_for(lambda: cluster.agrees(out=(4,)), 40)
    for rank in range(4):
        for other in range(4):
            cluster.get_all(rank, other * 1000, 20, 1000)
    cluster.processes[4] = running
    cluster.stop(4, False)
    wait_for(lambda: cluster.agrees(), 40)
    for rank in range(5):
        for other in range(5):
            cluster.get_all(rank, other * 1000, 20, 1000)
    cluster.close()


def start_alone(cluster, rank, state, *more):
    """What a node says that is started with these."""
    return subprocess.run([os.environ["NIGHD"], "--memory", "64M", "--socket", cluster.socket(rank) + "-alone", "--join",
                           cluster.join, "--member", str(rank), "--cluster-key", cluster.key, "--state", state,
                           *more], stderr=subprocess.PIPE, timeout=20)


def test_a_voter_that_cannot_keep_its_votes_says_so():
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    found = lambda: {item["subject"]: item for item in json.loads(cluster.nigh(2, "doctor", "--json").stdout)}  # noqa: E731
    assert "state" not in found() and cluster.stats(2)["view_unkept"] == 0
    assert not {"agreement", "lives", "clock", "lanes", "reach"} & set(found()), found()
    assert found()["state disk"]["finding"], found()
    in_the_way = os.path.join(cluster.state(2), "views.new")  # where it writes first: as a disk that is full
    os.mkdir(in_the_way)
    cluster.kill(1)  # the two others have to write
    wait_for(lambda: cluster.stats(2)["view_unkept"] == 1, 30)
    cluster.back(1)
    wait_for(lambda: cluster.stats(2)["view_quorum"] == 1, 30)
    assert cluster.stats(2)["view_votes"] == 0
    assert [node["votes"] for node in json.loads(cluster.nigh(2, "nodes", "--json").stdout)] == [True, True, False]
    assert found()["state"]["severity"] == "bad" and "votes no more" in found()["state"]["finding"], found()
    os.rmdir(in_the_way)
    cluster.kill(2)
    cluster.back(2)
    wait_for(lambda: cluster.agrees(), 30)
    assert "state" not in found() and cluster.stats(2)["view_unkept"] == 0
    cluster.close()


def test_what_became_of_a_node_is_said():
    """One that was stopped said so; of one that was killed nothing was heard. Both are out of the view, as others see."""
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    line = lambda: cluster.nigh(0, "nodes").stdout.decode().splitlines()[3]  # noqa: E731
    assert "  dead " not in line() and "view" not in line(), line()
    cluster.processes[2].send_signal(signal.SIGTERM)
    cluster.processes[2].wait(30)
    wait_for(lambda: "  dead " in line() and line().endswith("  it was stopped, and said so  out of the view (others keep account in its place)"), 30)
    cluster.kill(2)
    cluster.back(2)
    wait_for(lambda: cluster.agrees(), 30)
    assert "  up " in line() and "view" not in line(), line()
    cluster.kill(2)
    wait_for(lambda: "  dead " in line() and line().endswith(
        "  the other nodes have heard nothing of it for too long  out of the view (others keep account in its place)"), 60)
    cluster.close()


def test_bad_state_is_refused():
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    taken = start_alone(cluster, 1, cluster.state(0))
    assert taken.returncode != 0 and b"another node uses the directory" in taken.stderr, taken
    cluster.kill(2)
    folder = os.path.join(cluster.folder.name, "other")
    shutil.copytree(cluster.state(1), folder)
    others = start_alone(cluster, 2, folder)
    assert others.returncode != 0 and b"is of another member" in others.stderr, others
    with open(os.path.join(cluster.state(2), "views"), "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff")
    damaged = start_alone(cluster, 2, cluster.state(2))
    assert damaged.returncode != 0 and b"is damaged" in damaged.stderr, damaged
    with open(os.path.join(cluster.state(2), "views"), "wb"):
        pass
    empty = start_alone(cluster, 2, cluster.state(2))
    assert empty.returncode != 0 and b"must not vote without it" in empty.stderr, empty
    denied = start_alone(cluster, 2, "/proc/nowhere")
    assert denied.returncode != 0 and b"--state" in denied.stderr, denied
    # A node of the same list that keeps no state is not let in, and both say why.
    alone = subprocess.Popen([os.environ["NIGHD"], "--memory", "64M", "--socket", cluster.socket(2), "--join",
                              cluster.join, "--member", "2", "--cluster-key", cluster.key], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: "one has --state and the other not" in cluster.log(0), 20)
    finally:
        alone.send_signal(signal.SIGTERM)
        alone.wait(20)
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
