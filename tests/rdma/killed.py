#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In the two guests of guest_killed.py: a node in each, over RDMA, that gets what the other has, small and large, all
the time. The peer's whole guest is killed in the middle. The survivor's node ends every get once, goes on with what is
its own, keeps nothing of the dead one, and does it all again with the guest that is booted in its place.

killed.py survivor FOLDER, or peer FOLDER LIFE. The survivor prints TAP; lines "!WORDS" ask the program outside, which
answers by a file of that name in FOLDER."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import nighd
from checks import check_all, kept
from nighd import MIB, SLOW, digest, wait_for, write

SMALL = (1, 100, 8191, 8192, 20000)  # sent
# Read, from the survivor and from the peer: what the survivor lends is lent most of the time.
LARGE = (8 * MIB, 8 * MIB + 1), (3 * MIB + 3, 4 * MIB, 4 * MIB + 1)
LARGE_AT_ONCE = 2
DEAD_MS = 15000
GET_SECONDS = 15  # of a get that is to outlive the peer
LOCAL_SECONDS = 30  # of what is here, on a machine with other work
PATIENT_SECONDS = 3 * SLOW  # of one that has to succeed, likewise
LATE = 60  # after its deadline a get is not waited for longer: something hangs
TRIES = 10  # to find both nodes in the middle of a transfer
TIMED_OUT = 7  # nigh's status
HOSTS = ["10.99.0.1", "10.99.0.2"]
AWAY = [f"node 1 ({HOSTS[1]}:7701) is {state}, and may have it" for state in ("lost", "dead")]


def small_of(rank):
    return [f"of-{rank}-{size}" for size in SMALL]


def large_of(rank):
    return [f"of-{rank}-{size}" for size in LARGE[rank]]


def names_of(rank):
    return small_of(rank) + large_of(rank)


def make(path, name, life):
    """Other bytes under the same name, in another life; their digest."""
    return write(path, int(name.rsplit("-", 1)[1]), f"{name}, {life}")


class Node(nighd.Node):
    hosts = HOSTS

    def __init__(self, folder, rank):
        self.folder, self.rank = folder, rank
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        super().__init__(folder, rank, "--memory", "96M", "--fabric", "verbs", "--lanes", "1",
                         "--dead-ms", str(DEAD_MS))

    def said(self):
        """Without the sessions: each command is one."""
        return "".join(line for line in super().said().splitlines(True) if "module=front" not in line)

    def other(self):
        return next(node for node in json.loads(self.good("nodes", "--json")) if not node["self"])

    def is_joined(self):
        return self.other()["state"] == "up" and self.numbers()["links_up"] > 0

    def put_all(self, life):
        """The digests."""
        path, digests = os.path.join(self.folder, "in"), {}
        for name in names_of(self.rank):
            digests[name] = make(path, name, life)
            self.good("put", name, path)
        os.unlink(path)
        return digests


class Gets(threading.Thread):
    """One after the other, of these names in turn, until it is to stop, and what became of each. None leaves a copy:
    the next one travels, too."""

    def __init__(self, node, names, digests, seconds):
        super().__init__(daemon=True)
        self.node, self.names, self.digests, self.seconds = node, names, digests, seconds
        self.path = os.path.join(node.folder, f"copy-{id(self)}")
        self.ended, self.is_over, self.problem = [], False, None
        self.start()

    def run(self):
        try:
            while not self.is_over:
                self.get(self.names[len(self.ended) % len(self.names)])
        except (AssertionError, OSError, subprocess.SubprocessError) as problem:
            self.problem = problem

    def get(self, name):
        begun = time.monotonic()
        get = self.node.begin("get", "--no-copy", name, "-o", self.path, "--timeout", f"{self.seconds}s")
        said = get.communicate(timeout=self.seconds + LATE)[1].decode()
        if get.returncode == 0:
            assert digest(self.path) == self.digests[name], f"{name}: other bytes"
            os.unlink(self.path)
        else:
            assert not os.path.exists(self.path), f"{name}: {get.returncode}, and a file"
        self.ended.append((begun, time.monotonic() - begun, get.returncode, said))

    def count(self):
        if self.problem:
            raise self.problem
        return len(self.ended)

    def stop(self):
        self.is_over = True
        self.join(self.seconds + 2 * LATE)
        assert not self.is_alive(), "a get does not end"
        return self.ended[:self.count()]


def get_all(node, rank, life, seconds):
    """Of what the other has, in several threads; large ones are under way all the time."""
    path = os.path.join(node.folder, "expected")
    digests = {name: make(path, name, life) for name in names_of(rank)}
    os.unlink(path)
    large = large_of(rank)
    return [Gets(node, small_of(rank), digests, seconds)] + [
        Gets(node, large[n:] + large[:n], digests, seconds) for n in range(LARGE_AT_ONCE)]


def stop_all(gets):
    for one in gets:
        one.is_over = True
    return [end for one in gets for end in one.stop()]


class Survivor:
    def __init__(self, folder, outside):
        self.outside = outside
        self.node = Node(folder, 0)
        self.begun = time.monotonic()
        self.remote, self.local, self.own, self.before = [], None, {}, {}
        self.seen = None  # when it was looked last what the node and the kernel keep
        self.first, self.deaths = 0, 0  # incarnation of the peer, and how often it died before it is killed
        self.killed, self.locals_before = 0.0, 0

    def tell(self, what):
        print(f"# {time.monotonic() - self.begun:.1f} s: {what}", flush=True)

    def ask(self, words):
        """What the program outside answers when it has done that."""
        answer = os.path.join(self.outside, words.replace(" ", "-"))
        print(f"!{words}", flush=True)
        wait_for(lambda: os.path.exists(answer), 2 * SLOW)
        with open(answer, encoding="ascii") as file:
            return file.read()

    def moves_both_ways(self, since):
        """Objects came, sent and read, and went."""
        now = self.node.numbers()
        least = {"served_bytes": sum(LARGE[0]), "pulled_bytes_one_sided": sum(LARGE[1]),
                 "pulled_bytes_two_sided": sum(SMALL)}
        return all(now[what] - since[what] > bytes_ for what, bytes_ in least.items())

    def is_in_the_middle(self):
        """A get waits here, and the other reads here."""
        now = self.node.numbers()
        return now["waiting"] > 0 and now["loans"] > 0

    def has_let_go(self):
        self.seen = now, held = self.node.numbers(), kept()
        return (all(now[what] == 0 for what in (
            "loans", "waiting", "links_up", "unsealed_bytes", "objects_deleting")) and
                all(now[what] == self.before[what] for what in ("objects", "used_bytes")) and
                held["qp"] == held["cm_id"] == 1)  # the kernel's own, and the lane's listener


def check_objects_move_both_ways(survivor):
    node = survivor.node
    wait_for(node.is_joined, 2 * SLOW)
    survivor.tell("joined")
    survivor.own = node.put_all(1)
    survivor.before = node.numbers()
    survivor.tell("all put")
    survivor.local = Gets(node, names_of(0), survivor.own, LOCAL_SECONDS)
    survivor.remote = get_all(node, 1, 1, GET_SECONDS)
    wait_for(lambda: survivor.moves_both_ways(survivor.before), 3 * SLOW)
    codes = [code for one in survivor.remote for _, _, code, _ in one.ended]
    survivor.tell(f"{len(codes)} gets of what the other has, {codes.count(TIMED_OUT)} of them too late")


def check_it_is_killed_in_the_middle(survivor):
    """Whether it is, is seen while the peer's guest stands still."""
    survivor.first = survivor.node.other()["incarnation"]
    survivor.deaths = survivor.node.numbers()["node_deaths"]
    for number in range(TRIES):
        wait_for(survivor.is_in_the_middle, SLOW)
        survivor.ask(f"freeze {number}")
        if survivor.is_in_the_middle():
            break
        survivor.tell("not in the middle")
        survivor.ask(f"thaw {number}")
    else:
        raise AssertionError("never in the middle of a transfer")
    survivor.locals_before = survivor.local.count()
    survivor.killed = time.monotonic()
    assert survivor.ask("kill") == "125"


def check_every_get_ends_once(survivor):
    """With the right bytes; or at its deadline, and says who is away."""
    ends = [end for end in stop_all(survivor.remote) if end[0] + end[1] > survivor.killed]
    for begun, took, code, said in ends:
        print(f"# begun {begun - survivor.killed:+.1f} s after the kill: ended with {code} after {took:.1f} s")
        assert code == 0 or code == TIMED_OUT and any(away in said for away in AWAY), (code, said)
    assert any(code != 0 and begun < survivor.killed for begun, _, code, _ in ends), "none was under way"


def check_the_dead_one_holds_nothing(survivor):
    wait_for(lambda: survivor.node.other()["state"] == "dead", SLOW)
    wait_for(survivor.has_let_go, SLOW)
    deaths = survivor.node.numbers()["node_deaths"]
    assert deaths == survivor.deaths + 1, (survivor.deaths, deaths)
    for name in names_of(1):
        code, _, said = survivor.node.run("get", name, "--timeout", "1s")
        assert code == TIMED_OUT and AWAY[1] in said, (code, said)


def check_what_is_here_was_got_all_the_time(survivor):
    ends = survivor.local.stop()
    since = ends[survivor.locals_before:]
    longest = max(took for _, took, _, _ in since)
    print(f"# {len(since)} gets of what is here since the kill, the longest took {longest:.1f} s")
    assert all(code == 0 for _, _, code, _ in ends), ends
    assert time.monotonic() - (since[-1][0] + since[-1][1]) < LOCAL_SECONDS


def check_another_guest_takes_its_place(survivor):
    """Its node has the same rank and the same address, a higher incarnation, and other bytes under the same names."""
    node = survivor.node
    before = node.numbers()
    survivor.ask("boot")
    wait_for(node.is_joined, 3 * SLOW)
    assert node.other()["incarnation"] > survivor.first
    survivor.remote = get_all(node, 1, 2, PATIENT_SECONDS)
    wait_for(lambda: survivor.moves_both_ways(before), 3 * SLOW)
    ends = stop_all(survivor.remote)
    print(f"# {len(ends)} gets from it")
    assert all(code == 0 for _, _, code, _ in ends), ends
    assert survivor.ask("end") == "0", "the new peer failed"


def check_nothing_is_left(survivor):
    node = survivor.node
    wait_for(survivor.has_let_go, SLOW)
    assert node.numbers()["checksum_failures"] == 0
    assert node.end(signal.SIGTERM) == 0, node.said()
    assert "level=fatal" not in node.said() and "ERROR: AddressSanitizer" not in node.said(), node.said()
    assert kept()["cm_id"] == 0 and kept()["mr"] == 0, kept()


CHECKS = (check_objects_move_both_ways, check_it_is_killed_in_the_middle, check_every_get_ends_once,
          check_the_dead_one_holds_nothing, check_what_is_here_was_got_all_the_time,
          check_another_guest_takes_its_place, check_nothing_is_left)


def survive(folder, outside):
    print(f"1..{len(CHECKS)}", flush=True)
    survivor = Survivor(folder, outside)
    try:
        return check_all(CHECKS, lambda: (survivor.node.fate(), repr(survivor.seen)), survivor)
    finally:
        if survivor.node.process.poll() is None:
            survivor.node.end(signal.SIGTERM)


def be_peer(folder, outside, life):
    """All that it gets is right, as long as it lives."""
    node = Node(folder, 1)
    wait_for(node.is_joined, 2 * SLOW)
    node.put_all(life)
    gets = get_all(node, 0, 1, PATIENT_SECONDS)
    while not os.path.exists(os.path.join(outside, "over")):
        for one in gets:
            one.count()
        time.sleep(0.05)
    ends = stop_all(gets)
    print(f"{len(ends)} gets", flush=True)
    assert all(code == 0 for _, _, code, _ in ends), ends
    assert node.end(signal.SIGTERM) == 0, node.said()
    return 0


def main():
    role, outside, *life = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        return be_peer(folder, outside, int(life[0])) if role == "peer" else survive(folder, outside)


if __name__ == "__main__":
    sys.exit(main())
