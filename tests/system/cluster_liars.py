#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A member that has the key and misuses it, beside two real nodes: it takes all it can get of what members share. The two
go on serving each other, remember nothing of it once it is dead, and their memory and descriptors stay bounded."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_faults import GROWTH_TIMES, LOAD, Cluster  # noqa: E402
from cluster_hostile import descriptors  # noqa: E402
from raw_session import wait_for  # noqa: E402

LIAR = os.environ["CLUSTER_LIAR"]
KEY_KIB = 160 * 1000 * GROWTH_TIMES  # a home's books with all their keys
GROWTH_KIB = 16384 * GROWTH_TIMES
TIMEOUT_MS = 10000
# ThreadSanitizer is to see what threads do to each other, and takes ten times as long: a part of what fills tables, once.
IS_BRIEF = os.environ.get("NIGH_SANITIZED") == "thread"
ROUNDS = [16384] if IS_BRIEF else 3 * [16384, 100000]  # of so many bytes an object
LOANS = 1000 if IS_BRIEF else 10000  # of its share of LIMIT_SERVES
UNLINKED = {"rebirths", "links"}  # ways that leave no link up for long


class Beset(Cluster):
    """Two nodes, and a third of the list that is nobody's until it is a liar's."""

    def __init__(self):
        super().__init__(3)
        self.liar = None
        # Homes that the liar is not: what it says of its own keys is believed.
        self.wanted, self.near = (self.find(first, count) for first, count in ((0, 40), (100, 400)))
        self.used = 0
        self.before = [(self.resident_kib(rank), descriptors(self.processes[rank].pid)) for rank in range(2)]

    def start(self, rank):
        if rank < 2:
            super().start(rank)

    def wait_ready(self, rank):
        if rank < 2:
            super().wait_ready(rank)

    def wait_met(self, states=None):
        for rank in range(2):
            wait_for(lambda: self.nodes(rank)[1 - rank] == "up" and self.stats(rank)["links_up"] == 1, 20)

    def lie(self, *how):
        with open(os.path.join(self.folder.name, "said"), "wb") as said:
            self.liar = subprocess.Popen([LIAR, self.join, "2", self.key, *how], stdin=subprocess.PIPE, stdout=said)
        for rank in range(2):  # else nobody hears it
            wait_for(lambda: set(how) & UNLINKED or self.stats(rank)["links_up"] == 2, 20)

    def said(self):
        """What it was answered until now, by status."""
        with open(os.path.join(self.folder.name, "said"), encoding="utf-8") as file:
            lines = file.read().split("\n")
        return json.loads(lines[-2]) if len(lines) > 1 else {}

    def find(self, first, count):
        """Numbers of objects whose homes answer."""
        return subprocess.run([LOAD, self.socket(0), "near", str(first), str(count)], stdout=subprocess.PIPE, check=True,
                              timeout=60).stdout.decode().strip().split(",")

    def numbers(self, count):
        self.used += count
        return ",".join(self.near[self.used - count:self.used])

    def offer(self, count=30):
        """Objects of which it is the home, of a third: it hears of them, and may borrow them."""
        for rank in range(2):
            self.put(rank, 100000 + count * rank, count, 1000)

    def serves(self, size=16384):
        """Each puts, gets what the other put, deletes what the other has, and finds it no more."""
        for maker in range(2):
            numbers = self.numbers(20)
            self.put(maker, numbers, 20, size)
            self.get_all(1 - maker, numbers, 20, size, TIMEOUT_MS)
            gone = self.load(1 - maker, "rm", numbers, 20)["statuses"]
            if "NIGH_TIMEOUT" in gone:
                # Its home had no answer in time, as on a machine without a processor to spare. Not twice.
                print("#", gone)
                gone = self.load(1 - maker, "rm", numbers, 20)["statuses"]
                assert set(gone) <= {"NIGH_OK", "NIGH_NOT_FOUND"}, gone
            else:
                # In use: a holder has not seen yet that what it sent is out.
                assert set(gone) <= {"NIGH_OK", "NIGH_IN_USE"}, gone
            result = self.load(maker, "get", numbers, 20, size, 50)
            assert result["statuses"] == {"NIGH_TIMEOUT": 20}, result

    def end_liar(self):
        """It dies without a word, and is forgotten."""
        self.liar.kill()
        self.liar.communicate()
        for rank in range(2):
            wait_for(lambda: self.nodes(rank)[2] == "dead", 20)
            wait_for(lambda: self.stats(rank)["loans"] == 0, 20)
            assert self.nodes(rank)[1 - rank] == "up"

    def bounded(self, growth_kib):
        for rank in range(2):
            resident, open_ones = self.before[rank]
            wait_for(lambda: descriptors(self.processes[rank].pid) <= open_ones + 8, 20)
            assert self.resident_kib(rank) < resident + growth_kib, (resident, self.resident_kib(rank))


def fill(how, status, growth_kib, offered=30, loans=0, answers=1000, refused=1):
    """It takes until it is refused, or has had so many answers; the others have their own part."""
    cluster = Beset()
    cluster.offer(offered)
    wanted = [",".join(cluster.wanted[20 * rank:20 * rank + 20]) for rank in range(2)]  # it guesses these
    for rank in range(2):
        cluster.put(rank, wanted[rank], 20, 100000)
    cluster.lie(how)
    wait_for(lambda: cluster.said().get(status, 0) > answers, 240)
    for rank in range(2):
        wait_for(lambda: cluster.stats(rank)["shares_refused"] >= refused and cluster.stats(rank)["loans"] >= loans, 240)
    for size in ROUNDS:
        cluster.serves(size)
    for rank in range(2):  # what it wants too, and has no end of
        cluster.get_all(1 - rank, wanted[rank], 20, 100000, TIMEOUT_MS)
    assert cluster.liar.poll() is None
    print("#", how, cluster.said())
    cluster.bounded(growth_kib)
    cluster.end_liar()
    cluster.serves()
    for rank in range(2):
        assert cluster.stats(rank)["announcements_refused"] == 0
        wait_for(lambda: cluster.stats(rank)["directory_keys"] <= 2 * offered + 40, 20)  # what is there
    cluster.close()


def test_it_takes_its_share_of_keys():
    if IS_BRIEF:  # to be refused it would have to say 670,000 to each
        fill("keys", "NIGH_OK", KEY_KIB, answers=20000, refused=0)
    else:
        fill("keys", "NIGH_LIMIT", KEY_KIB)


def test_it_takes_its_share_of_loans():
    fill("loans", "NIGH_BUSY", GROWTH_KIB, LOANS, LOANS)


def test_it_takes_its_share_of_deletes():
    fill("deletes", "NIGH_BUSY", KEY_KIB)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
