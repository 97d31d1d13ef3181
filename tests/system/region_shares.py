#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that have as much of a node's regions under way as they can, and never let it end: others, of the same user too, read,
write, lock and change all the same, and what such a session is refused is of its own doing."""
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, Session, wait_for  # noqa: E402

SHARED, EXCLUSIVE = 1, 2
ALL_RIGHTS, FOREVER = 7, (1 << 64) - 1
LEASE = 1 << 18
GREEDY = 64     # with a ring full each they want more than their user may have
OWN = 8         # operations that a session has under way whatever others do
OWN_LOCKS = 16  # and locks


class Client(Session):
    """A session that asks of regions, with a place of leased memory to ask from."""

    def __init__(self, path):
        super().__init__(path, raw.hello(version_max=2))
        self.place, self.leased = raw.lease(self, LEASE)
        self.at = self.place % len(self.leased)
        self.seen = self.completions()

    def put_question(self, what, handle=0, offset=0, question=b"", ref=0):
        """One submission; what it asks lies at a place of its own, by turns. The lane looks at the next ring."""
        tail = self.tails[0]
        at = tail % raw.RING * 64
        self.leased[self.at + at:self.at + at + len(question)] = question
        entry = self.base(0) + raw.SQ + tail % raw.RING * 64
        self.memory[entry:entry + 64] = struct.pack("<BBHIQQIIQQQQ", raw.OP_REGION, 0, what, tail, handle, offset, 0, 0,
                                                    self.place + at, len(question), FOREVER, ref)
        self.tails[0] = tail + 1
        self.put(self.base(0) + raw.SQ_TAIL, tail + 1)

    def put_lock(self, handle, number, mode=SHARED):
        self.put_question(raw.REGION_LOCK, handle, question=struct.pack("<QQII", number, 0, mode, 0))

    def are_taken(self):
        return self.word(self.base(0) + raw.SQ_HEAD) == self.tails[0]

    def ended(self):
        """What has ended since it was last asked: statuses and generations."""
        end = self.completions()
        found = [self.fields(n + 1) for n in range(self.seen, end)]
        self.seen = end
        self.put(self.base(0) + raw.CQ_HEAD, end)
        return [(raw.STATUS[one[1]], one[9]) for one in found]

    def answers(self, count):
        self.ring()
        wait_for(lambda: self.completions() >= self.seen + count)
        return self.ended()

    def do(self, what, *arguments, **named):
        self.put_question(what, *arguments, **named)
        (answer,) = self.answers(1)
        return answer

    def create(self, name):
        return self.do(raw.REGION_CREATE, question=struct.pack("<QQIIII", 4096, 0, 0, 0, 0, 0) + name)[0]

    def open(self, name):
        status, handle = self.do(raw.REGION_OPEN, offset=ALL_RIGHTS, question=name)
        assert status == "NIGH_OK", status
        return handle

    def lock(self, handle, number, mode):
        self.put_lock(handle, number, mode)
        (answer,) = self.answers(1)
        return answer


def expect_served(client, handle, name):
    """All that one does by itself."""
    assert client.do(raw.REGION_WRITE, handle, question=b"written.")[0] == "NIGH_OK"
    status, _ = client.do(raw.REGION_READ, handle, ref=8)
    at = client.at + (client.tails[0] - 1) % raw.RING * 64
    assert status == "NIGH_OK" and client.leased[at:at + 8] == b"written."
    status, held = client.lock(handle, 1 << 40, EXCLUSIVE)
    assert status == "NIGH_OK", status
    assert client.do(raw.REGION_CLOSE, held)[0] == "NIGH_OK"
    assert client.create(name) == "NIGH_OK"
    assert client.do(raw.REGION_GRANT, handle, question=struct.pack("<IIII", 0, 4711, 1, 0))[0] == "NIGH_OK"


def wait_without_end(client, number):
    """As many locks as the ring takes, that somebody has. How many were refused."""
    handle = client.open(b"r")
    assert client.lock(handle, number, EXCLUSIVE)[0] == "NIGH_OK"
    for _ in range(raw.RING):
        client.put_lock(handle, number)
    client.ring()
    wait_for(client.are_taken)
    refused = client.ended()
    assert all(status == "NIGH_OVERLOADED" for status, _ in refused), refused
    return len(refused)


def test_who_waits_without_end_leaves_operations_to_others():
    node = Node(memory="192M")
    neighbour = Client(node.path)
    assert neighbour.create(b"r") == "NIGH_OK"
    handle = neighbour.open(b"r")
    greedy = [Client(node.path) for _ in range(GREEDY)]
    refused = [wait_without_end(client, number) for number, client in enumerate(greedy)]
    assert refused[0] == 0, "one session alone has its ring full"
    assert all(count <= raw.RING - OWN for count in refused), refused
    assert sum(refused) > 0, "they do not want more than they may have: this shows nothing"
    expect_served(neighbour, handle, b"of the neighbour")
    late = Client(node.path)
    mine = late.open(b"r")
    expect_served(late, mine, b"of who came late")
    for client, of in ((neighbour, handle), (late, mine)):
        for _ in range(OWN):
            client.put_lock(of, 0)
        client.ring()
        wait_for(client.are_taken)
        assert client.ended() == [], "they wait, as all others do"
    said = subprocess.run([os.environ["NIGH"], "--socket", node.path, "region", "stat", "r"], capture_output=True, check=True,
                          timeout=60)
    assert b"4711" in said.stdout, said.stdout
    for client in greedy:
        client.close()
    assert [status for status, _ in late.answers(OWN)] == ["NIGH_OK"] * OWN
    assert wait_without_end(late, 7) == 0, "what they had is free"
    neighbour.close()
    late.close()
    assert node.stop()[0] == 0


def test_who_holds_locks_without_end_leaves_locks_to_others():
    node = Node()
    neighbour, greedy = Client(node.path), Client(node.path)
    assert neighbour.create(b"r") == "NIGH_OK"
    handle, theirs = neighbour.open(b"r"), greedy.open(b"r")
    number, had, answers = 0, 0, []
    while all(status == "NIGH_OK" for status, _ in answers):
        had += len(answers)
        for _ in range(200):
            greedy.put_lock(theirs, number)
            number += 1
        answers = greedy.answers(200)
    assert {status for status, _ in answers} <= {"NIGH_OK", "NIGH_OVERLOADED"}, had
    assert had > 10000, "one session alone has many"
    for client, of in ((neighbour, handle), (greedy, theirs)):
        for number in range(OWN_LOCKS):
            client.put_lock(of, 1 << 20 | number)
        expected = "NIGH_OK" if client is neighbour else "NIGH_OVERLOADED"
        assert [status for status, _ in client.answers(OWN_LOCKS)] == [expected] * OWN_LOCKS
    expect_served(neighbour, handle, b"s")
    greedy.close()
    neighbour.close()
    assert node.stop()[0] == 0


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
