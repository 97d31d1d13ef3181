#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that donate memory to nighd, and do not behave: what they send in its place is refused, whatever is behind it holds
nobody up, and who is killed at any moment leaves regions that are whole, or none, and nothing besides."""
import errno
import fcntl
import json
import mmap
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, STATUS, Session, receive, wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402

DONATE, DONATED = 14, 15
DONATION = "@IHHiIQQ"
OFFERS = 4  # of one session, before they are a region
DISPOSALS = 16
WAITS = 64  # for these
TRIES = 20  # at a moment in which a node closes nothing of its own
SEALED = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
SIZE = 8192


def memfd(size=SIZE, seals=SEALED, flags=0):
    fd = os.memfd_create("donated", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def send(session, fds, size=SIZE, serial=1, kind=DONATE):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    session.sock.sendmsg([struct.pack(DONATION, raw.MAGIC, kind, 0, 0, serial, size, 0)], rights)


def donate(session, fd, size=SIZE, serial=1):
    """The status, and the number."""
    send(session, [fd], size, serial)
    data, fds = receive(session.sock)
    _, kind, _, status, answered, none, number = struct.unpack(DONATION, data)
    assert (kind, answered, none, fds) == (DONATED, serial, 0, [])
    return STATUS[status], number


def answer(session):
    """The status that the node answers a donation with, or ends the session with."""
    data, _ = receive(session.sock)
    if struct.unpack("@IHH", data[:8])[1] == DONATED:
        return STATUS[struct.unpack(DONATION, data)[3]]
    return raw.Message(data, []).status


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def numbers(node):
    done = subprocess.run([os.environ["NIGH"], "--socket", node.path, "top", "--once", "--json"], capture_output=True,
                          check=True, timeout=60)
    return json.loads(done.stdout)


def spares(process):
    """Its descriptors of /dev/null: the one that it gives up when it needs a number is the last."""
    folder = f"/proc/{process.pid}/fd"
    return [int(name) for name in os.listdir(folder) if os.readlink(f"{folder}/{name}") == os.devnull]


def filled(node, sessions):
    """Has sessions opened until no number below that of the node's spare one is free: that is of use only where it is the lowest
    there is."""
    def is_filled():
        taken = {int(name) for name in os.listdir(f"/proc/{node.process.pid}/fd")}
        return max(spares(node.process)) < min(set(range(len(taken) + 1)) - taken)

    for _ in range(TRIES):
        if is_filled():
            return
        sessions.append(Session(node.path))
    assert is_filled()


def without_numbers(process):
    """From now on it may open nothing more, until it closes one; what undoes that."""
    limit = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (min(set(range(len(taken) + 1)) - taken), limit[1]))
    return lambda: resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limit)


def hostile():
    """What is not such a memory file: why, and a function that opens it."""
    yield "no memory at all", lambda: os.open("/dev/null", os.O_RDWR)
    yield "a folder", lambda: os.open("/", os.O_RDONLY)
    yield "a pipe", lambda: os.pipe()[0]
    yield "a socket", lambda: socket.socket(socket.AF_UNIX).detach()
    yield "a file", plain_file
    yield "no seals", lambda: memfd(seals=0)
    yield "it may grow", lambda: memfd(seals=fcntl.F_SEAL_SHRINK)
    yield "it may shrink", lambda: memfd(seals=fcntl.F_SEAL_GROW)
    yield "not to be written", lambda: memfd(seals=SEALED | fcntl.F_SEAL_WRITE)
    yield "not to be written by others", lambda: memfd(seals=SEALED | 0x10)
    yield "too short", lambda: memfd(SIZE - 4096)
    yield "too long", lambda: memfd(SIZE + 4096)
    yield "no whole pages", lambda: memfd(SIZE - 1)
    yield "empty", lambda: memfd(0)
    yield "read-only", lambda: reopened(os.O_RDONLY)
    yield "write-only", lambda: reopened(os.O_WRONLY)
    yield "a path", lambda: reopened(os.O_PATH)
    yield "huge pages", huge


def plain_file():
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, SIZE)
        return os.open(file.name, os.O_RDWR)


def reopened(mode):
    fd = memfd()
    again = os.open(f"/proc/self/fd/{fd}", mode)
    os.close(fd)
    return again


def huge():
    try:
        return memfd(2 << 20, flags=os.MFD_HUGETLB)
    except OSError as why:  # a kernel without them
        assert why.errno in (errno.ENOSYS, errno.EINVAL, errno.ENOMEM, errno.ENODEV), why
        return memfd(0)


def test_what_is_no_such_memory_is_refused_and_closed():
    node = Node()
    session, bystander = Session(node.path), Session(node.path)
    before = descriptors(node.process)
    for why, make in hostile():
        fd = make()
        size = 2 << 20 if why == "huge pages" else SIZE
        assert donate(session, fd, size)[0] == "NIGH_INVALID", why
        os.close(fd)
        assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    fd = memfd()
    for size in (0, 1, SIZE - 1, SIZE + 4096, 1 << 41, (1 << 64) - 4096):
        assert donate(session, fd, size)[0] == "NIGH_INVALID", size
    wait_for(lambda: descriptors(node.process) <= before)
    assert numbers(node)["region_memory_bytes"] == 0
    session.close()
    bystander.close()
    assert node.stop()[0] == 0


def test_messages_that_bring_what_they_may_not_expel():
    node = Node()
    bystander = Session(node.path)
    before = descriptors(node.process)
    fd = memfd()
    for fds, kind in (([], DONATE), ([fd, fd], DONATE), ([fd] * 3, DONATE), ([fd] * 250, DONATE), ([fd], DONATED),
                      ([fd], raw.BYE), ([fd], 99)):
        session = Session(node.path)
        send(session, fds, kind=kind)
        end = session.read_end()
        assert end.status == "NIGH_EXPELLED" and end.sentence, (len(fds), kind)
        session.close()
    session = Session(node.path)
    session.sock.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
    session.read_end()
    session.close()
    assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    wait_for(lambda: descriptors(node.process) <= before)
    bystander.close()
    assert node.stop()[0] == 0


def lingering():
    """A socket that is not closed for an hour by who closes it last: its peer has no room for what was sent, and reads
    nothing."""
    listening, sending = socket.socket(), socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    sending.connect(listening.getsockname())
    taken, _ = listening.accept()
    listening.close()
    sending.setblocking(False)
    try:
        while True:
            sending.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return sending.detach(), taken


def give(session, fd):
    """Whoever closes it last waits: mostly the node, which has to take it first."""
    send(session, [fd])
    os.close(fd)


def test_what_cannot_be_closed_holds_nobody_up():
    node = Node()
    bystander, kept = Session(node.path), []
    before = descriptors(node.process)
    while takes_one(node):
        assert len(kept) < 16 * DISPOSALS, "none of them is closed by the node"
        session = Session(node.path)
        fd, taken = lingering()
        kept.append(taken)
        threading.Thread(target=give, args=[session, fd], daemon=True).start()
        assert answer(session) == "NIGH_INVALID"
        session.close()
        assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    assert len(kept) >= DISPOSALS
    session, fd = Session(node.path), memfd()
    allow_numbers = without_numbers(node.process)
    send(session, [fd])  # it would wait, and keep the last number for so long
    assert answer(session) == "NIGH_EXPELLED"
    allow_numbers()
    os.close(fd)
    session.close()
    for status in ["NIGH_NO_RESOURCES"] * (WAITS - 1) + ["NIGH_EXPELLED"] * DISPOSALS:  # one more was of who asked
        session = Session(node.path)
        fd, taken = lingering()
        kept.append(taken)
        send(session, [fd])
        assert answer(session) == status
        if status != "NIGH_EXPELLED":
            assert session.call(raw.OP_NOP, cookie=5) == (5, "NIGH_OK")
        session.close()
        threading.Thread(target=os.close, args=[fd], daemon=True).start()
        assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    for kind in (DONATED, 99):  # what brings one and may not is expelled still
        session, fd = Session(node.path), memfd()
        send(session, [fd], kind=kind)
        assert session.read_end().status == "NIGH_EXPELLED"
        os.close(fd)
        session.close()
    assert bystander.call(raw.OP_NOP, cookie=4) == (4, "NIGH_OK")
    for taken in kept:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        taken.close()  # and their peers' are over
    wait_for(lambda: descriptors(node.process) <= before, 5)  # what waited for that is being closed, too
    wait_for(lambda: takes_one(node))
    bystander.close()
    assert node.stop()[0] == 0


def stopped(node, send_it):
    """Has it done while the node stands still, so that what is sent lies there when nobody else has it any more."""
    os.kill(node.process.pid, signal.SIGSTOP)
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as file:
        def is_still():
            file.seek(0)
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

        wait_for(is_still)
    fd, taken = lingering()
    send_it(fd)
    os.close(fd)
    return taken


def rights(*fds):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]


def ways_to_leave_it(node):
    """What is sent that the node does not take, and how it comes that nobody reads it: a function that sends one."""
    def with_the_hello(fd):
        connect_and(fd)

    def behind_the_hello(fd):
        connect_and(fd, raw.hello())

    def connect_and(fd, *before):
        sock = raw.connect(node.path)
        for message in before:
            sock.send(message)
        sock.sendmsg([raw.hello()], rights(fd))
        connected.append(sock)

    def behind_its_end(fd):
        session.sock.send(struct.pack("@IHH", raw.MAGIC, raw.BYE, 0))
        session.sock.send(b"")
        send(session, [fd])

    def among_others(fd):
        send(session, [other, fd, other])

    def behind_an_empty_one(fd):
        session.sock.send(b"")
        session.sock.sendmsg([b""], rights(fd))
        session.drop()

    def with_another_message(fd):
        send(session, [fd], kind=raw.EXTENT)

    def where_it_is_gone(fd):
        send(session, [other, other])
        send(session, [fd])
        session.drop()

    connected, other = [], memfd()
    for way in (with_the_hello, behind_the_hello, behind_its_end, among_others, behind_an_empty_one, with_another_message,
                where_it_is_gone):
        session = Session(node.path)
        yield way
        session.sock.close()
    for sock in connected:
        sock.close()
    os.close(other)


def test_one_that_there_is_no_place_for_is_refused():
    """The node may open nothing more: it takes the one all the same, to close it, and goes on with who donated it."""
    node, fd = Node(), memfd()
    statuses, sessions = [], []
    while "NIGH_NO_RESOURCES" not in statuses:
        assert len(statuses) < TRIES and set(statuses) <= {"NIGH_OK"}, statuses
        session = Session(node.path)
        filled(node, sessions)
        allow_numbers = without_numbers(node.process)
        statuses.append(donate(session, fd)[0])
        allow_numbers()
        assert session.call(raw.OP_NOP, cookie=5) == (5, "NIGH_OK")
        assert donate(session, fd)[0] == "NIGH_OK"
        session.close()
    for session in sessions:
        session.close()
    assert node.stop()[0] == 0


def test_what_nobody_reads_holds_nobody_up():
    """More of them than are closed at a time, the last one of each in the node's hands alone."""
    node = Node()
    bystander, kept = Session(node.path), []
    before = descriptors(node.process)
    for _ in range(4):
        for way in ways_to_leave_it(node):
            kept.append(stopped(node, way))
            os.kill(node.process.pid, signal.SIGCONT)
            assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK"), way
            assert takes_one(node), way
    wait_for(lambda: descriptors(node.process) <= before)
    wait_for(lambda: not closing(node), 5)
    sock = raw.connect(node.path)
    kept.append(stopped(node, lambda fd: (send(bystander, [fd, fd, fd]), sock.sendmsg([raw.hello()], rights(fd)))))
    node.process.send_signal(signal.SIGTERM)
    os.kill(node.process.pid, signal.SIGCONT)
    assert node.stop()[0] == 0  # nor does it hold up its end
    for taken in kept:
        taken.close()


def closing(node):
    """Its threads that close connections for it."""
    names = []
    for task in os.listdir(f"/proc/{node.process.pid}/task"):
        try:
            with open(f"/proc/{node.process.pid}/task/{task}/comm", encoding="ascii") as file:
                names.append(file.read().strip())
        except OSError:
            pass  # it has ended
    return "nigh-closing" in names


def takes_one(node):
    """Whether the node receives what a client donates; else it says that it cannot, and goes on."""
    session = Session(node.path)
    fd = memfd()
    status, _ = donate(session, fd)
    assert status in ("NIGH_OK", "NIGH_NO_RESOURCES"), status
    assert session.call(raw.OP_NOP, cookie=5) == (5, "NIGH_OK")
    os.close(fd)
    session.close()
    return status == "NIGH_OK"


def test_offers_are_few_and_go_with_their_session():
    node = Node("--region-memory", "64K")
    session, other = Session(node.path), Session(node.path)
    before = descriptors(node.process)
    fds = [memfd() for _ in range(OFFERS)]
    taken = [donate(session, fd, serial=n) for n, fd in enumerate(fds)]
    assert all(status == "NIGH_OK" for status, _ in taken)
    assert len({number for _, number in taken}) == len(fds)
    assert donate(session, fds[0])[0] == "NIGH_OVERLOADED"
    assert numbers(node)["region_memory_bytes"] == len(fds) * SIZE
    large = memfd(65536)
    assert donate(other, large, 65536)[0] == "NIGH_OUT_OF_MEMORY"
    session.close()
    wait_for(lambda: numbers(node)["region_memory_bytes"] == 0)
    wait_for(lambda: descriptors(node.process) < before)  # the session's own are gone, too
    assert donate(other, large, 65536)[0] == "NIGH_OK"
    other.close()
    wait_for(lambda: numbers(node)["region_memory_bytes"] == 0)
    with mmap.mmap(fds[0], SIZE) as own:
        own[0:4] = b"mine"  # what was offered is who offered it's
    assert node.stop()[0] == 0


def test_donors_that_are_killed_leave_whole_regions_or_none():
    cluster = Voters(2)
    wait_for(lambda: cluster.agrees(), 20)
    size, rng = 256 << 10, random.Random(int(os.environ.get("NIGH_SEED", "1")))
    for life in range(12):
        rank = life % 2
        donor = subprocess.Popen([os.environ["DONOR"], cluster.socket(rank), f"d{life}", str(size)],
                                 stdout=subprocess.PIPE, text=True)
        said = [donor.stdout.readline().strip() for _ in range(rng.randrange(1, 6))]
        assert "NIGH_OK" in said or "NIGH_NO_QUORUM" in said or "NIGH_BUSY" in said, said
        if rng.randrange(2) == 1:
            raw.select.select([], [], [], rng.random() / 200)
        donor.kill()
        donor.communicate(timeout=60)
    names = sorted(json.loads(cluster.nigh(0, "region", "ls", "--json", check=True).stdout), key=lambda entry: entry["name"])
    assert names
    for entry in names:
        word = int(entry["name"].split("-")[1]) + 1
        home = int(entry["name"].split("-")[0][1:]) % 2
        done = cluster.nigh(1 - home, "region", "read", entry["name"])
        assert done.returncode == 0 and done.stdout == struct.pack("<Q", word) * (size // 8), (entry, done.stderr)
    wait_for(lambda: sum(cluster.stats(rank)["region_memory_bytes"] for rank in (0, 1)) == len(names) * size)
    for entry in names:
        assert cluster.nigh(0, "region", "rm", entry["name"]).returncode == 0
    wait_for(lambda: sum(cluster.stats(rank)["region_memory_bytes"] for rank in (0, 1)) == 0)
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
