#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Objects that several nodes hold: put, read, lost and made again while their holders are killed, deleted; and what is
said where fewer nodes can."""
import os
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import FAILED, NOT_FOUND, OK, UNREACHABLE, Cluster, Member  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402

MIB = 1 << 20
DEAD_MS = 1500
REPAIR_S = 5 + DEAD_MS / 1000  # LIMIT_REPAIR_US, after the death is known
LOOK_S = 15  # what a look at all nodes may take of a busy machine
NODES = 5


class Five(Cluster):
    """Five nodes, or as many as are said."""

    # pylint: disable=super-init-not-called
    def __init__(self, *flags, nodes=NODES):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        self.join = ",".join(f"127.0.0.1:{port}" for port in free_ports(nodes))
        key = os.path.join(self.folder.name, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        self.members = [Member(self.folder.name, rank, self.join, key, "--dead-ms", str(DEAD_MS), *flags)
                        for rank in range(nodes)]

    def wait_met(self):
        for member in self.members:
            wait_for(lambda: set(member.states()) == {"up"} and member.numbers()["links_up"] >= len(self.members) - 1,
                     60)
        return self


def living(members):
    return [member for member in members if member.process is not None]


def holders(members, name):
    """Ranks of those that hold it, by their own word."""
    return {rank for rank, member in enumerate(members)
            if member.process is not None and name in member.names()}


def all_held_by(members, names, copies):
    return all(len(holders(members, name)) >= copies for name in names)


def kill(member):
    assert member.end(signal.SIGKILL) != OK


def bytes_of(name):
    return (name.encode() * 4096)[:10000]


def total(members, number):
    return sum(member.numbers()[number] for member in living(members))


def delete(members, member, name):
    """From all; the homes of some may just have come back."""
    wait_for(lambda: member.run("rm", name)[0] in (OK, NOT_FOUND), 60)
    wait_for(lambda: not holders(members, name), 60)


def test_so_many_nodes_hold_it():
    cluster = Five()
    with cluster as members:
        cluster.wait_met()
        for copies in (1, 2, 3, 5):
            name = f"of {copies}"
            members[0].good("put", name, "-", "--replicas", str(copies), data=bytes_of(name))
            assert len(holders(members, name)) == copies, "when the put has ended they do"
        assert total(members, "replicas_wanted") == 10 and total(members, "replicas_missing") == 0
        assert members[0].parsed("stat", "of 3")[0]["node_uses"] == ["replica"]
        assert "replica" in members[0].parsed("who", "of 3")["reason"]
        assert members[0].parsed("stat", "of 1")[0]["node_uses"] == []

        # More than there are: the object is there, and the number is said.
        code, _, said = members[0].run("put", "of 8", "-", "--replicas", "8", data=b"x")
        assert code == FAILED and "5 of the 8" in said, said
        assert len(holders(members, "of 8")) == NODES
        assert members[0].run("put", "none", "-", "--replicas", "9", data=b"x")[0] == 2

        for name in ("of 1", "of 2", "of 3", "of 5", "of 8"):
            delete(members, members[4], name)
        wait_for(lambda: total(members, "replicas_wanted") == 0)
        assert total(members, "replicas_missing") == 0 and total(members, "replica_bytes") == 0


def test_they_are_not_evicted():
    cluster = Five(nodes=2)
    with cluster as members:
        cluster.wait_met()
        members[0].good("put", "kept", "-", "--replicas", "2", data=bytes(4 * MIB))
        for n in range(60):
            for member in members:
                member.good("put", f"fill {n} {member.path}", "-", data=bytes(8 * MIB))
        assert members[0].numbers()["evictions"] > 0 and members[1].numbers()["evictions"] > 0
        assert holders(members, "kept") == {0, 1}


class Readers:
    """Threads that read all names at nodes that live, again and again."""

    def __init__(self, members, names):
        self.members, self.names, self.failures, self.reads = members, names, [], 0
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self, turn):
        while not self.ends.is_set():
            turn += 1
            name, member = self.names[turn % len(self.names)], self.members[turn % len(self.members)]
            if member.process is None:
                continue
            code, printed, said = member.run("get", name, "--no-copy", "--timeout", "20s")
            self.reads += 1
            if code == OK and printed == bytes_of(name):
                continue
            if code != UNREACHABLE:  # that is its own node, which was killed under it
                self.failures.append((turn, member.path, name, code, said))

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(60)


def kill_some(members, names):
    """One after the other, also the homes of some; what is left makes them whole as far as it can."""
    for victim in (0, 3):
        kill(members[victim])
        begun = time.monotonic()
        wait_for(lambda: all_held_by(members, names, 3), REPAIR_S + LOOK_S)
        print(f"# node {victim} was killed: three replicas of all again after {time.monotonic() - begun:.1f} s")
        wait_for(lambda: total(members, "replicas_missing") == 0)
    assert total(members, "replicas_repaired") > 0
    kill(members[1])
    wait_for(lambda: all(holders(members, name) == {2, 4} for name in names), 60)
    wait_for(lambda: total(members, "replicas_missing") == len(names), 30)
    kill(members[4])
    wait_for(lambda: members[2].states()[4] == "dead", 30)
    for name in names:
        assert members[2].good("get", name) == bytes_of(name)


def test_holders_are_killed_while_readers_read():
    """Nothing that was acknowledged is lost while a replica lives, and each read of it ends well."""
    cluster = Five()
    with cluster as members:
        cluster.wait_met()
        names = [f"n{n}" for n in range(12)]
        for n, name in enumerate(names):
            members[n % NODES].good("put", name, "-", "--replicas", "3", data=bytes_of(name))
        readers = Readers(members, names)
        try:
            kill_some(members, names)
        finally:
            readers.end()
        assert not readers.failures, readers.failures[:3]
        assert readers.reads > 20

        # Who comes back is made a holder again, and a delete takes all.
        for victim in (0, 1, 3, 4):
            members[victim].start()
        wait_for(lambda: all_held_by(members, names, 3), 90)
        for name in names:
            delete(members, members[2], name)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
