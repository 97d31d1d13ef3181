#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that join a cluster by the address of one of its members: they are told a rank; homes follow; who may not join, or
finds no rank, is told why. Who comes back is in cluster_back.py."""
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402


FAILED, NOT_FOUND, EXISTS = 1, 3, 9  # exit codes of nigh
# What root's processes begin with, to be refused what a mode forbids.
WITHOUT_POWERS = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []


class Joiners(Voters):
    """The first `listed` nodes name each other; the rest name one member, `by`."""

    def __init__(self, listed, count, ranks=None, dead_ms=1500):
        self.ports = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self.listed, self.by, self.ranks = listed, [0] * count, ranks
        self.total = count
        self.names = {}
        self.told = set()  # of the list, who is started with one address, as who joins is
        super().__init__(0, dead_ms=dead_ms)
        self.processes = [None] * count
        for rank in range(listed):
            self.start(rank)
        for rank in range(listed):
            self.wait_ready(rank)
        wait_for(self.agrees, 30)

    def options(self, rank):
        """What tells a node where it belongs. One that is alone at the start names nobody."""
        is_told = rank >= self.listed or rank in self.told
        names = self.ports[self.by[rank]] if is_told else ",".join(self.ports[:self.listed])
        return (["--member", self.ports[rank]] + (["--join", names] if is_told or self.listed > 1 else [])
                + (["--name", self.names[rank]] if rank in self.names else [])
                + (["--ranks", str(self.ranks)] if self.ranks and rank < self.listed else []))

    def command(self, rank, **more):
        given = {"state": self.state(rank), "key": self.key, "member": None, "memory": "64M", "options": None, **more}
        return [os.environ["NIGHD"], "--memory", given["memory"], "--socket", self.socket(rank), *(given["options"] or self.options(rank)),
                *(["--member", given["member"]] if given["member"] else []), "--cluster-key", given["key"],
                "--dead-ms", self.dead_ms, "--spin-us", "0", "--state", given["state"]]

    def start(self, rank):
        with open(os.path.join(self.folder.name, f"log{rank}"), "ab") as log:
            self.processes[rank] = subprocess.Popen(self.command(rank), stderr=log)
        raw.Node.running.append(self.processes[rank])

    def lose(self, rank):
        """Killed, and its directory is empty."""
        self.kill(rank)
        for name in os.listdir(self.state(rank)):
            os.remove(os.path.join(self.state(rank), name))

    def join_by(self, rank, by):
        self.by[rank] = by
        self.start(rank)
        self.wait_ready(rank)

    def names_at(self, rank):
        return {item["rank"]: item["name"] for item in self.list(rank) if item["name"]}

    def voters(self, rank):
        return [item["rank"] for item in self.list(rank) if item["votes"]]

    def incarnations(self, rank):
        return {item["rank"]: item["incarnation"] for item in self.list(rank)}

    def ranks_of(self, rank):
        return {item["address"]: item["rank"] for item in self.list(rank)}


def refused(cluster, rank, prefix=(), **more):
    """What a node says that cannot join."""
    result = subprocess.run([*prefix, *cluster.command(rank, **more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            timeout=60)
    assert result.returncode != 0, result
    return result.stderr.decode()


def test_it_grows_from_one():
    """Each joins by the one before it; objects that were there before are found by all, and homes move."""
    cluster = Joiners(1, 4)
    cluster.put(0, 0, 40, 2000)
    for rank in range(1, 4):
        cluster.join_by(rank, rank - 1)
        wait_for(cluster.agrees, 30)
        cluster.put(rank, rank * 1000, 40, 2000)
    seen = cluster.stats(0)
    assert (seen["view_votes"], seen["view_seats"], seen["view_seats_free"]) == (1, 3, 4), seen
    everybody = {address: rank for rank, address in enumerate(cluster.ports)}
    for rank in range(4):
        assert cluster.ranks_of(rank) == everybody, cluster.ranks_of(rank)
        for other in range(4):
            cluster.get_all(rank, other * 1000, 40, 2000)
    for name in range(8):
        assert cluster.nigh(3, "put", f"only{name}", "-", input=b"first").returncode == 0
        assert cluster.nigh(name % 3, "put", f"only{name}", "-", input=b"second").returncode == EXISTS
    # What members say by datagrams reaches those that joined, too.
    wait_for(lambda: all(item["life"] == "alive" for rank in range(4) for item in cluster.list(rank)), 60)
    cluster.close()


def test_who_cannot_join_is_told_why():
    cluster = Joiners(3, 6, ranks=4)
    cluster.join_by(3, 0)
    wait_for(cluster.agrees, 30)
    cluster.by[4] = 3
    said = refused(cluster, 4)
    assert "no rank is left for who joins" in said and "--ranks" in said, said
    other = os.path.join(cluster.folder.name, "other")
    with open(os.open(other, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write("ff" * 32)
    said = refused(cluster, 4, key=other)
    assert "another cluster key" in said and "--cluster-key" in said, said
    said = refused(cluster, 4, member=cluster.ports[3])
    assert "this node's address (--member) is that node's own" in said or "cannot listen" in said, said
    cluster.kill(3)
    with open(os.path.join(cluster.state(3), "members"), "r+", encoding="utf-8") as file:
        file.write("nonsense")
    said = refused(cluster, 3)
    assert "is not what this node kept there" in said, said
    cluster.close()


def test_who_kept_another_list_is_told_what_to_do():
    """The directory of one that was of two, started with another list, or as the other."""
    cluster = Joiners(2, 3)
    cluster.kill(0)
    told = "with the version, the list, the ranks and the address that it had (--join, --ranks, --member)"
    for member, names in ((0, (0, 2)), (1, (0, 1))):
        said = refused(cluster, 0, options=["--member", cluster.ports[member],
                                            "--join", ",".join(cluster.ports[n] for n in names)])
        assert "another" in said and told in said and "another directory (--state)" in said, said
    cluster.start(0)
    cluster.wait_ready(0)
    cluster.close()


def test_who_cannot_be_one_takes_no_seat():
    """Seats are for ever: one that votes by another address, and one that could not listen, are told before they ask."""
    cluster = Joiners(3, 5)
    cluster.kill(0)
    said = refused(cluster, 0, member=cluster.ports[4])
    assert "has the votes of a member that had its rank already" in said and "--state" in said, said
    cluster.back(0)
    wait_for(cluster.agrees, 30)
    said = refused(cluster, 3, member="192.0.2.1:7000")
    assert "cannot listen for other nodes on 192.0.2.1:7000" in said, said
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = refused(cluster, 3, member=f"127.0.0.1:{other.getsockname()[1]}")
    assert "the port free" in said, said
    said = refused(cluster, 3, state=os.path.join(cluster.folder.name, "none", "state"))
    assert "cannot be made" in said and "--state" in said, said
    os.makedirs(cluster.state(3), exist_ok=True)
    with open(os.path.join(cluster.state(3), "lock.views"), "wb"):
        os.chmod(cluster.state(3), 0o555)
    said = refused(cluster, 3, prefix=WITHOUT_POWERS)
    assert "cannot be written (Permission denied)" in said and "--state" in said, said
    os.chmod(cluster.state(3), 0o755)
    assert cluster.stats(0)["view_seats"] == 0
    said = refused(cluster, 3, memory="32T")
    assert "of memory are needed" in said and "is a member" not in said, said
    cluster.total = 4
    cluster.join_by(3, 1)
    wait_for(lambda: cluster.ranks_of(0).get(cluster.ports[3]) == 3, 30)
    cluster.close()


def test_of_two_with_one_directory_one_asks():
    """Started at once, with nothing in the directory yet: the second says why it does not, and nobody has two ranks."""
    cluster = Joiners(1, 3)
    cluster.stop(0)
    cluster.start(1)
    wait_for(lambda: "joins a cluster" in cluster.log(1), 30)
    said = refused(cluster, 2, state=cluster.state(1))
    assert "another node uses the directory" in said and "--state" in said and "joins a cluster" not in said, said
    cluster.stop(0, False)
    cluster.wait_ready(1)
    cluster.total = 2
    wait_for(cluster.agrees, 30)
    assert cluster.stats(0)["view_seats"] == 1
    cluster.close()


def test_an_address_has_one_rank():
    """However it is spelled; and one that nobody can reach has none."""
    cluster = Joiners(1, 2)
    said = refused(cluster, 1, member="0.0.0.0:7470")
    assert "none that other nodes can reach" in said and "--listen 0.0.0.0:7470" in said, said
    cluster.join_by(1, 0)
    wait_for(cluster.agrees, 30)
    cluster.kill(1)
    shutil.rmtree(cluster.state(1))
    spelled, cluster.ports[1] = cluster.ports[1], cluster.ports[1].replace("127.0.0.1", "127.1")
    cluster.back(1)
    wait_for(lambda: cluster.agrees() and cluster.stats(0)["view_seats"] == 1, 30)
    cluster.kill(1)
    cluster.ports[1] = spelled
    cluster.back(1)
    wait_for(cluster.agrees, 30)
    assert cluster.ranks_of(0) == {cluster.ports[0]: 0, spelled: 1}
    cluster.close()


def test_a_start_that_fails_leaves_no_votes():
    """The address of who begins was wrong: with the right one, and the same directory, it begins."""
    cluster = Joiners(1, 2)
    state = cluster.state(1)
    said = refused(cluster, 1, options=["--member", "192.0.2.1:7000"])
    assert "cannot listen for other nodes on 192.0.2.1:7000" in said, said
    cluster.kill(0)
    shutil.rmtree(cluster.state(0))
    os.rename(state, cluster.state(0))
    cluster.total = 1
    cluster.back(0)
    wait_for(cluster.agrees, 30)
    assert "views" in os.listdir(cluster.state(0))
    cluster.close()


def test_who_joins_may_be_stopped():
    """Nobody answers at the address that it was given: it asks on for half a minute, but not when it is told to end."""
    cluster = Joiners(1, 2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster.ports[0] = f"127.0.0.1:{other.getsockname()[1]}"
    cluster.start(1)
    wait_for(lambda: "joins a cluster" in cluster.log(1), 30)
    cluster.processes[1].terminate()
    cluster.processes[1].wait(15)
    cluster.kill(1)
    cluster.close()


def is_connected_to(address):
    """Whether somebody has a connection to what listens there."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file]
    return any(row[2].endswith(port) and row[3] == "01" for row in rows)


def test_who_joins_may_be_stopped_while_a_member_decides():
    """A member that has proved itself is waited for, since it may take long to decide, but not by who is told to end:
    of two, the first is gone, so that nothing can be decided."""
    cluster = Joiners(2, 3)
    cluster.kill(0)
    cluster.by[2] = 1
    cluster.start(2)
    wait_for(lambda: "joins a cluster" in cluster.log(2), 30)
    wait_for(lambda: is_connected_to(cluster.ports[1]), 30)
    at = time.monotonic()
    cluster.processes[2].terminate()
    cluster.processes[2].wait(30)
    assert time.monotonic() - at < 5, time.monotonic() - at
    assert "it was told to stop" in cluster.log(2), cluster.log(2)
    cluster.kill(2)
    cluster.close()


def test_silent_hosts_do_not_keep_it_out():
    """Of the addresses that it was given two take its connection, and say nothing."""
    cluster = Joiners(1, 2)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        silent = ",".join(f"127.0.0.1:{other.getsockname()[1]}" for other in (first, second))
        cluster.ports[0] = f"{silent},{cluster.ports[0]}"
        cluster.join_by(1, 0)
        cluster.ports[0] = cluster.ports[0].rpartition(",")[2]
    wait_for(cluster.agrees, 30)
    cluster.close()


def test_a_minority_lets_nobody_in():
    cluster = Joiners(3, 4)
    cluster.kill(0)
    cluster.kill(1)
    wait_for(lambda: cluster.stats(2)["view_quorum"] == 0, 30)
    cluster.by[3] = 2
    cluster.start(3)
    wait_for(lambda: "a node cannot join" in cluster.log(2), 40)
    cluster.back(0)
    cluster.wait_ready(3)
    wait_for(lambda: cluster.agrees(out=(1,)), 40)
    cluster.back(1)
    wait_for(cluster.agrees, 40)
    cluster.close()


def ask_many(cluster, rank, names, *arguments, **more):
    """The exit codes of the same command for each name, all at once."""
    running = [subprocess.Popen([os.environ["NIGH"], arguments[0], *arguments[1:], name, *more.get("behind", ()),
                                 "--socket", cluster.socket(rank)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE) for name in names]
    said = [process.communicate(timeout=60) for process in running]
    return [process.returncode for process in running], said


def test_what_one_that_joined_has_is_not_absent_before_it_is_back():
    """The one of the list is started again while the one that joined cannot say what it has."""
    cluster = Joiners(1, 2, dead_ms=120000)
    cluster.join_by(1, 0)
    wait_for(cluster.agrees, 30)
    names = [f"held{n}" for n in range(12)]  # about half of them have the first as their home
    for name in names:
        assert cluster.nigh(1, "put", name, "-", input=name.encode()).returncode == 0
    cluster.stop(1)
    cluster.kill(0)
    cluster.back(0)
    wait_for(lambda: cluster.stats(0)["view_quorum"] == 1, 30)
    codes, said = ask_many(cluster, 0, names, "put", "--timeout", "1s", behind=("-",))
    assert set(codes).isdisjoint({0}), (codes, said)
    codes, said = ask_many(cluster, 0, names, "get")
    assert codes == [FAILED] * len(names), (codes, said)
    assert all(b"node 1" in one[1] and b"may have it" in one[1] for one in said), said
    # It knows that there is another, and that this one is not up.
    assert {item["rank"]: item["state"] for item in cluster.list(0)} == {0: "up", 1: "away"}, cluster.list(0)
    cluster.stop(1, False)
    wait_for(cluster.agrees, 40)
    for name in names:
        assert cluster.nigh(0, "put", name, "-", input=b"second").returncode == EXISTS
        assert cluster.nigh(0, "get", name).stdout == name.encode()
    cluster.close()


def test_a_rank_is_not_taken_by_a_copy():
    """A directory was copied, and the copy goes by another address: the later start has no right to the rank."""
    cluster = Joiners(1, 3)
    cluster.join_by(1, 0)
    wait_for(cluster.agrees, 30)
    cluster.put(1, 0, 10, 2000)
    shutil.copytree(cluster.state(1), cluster.state(2))
    path = os.path.join(cluster.state(2), "members")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(cluster.ports[1], cluster.ports[2]))
    cluster.start(2)
    wait_for(lambda: "its rank was given to a node at another address" in cluster.log(0), 30)
    assert cluster.stats(2)["view_quorum"] == 0
    cluster.kill(2)
    assert cluster.agrees() and cluster.ranks_of(0) == {cluster.ports[0]: 0, cluster.ports[1]: 1}
    cluster.get_all(0, 0, 10, 2000)
    cluster.close()


def test_nodes_go_by_their_names():
    """Of the list and of who joined; at every node, over a restart, and wherever a rank is asked for."""
    cluster = Joiners(1, 3)
    cluster.kill(0)
    cluster.names = {0: "first", 1: "db-1"}
    cluster.back(0)
    cluster.join_by(1, 0)
    cluster.join_by(2, 1)
    wait_for(cluster.agrees, 30)
    wait_for(lambda: all(cluster.names_at(rank) == cluster.names for rank in range(3)), 30)
    assert b"  db-1   up " in cluster.nigh(2, "nodes").stdout
    for named in ("db-1", "1"):
        done = cluster.nigh(2, "call", "nobody's", "x", "--node", named)
        assert done.returncode == NOT_FOUND and b"no node is called" not in done.stderr, done
    done = cluster.nigh(2, "call", "nobody's", "x", "--node", "db-2")
    assert done.returncode == NOT_FOUND and b"no node is called db-2" in done.stderr, done
    said = json.loads(cluster.nigh(2, "call", "nobody's", "x", "--ranks", "db-1,0", "--json").stdout)
    assert sorted(error["node"] for error in said["errors"]) == [0, 1], said
    # Another wants the name of one that is dead: it is told, and has none, until that one comes back by another name.
    cluster.kill(1)
    cluster.kill(2)
    cluster.names[2] = "db-1"
    cluster.back(2)
    wait_for(lambda: "another is called that" in cluster.log(2), 30)
    assert [item["name_taken"] for item in cluster.list(2)] == [False, False, True], cluster.list(2)
    assert b"without a name: another has the one it wants" in cluster.nigh(2, "nodes").stdout
    assert cluster.names_at(0) == {0: "first", 1: "db-1"}
    cluster.names[1] = "db-2"
    cluster.back(1)
    wait_for(lambda: all(cluster.names_at(rank) == cluster.names for rank in range(3)), 30)
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
