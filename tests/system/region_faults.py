#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Regions while nodes die: a home that is killed is replaced by one that knows all that was acknowledged, a node that is killed
takes its chunks alone, one that stands still is waited for, and clients that are killed cost nobody else."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402

CHUNK = 64 << 10
OK, NOT_FOUND, EXISTS = 0, 3, 9


def agreed(cluster, rank, *arguments, **more):
    """nigh region, once the node has a lease: while others are elected it may have none for a moment, and says so at once."""
    done = []

    def has_lease():
        done[:] = [cluster.nigh(rank, "region", *arguments, **more)]
        return b"cut off" not in done[0].stderr

    wait_for(has_lease, 20)
    return done[0]


def make(cluster, rank, name, data, *where):
    """A region with these bytes. Where a view has just begun it may have been made by an attempt that did not hear of it."""
    def is_made():
        done = cluster.nigh(rank, "region", "create", name, str(len(data)), "--chunk", str(CHUNK), *where)
        return done.returncode == OK or b"already" in done.stderr or b"exists" in done.stderr

    wait_for(is_made, 20)
    done = agreed(cluster, rank, "write", name, input=data)
    assert done.returncode == OK, done


def read(cluster, rank, name, *part):
    return agreed(cluster, rank, "read", name, *part)


def homes(cluster, rank):
    return cluster.stats(rank)["region_homes"]


def test_a_home_is_replaced():
    """Of many regions that lie on node 0 some have their homes elsewhere: these are killed, and restarted, one after the other."""
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    data = {f"r{n}": os.urandom(CHUNK + 7 * n) for n in range(12)}
    for name, bytes_ in data.items():
        make(cluster, 0, name, bytes_)
    assert sum(homes(cluster, rank) for rank in range(3)) == len(data)
    for victim in (1, 2):
        cluster.kill(victim)
        wait_for(lambda: cluster.agrees(out=(victim,)), 30)
        for name, bytes_ in data.items():
            done = read(cluster, 3 - victim, name)
            assert done.returncode == OK and done.stdout == bytes_, (name, done.stderr)
        assert agreed(cluster, 0, "resize", f"r{victim}", str(3 * CHUNK)).returncode == OK
        data[f"r{victim}"] += bytes(3 * CHUNK - len(data[f"r{victim}"]))
        cluster.back(victim)
        wait_for(lambda: cluster.agrees(), 30)
    for name, bytes_ in data.items():
        for rank in range(3):
            done = read(cluster, rank, name)
            assert done.returncode == OK and done.stdout == bytes_, (name, rank, done.stderr)
    cluster.close()


def test_a_node_takes_its_own_chunks():
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    data = os.urandom(6 * CHUNK)
    make(cluster, 0, "spread", data, "--spread")
    cluster.kill(1)
    for chunk in range(6):
        done = read(cluster, 2, "spread", "--offset", str(chunk * CHUNK), "--size", str(CHUNK))
        if chunk % 3 == 1:
            assert done.returncode != OK, chunk
        else:
            assert done.returncode == OK and done.stdout == data[chunk * CHUNK:(chunk + 1) * CHUNK], (chunk, done.stderr)
    wait_for(lambda: cluster.agrees(out=(1,)), 30)
    assert agreed(cluster, 2, "rm", "spread").returncode == OK
    wait_for(lambda: cluster.stats(0)["region_chunks"] == cluster.stats(2)["region_chunks"] == 0, 20)
    cluster.back(1)
    wait_for(lambda: cluster.agrees(), 30)
    make(cluster, 1, "spread", data[::-1], "--spread")
    assert read(cluster, 0, "spread").stdout == data[::-1]
    cluster.close()


def test_what_was_at_a_node_that_begins_again_is_gone():
    """At once, so that no view comes without it; whoever is the home."""
    cluster = Voters(3)
    wait_for(cluster.agrees, 20)
    names = [f"gone {n}" for n in range(12)]
    for name in names:
        make(cluster, 0, name, b"bytes", "--on", "1")
    assert sum(homes(cluster, rank) for rank in (0, 2)) > 0
    cluster.kill(1)
    cluster.back(1)
    wait_for(cluster.agrees, 30)
    for name in names:
        wait_for(lambda name=name: agreed(cluster, 0, "stat", name).returncode == NOT_FOUND, 20)
        make(cluster, 2, name, b"others")
        assert read(cluster, 0, name).stdout == b"others"
    cluster.close()


def make_elsewhere(cluster, rank, data):
    """A region on node 0 whose home is not this node: that would have to answer where chunks are."""
    for number in range(40):
        make(cluster, 0, f"still {number}", data)
        if homes(cluster, rank) == 0:
            return f"still {number}"
        assert agreed(cluster, 0, "rm", f"still {number}").returncode == OK
    raise AssertionError("one node is the home of everything")


def is_cut_off(move):
    """Whether a move failed as the node that was asked had no lease for a moment: it may have happened, or not."""
    said = move.stderr.peek()
    assert b"cut off" in said, said
    return True


def begin_move(cluster, name):
    """A move to node 1 that node 0 has asked for, as soon as that has a lease."""
    moves = []

    def is_asked():
        if moves and moves[-1].poll() is not None:
            assert is_cut_off(moves.pop())
        if not moves:
            moves.append(subprocess.Popen([os.environ["NIGH"], "region", "move", name, "1", "1", "--timeout", "20s", "--socket",
                                           cluster.socket(0)], stderr=subprocess.PIPE))
        return cluster.stats(0)["regions_mapped"] > 0  # by whoever asks

    wait_for(is_asked, 60)
    return moves[-1]


def test_a_node_that_stands_still_is_waited_for():
    """While it is no longer than a lease's time: a move there ends when it goes on, and nothing that was written is lost."""
    cluster = Voters(3, dead_ms=10000)
    wait_for(lambda: cluster.agrees(), 20)
    data = os.urandom(2 * CHUNK)
    name = make_elsewhere(cluster, 1, data)
    process = cluster.processes[1]
    for _ in range(3):
        process.send_signal(signal.SIGSTOP)
        move = begin_move(cluster, name)
        for _ in range(10):  # nobody sees into a node that stands still: so long it does
            assert move.poll() is None or is_cut_off(move)
            assert cluster.stats(2)["view_epoch"] == 1
        process.send_signal(signal.SIGCONT)
        if move.wait(timeout=240) != OK:
            assert is_cut_off(move)
            assert agreed(cluster, 0, "move", name, "1", "1").returncode in (OK, EXISTS)
        assert read(cluster, 2, name).stdout == data
        assert agreed(cluster, 0, "move", name, "1", "0").returncode == OK
        assert read(cluster, 1, name).stdout == data
    cluster.close()


class LockUser:
    """A process that holds locks of a region, at a node."""

    def __init__(self, cluster, rank, name):
        self.process = subprocess.Popen([os.environ["LOCK_USER"], cluster.socket(rank), name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.heard() == "NIGH_OK"

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def heard(self):
        return self.process.stdout.readline().strip()

    def does(self, line):
        self.say(line)
        return self.heard()

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


def word(cluster, rank, name, offset):
    done = read(cluster, rank, name, "--offset", str(offset), "--size", "8")
    assert done.returncode == OK, done
    return int.from_bytes(done.stdout, "little")


def test_a_node_that_stood_still_writes_nothing_under_a_lock():
    """It is taken for dead as it writes under a lock: the next has the lock then, and what it writes stays."""
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    make(cluster, 0, "locked", bytes(2 * CHUNK))
    first, second = LockUser(cluster, 1, "locked"), LockUser(cluster, 2, "locked")
    assert first.does("lock 7 2 0") == "NIGH_OK"
    assert first.does("flood 8") == "floods"
    assert word(cluster, 0, "locked", 8) > 0
    cluster.processes[1].send_signal(signal.SIGSTOP)
    assert second.does("lock 7 2 0") == "NIGH_OK"
    assert second.does(f"write 8 {1 << 60}") == "NIGH_OK"
    cluster.processes[1].send_signal(signal.SIGCONT)
    assert first.heard() != "NIGH_OK"  # the write that was under way
    for _ in range(20):
        assert word(cluster, 0, "locked", 8) == 1 << 60
    assert second.does("unlock") == "NIGH_OK"
    first.end()
    second.end()
    cluster.close()


def test_a_node_that_stood_still_does_not_say_that_a_lock_was_held():
    """It lets go when another has the lock already: its node cannot know that yet, and says nothing before it does."""
    cluster = Voters(3)
    wait_for(lambda: cluster.agrees(), 20)
    make(cluster, 0, "left", bytes(2 * CHUNK))
    first, second = LockUser(cluster, 1, "left"), LockUser(cluster, 2, "left")
    assert first.does("lock 7 2 0") == "NIGH_OK"
    cluster.processes[1].send_signal(signal.SIGSTOP)
    assert second.does("lock 7 2 0") == "NIGH_OK"
    assert first.does("leave") == "leaves"
    cluster.processes[1].send_signal(signal.SIGCONT)
    assert first.heard() in ("NIGH_LOCK_LOST", "NIGH_CLOSED", "NIGH_TIMEOUT")
    assert second.does("unlock") == "NIGH_OK"
    first.end()
    second.end()
    cluster.close()


def test_a_client_that_stands_still_loses_its_lock():
    cluster = Voters(2)
    wait_for(lambda: cluster.agrees(), 20)
    make(cluster, 0, "term", bytes(CHUNK))
    first, second = LockUser(cluster, 0, "term"), LockUser(cluster, 1, "term")
    assert first.does("lock 7 2 20000") == "NIGH_OK"
    first.process.send_signal(signal.SIGSTOP)
    assert second.does("lock 7 2 0") == "NIGH_OK"
    assert second.does("write 16 5") == "NIGH_OK"
    first.process.send_signal(signal.SIGCONT)
    assert first.does("write 16 6") == "NIGH_LOCK_LOST"
    assert first.does("unlock") == "NIGH_LOCK_LOST"
    assert word(cluster, 0, "term", 16) == 5
    second.process.kill()  # which lets go
    assert first.does("lock 7 2 0") == "NIGH_OK"
    assert first.does("write 16 6") == "NIGH_OK"
    assert first.does("unlock") == "NIGH_OK"
    first.end()
    second.process.wait(60)
    cluster.close()


def test_who_dies_with_locks_under_way_has_none():
    """Some that it waits for, and some that it has, and has not heard of."""
    cluster = Voters(2)
    wait_for(lambda: cluster.agrees(), 20)
    make(cluster, 0, "under way", bytes(CHUNK))
    holder, victim = LockUser(cluster, 0, "under way"), LockUser(cluster, 1, "under way")
    assert holder.does("lock 7 2 0") == "NIGH_OK"
    assert victim.does("want 5 20") == "NIGH_OK"
    victim.process.kill()
    assert holder.does("unlock") == "NIGH_OK"
    for number in range(5, 25):
        assert holder.does(f"lock {number} 2 0") == "NIGH_OK"
        assert holder.does("unlock") == "NIGH_OK"
    holder.end()
    victim.process.wait(60)
    cluster.close()


def test_clients_that_are_killed_cost_nobody():
    cluster = Voters(2)
    wait_for(lambda: cluster.agrees(), 20)
    data = os.urandom(16 * CHUNK)
    make(cluster, 0, "killed", data, "--spread")
    for _ in range(20):
        for arguments in (("write", "killed"), ("read", "killed"), ("create", "one more", "100"), ("rm", "one more")):
            process = subprocess.Popen([os.environ["NIGH"], "region", *arguments, "--socket", cluster.socket(1)],
                                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if arguments[0] == "write":
                process.stdin.write(data[:9 * CHUNK])
                process.stdin.flush()
            process.kill()
            process.wait()
            process.stdin.close()
    assert agreed(cluster, 0, "write", "killed", input=data).returncode == OK
    assert read(cluster, 1, "killed").stdout == data
    for rank in (0, 1):
        wait_for(lambda: cluster.stats(rank)["regions_mapped"] == 0, 20)
    assert agreed(cluster, 0, "rm", "killed").returncode == OK
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
