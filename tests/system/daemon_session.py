#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nighd and sessions that do not behave: forged hellos, silent and slow clients, broken messages, forged rings, other
uids. Whatever one client does, the others are served."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, Session, connect, greet, hello, receive, wait_for  # noqa: E402

OP_NODES, OP_WHERE, OP_LINKS = 23, 24, 31
MEASURE = 128
OP_SERVICE_OPEN = 28
PAIR_ASK, PAIR, PAIR_DROP = 7, 8, 9
BULK_ASK, BULK = 10, 11
OP_BULK_MAKE, OP_BULK_WAIT = 35, 36
TAKES_PAIRS, PAIR_ENDED = 260, 320  # in the session's first page
MESSAGES = 16  # of one socket in one turn
OP_UNKNOWN = 42  # the first that there is none of


def expect_refused(node, data, status, *words):
    sock, answer = greet(node.path, data)
    assert answer is not None and answer.kind == raw.WELCOME
    assert answer.status == status, (answer.status, answer.sentence)
    for word in words:
        assert word in answer.sentence, answer.sentence
    assert receive(sock)[0] == b"", "the node closes after a refusal"
    sock.close()


def expect_served(node, **kind):
    session = Session(node.path, hello(**kind))
    assert session.call(raw.OP_NOP, cookie=77) == (77, "NIGH_OK")
    session.close()


def test_a_session_opens_and_is_served():
    node = Node()
    session = Session(node.path)
    welcome = session.welcome
    assert (welcome.version, welcome.lanes, welcome.rights, welcome.pool) == (1, 1, raw.WRITES, f"uid-{os.geteuid()}")
    assert len(welcome.fds) == 2 + 2 * welcome.lanes
    for i in range(1000):
        assert session.call(raw.OP_NOP, cookie=i) == (i, "NIGH_OK")
    session.close()
    assert node.stop()[0] == 0


def test_hellos_that_are_wrong_are_refused_in_words():
    node = Node()
    cases = [
        (hello(version_min=3, version_max=7), "NIGH_VERSION", "versions 1 to 2", "client 3 to 7", "same release"),
        (hello(version_min=0, version_max=0), "NIGH_VERSION", "client 0 to 0"),
        (hello(version_min=5, version_max=9)[:12], "NIGH_VERSION", "client 5 to 9"),
        (hello(version_min=3, version_max=2), "NIGH_PROTOCOL", "empty"),
        (hello(magic=1), "NIGH_PROTOCOL", "libnigh"),
        (hello(kind=raw.EXTENT), "NIGH_PROTOCOL", "not a hello"),
        (b"GET / HTTP/1.1\r\n", "NIGH_PROTOCOL", "libnigh"),
        (b"x", "NIGH_PROTOCOL", "libnigh"),
        (b"x" * 600, "NIGH_PROTOCOL", "too long"),
        (hello()[:-1], "NIGH_PROTOCOL", "too short"),
        (hello(flags=0x40), "NIGH_INVALID", "0x40"),
        (hello(pool=b"p" * 32), "NIGH_INVALID", "terminated"),
        (hello(pool=b"a/b"), "NIGH_INVALID", "name"),
        (hello(pool=b"nowhere"), "NIGH_NOT_FOUND", "nowhere", "configuration"),
        (hello(flags=raw.RESUME, session=1), "NIGH_NOT_FOUND", "resume"),
    ]
    for data, status, *words in cases:
        expect_refused(node, data, status, *words)
    expect_served(node, version_min=1, version_max=9)
    sock, answer = greet(node.path, hello(version_max=9) + b"later fields")
    assert answer.status == "NIGH_OK" and answer.version == 2
    sock.close()
    assert node.stop()[0] == 0


def test_a_hello_with_a_descriptor_is_refused():
    node = Node()
    sock = connect(node.path)
    sock.sendmsg([hello()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])
    data, fds = receive(sock)
    assert raw.Message(data, fds).status == "NIGH_PROTOCOL"
    expect_served(node)
    assert node.stop()[0] == 0


def test_silent_connections_hold_nobody_up():
    node = Node()
    silent = [connect(node.path) for _ in range(100)]
    expect_served(node)
    # More than may be half-open: the oldest were closed already, before their time.
    assert receive(silent[0])[0] == b""
    # The youngest may still speak.
    silent[-1].send(hello())
    data, fds = receive(silent[-1])
    assert raw.Message(data, fds).status == "NIGH_OK"
    for sock in silent:
        sock.close()
    assert node.stop()[0] == 0


def test_a_silent_connection_times_out():
    node = Node()
    sock = connect(node.path)
    sock.settimeout(30)
    assert receive(sock)[0] == b""
    assert node.stop()[0] == 0


def test_messages_that_are_wrong_expel_and_say_so():
    node = Node()
    bystander = Session(node.path)
    extent = struct.pack("@IHHII", raw.MAGIC, raw.EXTENT, 0, 0, 0)
    for data in (b"rubbish", b"x" * 513, hello(), extent[:-1], extent + b"x", struct.pack("@IHH", raw.MAGIC, 99, 0)):
        session = Session(node.path)
        session.sock.send(data)
        end = session.read_end()
        assert end.status == "NIGH_EXPELLED" and end.sentence, data
        assert struct.unpack("<i", session.memory[16:20])[0] != 0, "memory says it too"
        session.close()
    session = Session(node.path)
    session.sock.sendmsg([extent], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])
    assert session.read_end().status == "NIGH_EXPELLED"
    session.close()
    assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    bystander.close()
    assert node.stop()[0] == 0


def test_forged_rings_expel_and_say_so():
    node = Node()
    bystander = Session(node.path)
    for at, value in ((raw.SQ_TAIL, 257), (raw.SQ_TAIL, 0xFFFFFFFF), (raw.CQ_HEAD, 1), (raw.CQ_HEAD, 0x80000000)):
        session = Session(node.path)
        session.put(session.base(0) + at, value)
        session.ring()
        end = session.read_end()
        assert end.status == "NIGH_EXPELLED" and "ring" in end.sentence
        session.close()
    assert bystander.call(raw.OP_NOP, cookie=3) == (3, "NIGH_OK")
    bystander.close()
    assert node.stop()[0] == 0


def test_what_a_client_writes_into_the_nodes_words_hurts_only_itself():
    node = Node()
    session = Session(node.path)
    for at in range(0, len(session.memory), 4096):
        if at != 0:  # the front page: the lanes' pages, rings, reply and pins become noise
            session.memory[at:at + 4096] = b"\xa5" * 4096
    session.ring()
    assert session.read_end().status == "NIGH_EXPELLED"
    expect_served(node)
    assert node.stop()[0] == 0


def test_extents_go_only_to_who_may_have_them():
    node = Node()
    session = Session(node.path)
    assert session.extent(0, 0)[0] == "NIGH_DENIED", "nobody's"
    assert session.call(raw.OP_LEASE, argument=1 << 20)[1] == "NIGH_OK"
    offset = session.fields(1)[10]
    number = offset // session.welcome.extent_bytes
    status, fd = session.extent(number, 1)
    assert status == "NIGH_OK" and os.fstat(fd).st_size == session.welcome.extent_bytes
    os.close(fd)
    status, fd = session.extent(number, 0)
    assert status == "NIGH_OK"
    try:
        os.pwrite(fd, b"x", 0)
        raise AssertionError("a read-only descriptor was written")
    except OSError:
        pass
    os.close(fd)
    for bad in (4096, 0xFFFFFFFF):
        assert session.extent(bad, 0)[0] == "NIGH_INVALID"
    reader = Session(node.path, hello(flags=raw.READ_ONLY))
    assert reader.welcome.rights == raw.READS
    assert reader.extent(number, 1)[0] == "NIGH_DENIED"
    assert reader.extent(number, 0)[0] == "NIGH_OK"
    reader.close()
    session.close()
    assert node.stop()[0] == 0


def test_a_client_that_asks_and_does_not_read_is_expelled():
    node = Node()
    session = Session(node.path)
    session.call(raw.OP_LEASE, argument=1 << 20)
    request = struct.pack("@IHHII", raw.MAGIC, raw.EXTENT, 0, 0, 0)
    session.sock.setblocking(False)
    ended = False
    for _ in range(200000):
        try:
            session.sock.send(request)
        except BlockingIOError:
            expect_served(node)
        except OSError:
            ended = True
            break
    assert ended, "the node closed"
    expect_served(node)
    assert node.stop()[0] == 0


def test_descriptors_on_their_way_are_bounded():
    """The kernel bounds those of a uid that nobody has read: a node has them for all of its clients."""
    node = Node()
    session = Session(node.path)
    session.call(raw.OP_LEASE, argument=1 << 20)
    asked = 200
    for _ in range(asked):
        session.sock.send(struct.pack("@IHHII", raw.MAGIC, raw.EXTENT, 0, 0, 0))
    raw.wait_for(lambda: raw.unread_bytes(session.sock) == 0)
    session.call(raw.OP_NOP)  # what it was about has been done, too
    granted = 0
    for _ in range(asked):
        data, fds = raw.receive(session.sock)
        status = raw.STATUS[struct.unpack("@IHHiI", data)[3]]
        assert status == ("NIGH_OK" if fds else "NIGH_LIMIT"), status
        granted += len(fds)
        for fd in fds:
            os.close(fd)
    assert 8 <= granted <= 128, granted
    assert session.extent(0, 0)[0] == "NIGH_OK"
    session.close()
    assert node.stop()[0] == 0


def make_bulk(session, size, access=3):
    """Memory for calls: the status and its number."""
    status = session.call(OP_BULK_MAKE, data_size=size, meta_size=access)[1]
    return status, session.fields(session.completions())[9]


def ask_for_bulk(session, number):
    session.sock.send(struct.pack("@IHHiIQ", raw.MAGIC, BULK_ASK, 0, 0, 0, number))


def take_bulk(session, number):
    """What the next SESSION_BULK says: the status, and the descriptor or None."""
    data, fds = receive(session.sock)
    _, kind, _, status, _, answered = struct.unpack("@IHHiIQ", data)
    assert kind == BULK and answered == number
    status = raw.STATUS[status]
    assert (status == "NIGH_OK") == bool(fds)
    return status, fds[0] if fds else None


def ask_bulk(session, number):
    ask_for_bulk(session, number)
    return take_bulk(session, number)


def expect_sealed(fd, size):
    assert os.fstat(fd).st_size == size and os.fstat(fd).st_mode & 0o777 == 0o600
    for length in (0, size - 1, size + 1):
        try:
            os.ftruncate(fd, length)
            assert False, "its size is sealed"
        except PermissionError:
            pass


def test_memory_for_calls_is_its_sessions():
    node = Node("--call-memory", "1M")
    session, other = Session(node.path), Session(node.path)
    assert make_bulk(session, (1 << 20) + 1)[0] == "NIGH_OUT_OF_MEMORY"
    assert make_bulk(session, 0)[0] == "NIGH_INVALID"
    assert make_bulk(session, 4096, 4)[0] == "NIGH_INVALID"
    status, number = make_bulk(session, 5000)
    assert status == "NIGH_OK"
    status, fd = ask_bulk(session, number)
    assert status == "NIGH_OK"
    expect_sealed(fd, 8192)
    assert ask_bulk(other, number)[0] == "NIGH_NOT_FOUND"
    for wrong in (0, number + 1, number ^ 1 << 63, (1 << 64) - 1):
        assert ask_bulk(session, wrong)[0] == "NIGH_NOT_FOUND"
    oid = struct.pack("<Q", number) + bytes(12)
    assert other.call(OP_BULK_WAIT, oid=oid)[1] == "NIGH_NOT_FOUND"
    assert other.call(OP_BULK_WAIT, oid=oid, flags=1)[1] == "NIGH_NOT_FOUND"
    assert session.call(OP_BULK_WAIT, oid=oid, flags=2)[1] == "NIGH_INVALID"
    assert session.call(OP_BULK_WAIT, oid=oid)[1] == "NIGH_OK"
    os.pwrite(fd, b"mine", 0)
    assert session.call(OP_BULK_WAIT, oid=oid, flags=1)[1] == "NIGH_OK"
    assert os.pread(fd, 4, 0) == bytes(4), "its pages were taken back"
    assert ask_bulk(session, number)[0] == "NIGH_NOT_FOUND"
    os.close(fd)
    session.sock.send(struct.pack("@IHHiI", raw.MAGIC, BULK_ASK, 0, 0, 0))
    assert session.read_end().status == "NIGH_EXPELLED"
    other.close()
    expect_served(node)
    assert node.stop()[0] == 0


def test_memory_for_calls_that_nobody_reads_is_bounded():
    """As extents: descriptors that are on their way."""
    node = Node()
    session = Session(node.path)
    _, number = make_bulk(session, 4096)
    for _ in range(200):
        ask_for_bulk(session, number)
    raw.wait_for(lambda: raw.unread_bytes(session.sock) == 0)
    session.call(raw.OP_NOP)
    granted = 0
    for _ in range(200):
        status, fd = take_bulk(session, number)
        assert status in ("NIGH_OK", "NIGH_LIMIT"), status
        if fd is not None:
            granted += 1
            os.close(fd)
    assert 8 <= granted <= 128, granted
    session.close()
    assert node.stop()[0] == 0


def test_memory_for_calls_of_a_uid_is_half():
    if os.geteuid() != 0:
        return
    node = Node("--call-memory", "1M")

    def greedy():
        first, second = Session(node.path), Session(node.path)
        assert make_bulk(first, (512 << 10) + 1)[0] == "NIGH_QUOTA"
        assert make_bulk(first, 400 << 10)[0] == "NIGH_OK"
        assert make_bulk(second, 113 << 10)[0] == "NIGH_QUOTA"
        assert make_bulk(second, 112 << 10)[0] == "NIGH_OK"

    assert as_uid(4005, 4005, greedy) == 0
    session = Session(node.path)
    raw.wait_for(lambda: make_bulk(session, 1 << 20)[0] == "NIGH_OK")  # who has gone has none
    session.close()
    assert node.stop()[0] == 0


def ask_for_pair(session, service, rank=0):
    session.sock.send(struct.pack("@IHHQIIII", raw.MAGIC, PAIR_ASK, 0, service, rank, 0, 0, 0))


def take_pair(session):
    """What the next SESSION_PAIR says: status, whether this side serves, place, serial, the other's uid; descriptors."""
    data, fds = receive(session.sock)
    _, kind, _, status, flags, _, place, serial, uid, _ = struct.unpack("@IHHiIQIIII", data)
    assert kind == PAIR
    return raw.STATUS[status], flags, place, serial, uid, fds


def drop_pair(session, place, serial):
    session.sock.send(struct.pack("@IHHQIIII", raw.MAGIC, PAIR_DROP, 0, 0, 0, place, serial, 0))


def serve(node, service, takes_pairs=1):
    session = Session(node.path)
    session.memory[TAKES_PAIRS:TAKES_PAIRS + 4] = struct.pack("<I", takes_pairs)
    assert session.call(OP_SERVICE_OPEN, oid=struct.pack("<Q", service) + bytes(12))[1] == "NIGH_OK"
    return session


def ended(session, place):
    return struct.unpack("<I", session.memory[PAIR_ENDED + 4 * place:PAIR_ENDED + 4 * place + 4])[0]


def has_pair_memory(node):
    links = f"/proc/{node.process.pid}/fd"
    return any("nigh-pair" in os.readlink(f"{links}/{fd}") for fd in os.listdir(links))


def test_pairs_are_given_to_who_may_call_and_to_who_serves():
    node = Node()
    server, older, caller = serve(node, 7), serve(node, 8, takes_pairs=0), Session(node.path)
    reader = Session(node.path, hello(flags=raw.READ_ONLY))
    for session, service, rank, status in ((caller, 9, 0, "NIGH_NOT_FOUND"), (caller, 7, 1, "NIGH_NOT_FOUND"),
                                           (caller, 8, 0, "NIGH_UNSUPPORTED"), (server, 7, 0, "NIGH_NOT_FOUND"),
                                           (reader, 7, 0, "NIGH_DENIED")):
        ask_for_pair(session, service, rank)
        answer = take_pair(session)
        assert answer[0] == status and not answer[5], (service, rank, answer)
    ask_for_pair(caller, 7)
    status, serves, place, serial, uid, fds = take_pair(caller)
    assert (status, serves, uid, len(fds)) == ("NIGH_OK", 0, os.geteuid(), 2)
    served = take_pair(server)
    assert served[:2] == ("NIGH_OK", 1) and served[3:5] == (serial, os.geteuid()) and len(served[5]) == 2
    ask_for_pair(caller, 7)
    assert take_pair(caller)[0] == "NIGH_EXISTS"
    drop_pair(older, 0, serial)  # not its own
    older.call(raw.OP_NOP)
    for session in (server, older, caller, reader):
        session.close()
    assert node.stop()[0] == 0


def test_memory_of_pairs_goes_back_when_both_have_let_go():
    """Whoever keeps it mapped keeps no memory of the node's; and it is not taken from under who still reads."""
    node = Node()
    server, caller = serve(node, 7), Session(node.path)
    kept = []
    for first, second, at in ((caller, server, 0), (server, caller, 1)) * 3:
        answers = []

        def given():
            ask_for_pair(caller, 7)
            answers.append(take_pair(caller))
            return answers[-1][0] == "NIGH_OK"

        wait_for(given)
        pairs = [answers[-1], take_pair(server)]
        kept += pairs[0][5] + pairs[1][5]
        memory = pairs[0][5][0]
        assert os.fstat(memory).st_blocks * 512 >= 280 * 1024
        drop_pair(first, pairs[at][2], pairs[at][3])
        wait_for(lambda: ended(second, pairs[1 - at][2]) == pairs[1 - at][3])
        assert os.fstat(memory).st_blocks * 512 >= 280 * 1024 and has_pair_memory(node)
        drop_pair(second, pairs[1 - at][2], pairs[1 - at][3])
        wait_for(lambda: os.fstat(memory).st_blocks == 0)
        wait_for(lambda: not has_pair_memory(node))
    for fd in kept:
        os.close(fd)
    server.close()
    caller.close()
    assert node.stop()[0] == 0


def test_who_reads_no_pairs_is_given_few():
    node = Node()
    server, callers = serve(node, 7), []
    for _ in range(20):
        callers.append(Session(node.path))
        answers = []

        def answered():
            ask_for_pair(callers[-1], 7)
            answers.append(take_pair(callers[-1]))
            return answers[-1][0] == "NIGH_OK" or len(answers) > 30

        wait_for(answered)
    assert raw.unread_bytes(callers[0].sock) == 0
    given = 0
    server.sock.setblocking(False)
    try:
        while True:
            given += take_pair(server)[0] == "NIGH_OK"
    except BlockingIOError:
        pass
    assert 2 <= given <= 12, given
    for session in callers + [server]:
        session.close()
    assert node.stop()[0] == 0


def test_the_end_of_the_socket_ends_the_session():
    node = Node("--max-sessions", "4")
    for _ in range(40):
        expect_served(node)
    held = [Session(node.path) for _ in range(4)]
    expect_refused(node, hello(), "NIGH_LIMIT", "4 sessions", "--max-sessions")
    held.pop().close()
    wait_for(lambda: greet(node.path)[1].status == "NIGH_OK")
    assert node.stop()[0] == 0


def spawn_holder(node, code):
    """A Python that opens a session, runs code, says so, and stays."""
    script = ("import sys, os, time\n"
              f"sys.path.insert(0, {os.path.dirname(os.path.realpath(__file__))!r})\n"
              f"from raw_session import *\nsession = Session({node.path!r})\n{code}\n"
              "print('there', flush=True)\nsys.stdin.read()\n")
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"there\n"
    return child


def test_a_killed_process_ends_its_session_even_if_a_child_has_the_socket():
    node = Node("--max-sessions", "1")
    child = spawn_holder(node, "kid = os.fork()\nif kid == 0:\n    sys.stdin.read()\n    os._exit(0)")
    expect_refused(node, hello(), "NIGH_LIMIT")
    child.send_signal(signal.SIGKILL)
    wait_for(lambda: greet(node.path)[1].status == "NIGH_OK")
    child.stdin.close()
    child.wait()
    assert node.stop()[0] == 0


def test_a_stopped_client_holds_nobody_up():
    node = Node()
    child = spawn_holder(node, "session.submit(OP_SUBSCRIBE)\nsession.wait(1)")
    raw.halt(child)
    for _ in range(200):
        expect_served(node)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert node.stop()[0] == 0


def test_a_log_that_nobody_reads_holds_nobody_up():
    """Its reader stands still: lines are lost, and that is said when it goes on."""
    node = Node()
    with open(f"/proc/{node.process.pid}/fd/2", "wb", buffering=0, opener=lambda path, flags: os.open(
            path, os.O_WRONLY | os.O_NONBLOCK)) as log:
        for size in (4096, 1):
            while log.write(b"\n" * size):
                pass
    for _ in range(5):
        expect_served(node)
    os.read(node.process.stderr.fileno(), 1 << 20)
    expect_served(node)
    code, said = node.stop()
    assert code == 0 and 'msg="lines were lost: stderr took none" lost=' in said, said


def test_sessions_of_several_lanes():
    node = Node("--lanes", "4", "--spin-us", "0")
    for _ in range(50):
        session = Session(node.path)
        assert session.welcome.lanes == 4 and len(session.welcome.fds) == 10
        for lane in range(4):
            assert session.call(raw.OP_NOP, lane=lane, cookie=lane) == (lane, "NIGH_OK")
        session.close()
    session = Session(node.path)
    session.put(session.base(3) + raw.SQ_TAIL, 9999)
    session.ring(3)
    assert session.read_end().status == "NIGH_EXPELLED"
    expect_served(node)
    assert node.stop()[0] == 0


def test_questions_about_other_nodes_to_a_node_that_is_alone():
    node = Node("--lanes", "2")
    session = Session(node.path)
    for _ in range(300):
        assert session.call(OP_NODES)[1] == "NIGH_OK"
    assert session.fields(session.completions())[3] == 1, "it is the only one"
    at = session.base(0) + raw.REPLY
    rank, state, incarnation, is_self = struct.unpack("<IIII", session.memory[at:at + 16])
    assert (rank, state, is_self) == (0, 1, 1) and incarnation == session.welcome.incarnation
    assert session.call(OP_NODES, lane=1)[1] == "NIGH_INVALID", "lane 0 knows"
    lanes = []
    for number in range(100):
        answers = [session.call(OP_WHERE, lane=lane, oid=bytes([number]) * 20)[1] for lane in range(2)]
        assert sorted(answers) == ["NIGH_INVALID", "NIGH_OK"], "one lane has the id"
        lanes.append(answers.index("NIGH_OK"))
    assert set(lanes) == {0, 1}
    assert session.fields(session.completions(lanes[-1]), lanes[-1])[3] == 0, "nobody has it"
    # What this node does not know it says so, and nothing else happens: a later client asks an older node.
    for operation in (OP_UNKNOWN, 100, 255):
        assert session.call(operation)[1] == "NIGH_UNSUPPORTED"
    for operation, flags in ((OP_NODES, 2), (OP_WHERE, 1), (OP_LINKS, 1)):
        assert session.call(operation, flags=flags)[1] == "NIGH_INVALID"
    assert session.call(OP_NODES, flags=1)[1] == "NIGH_OK"
    assert session.fields(session.completions())[3] == 0, "nobody has a name"
    for lane in range(2):
        assert session.call(OP_LINKS, lane=lane)[1] == "NIGH_OK"
        assert session.fields(session.completions(lane), lane)[3] == 0, "it has no links"
        assert session.call(OP_LINKS, lane=lane, flags=MEASURE, argument=2**64 - 1)[1] == "NIGH_OK"
    session.close()
    assert node.stop()[0] == 0


def test_a_stopping_node_says_bye():
    node = Node()
    session = Session(node.path)
    code, _ = node.stop()
    assert code == 0
    end = session.read_end()
    assert end.status == "NIGH_NODE_LOST" and "stopping" in end.sentence
    assert receive(session.sock)[0] == b""
    assert raw.STATUS[struct.unpack("<i", session.memory[16:20])[0]] == "NIGH_NODE_LOST"


def died(node):
    said = subprocess.run([os.environ["NIGH"], "--socket", node.path, "top", "--once", "--json"], capture_output=True,
                          check=True).stdout
    return json.loads(said)["sessions_died"]


def last_words(node, farewell):
    """A session of a process that says much, and perhaps farewell, and ends, while the node is stopped."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        session = Session(node.path)
        os.write(tell, b"r")
        wait_for(lambda: raw.is_stopped(node.process.pid))
        for _ in range(MESSAGES + MESSAGES // 2):
            session.sock.send(struct.pack("@IHHII", raw.MAGIC, raw.EXTENT, 0, 0xFFFF, 0))
        if farewell:
            session.close()
        os._exit(0)
    assert os.read(ready, 1) == b"r"
    os.close(ready)
    os.close(tell)
    node.process.send_signal(signal.SIGSTOP)
    os.waitpid(child, 0)
    node.process.send_signal(signal.SIGCONT)


def test_who_closed_is_not_counted_as_dead():
    """Also one whose farewell is behind more than is read of it at a time, when its end is seen."""
    node = Node("--lanes", "1")
    last_words(node, True)
    assert died(node) == 0
    last_words(node, False)
    wait_for(lambda: died(node) == 1)
    assert node.stop()[0] == 0


def as_uid(uid, gid, body):
    """Runs body in a child of another uid; its exit code, 0 when body returned."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([gid])
            os.setgid(gid)
            os.setuid(uid)
            body()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_config(node_folder, text):
    path = os.path.join(node_folder, "nigh.ini")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_pools_let_in_whom_their_mode_lets_in():
    if os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        config = write_config(folder, "[pool shared]\nowner = 4001\ngroup = 4100\nmode = 0640\n")
        node = Node("--config", config)

        def owner():
            assert Session(node.path, hello(pool=b"shared")).welcome.rights == raw.WRITES

        def member():
            assert Session(node.path, hello(pool=b"shared")).welcome.rights == raw.READS

        def stranger():
            expect_refused(node, hello(pool=b"shared"), "NIGH_DENIED", "shared", "0640")
            expect_refused(node, hello(pool=b"uid-0"), "NIGH_DENIED", "uid-0")
            expect_refused(node, hello(pool=b"uid-4001"), "NIGH_NOT_FOUND")
            session = Session(node.path)
            assert (session.welcome.pool, session.welcome.rights) == (f"uid-{os.getuid()}", raw.WRITES)

        assert as_uid(4001, 4001, owner) == 0
        assert as_uid(4002, 4100, member) == 0
        assert as_uid(4003, 4003, stranger) == 0
        assert node.stop()[0] == 0


def test_one_uid_does_not_take_all_sessions():
    if os.geteuid() != 0:
        return
    node = Node("--max-sessions", "8")

    def greedy():
        held = [Session(node.path) for _ in range(6)]
        expect_refused(node, hello(), "NIGH_LIMIT", "share")
        for _ in range(100):
            held.append(connect(node.path))

    assert as_uid(4004, 4004, greedy) == 0
    expect_served(node)
    assert node.stop()[0] == 0


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
