#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Restart: nighd with a stand-in of systemd's descriptor store, and with its own holder. Whatever was sealed is served
by the next node; sessions come back; what cannot be taken over is refused or given up in words."""
import array
import mmap
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, Session, free_ports, hello, wait_for  # noqa: E402

RESUME_FORMAT = dict(flags=raw.RESUME)


class Manager:
    """What systemd does for a service of Type=notify with FileDescriptorStoreMax."""

    def __init__(self, *flags, memory="32M"):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        self.path = os.path.join(self.folder.name, "s")
        self.notify = os.path.join(self.folder.name, "notify")
        self.flags = ["--memory", memory, "--socket", self.path, *flags]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.notify)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.kept = []  # (name, descriptor)
        self.process = None
        self.ready = False
        self.said = ""

    def start(self):
        """Starts nighd with what is kept; returns when it is ready or has ended."""
        self.spawn()
        wait_for(lambda: self.take() or self.ready or self.process.poll() is not None)
        self.take()
        return self.ready

    def spawn(self):
        """Starts nighd with what is kept, as the protocol wants it."""
        fds = [fd for _, fd in self.kept]
        names = ":".join(name for name, _ in self.kept)
        # A shell between sets LISTEN_PID: it stays the same process.
        script = ('import os, sys\n'
                  'fds = [int(n) for n in sys.argv[1].split(",") if n]\n'
                  'high = [os.dup(fd) for fd in fds]\n'
                  'import fcntl\n'
                  'high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 3 + 2 * len(fds) + 20) for fd in fds]\n'
                  'for i, fd in enumerate(high): os.dup2(fd, 3 + i, inheritable=True)\n'
                  'if fds: os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), '
                  'LISTEN_FDNAMES=sys.argv[2])\n'
                  'os.closerange(3 + len(fds), 4096)\n'
                  'os.execv(sys.argv[3], sys.argv[3:])\n')
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, ",".join(map(str, fds)), names, os.environ["NIGHD"], *self.flags],
            pass_fds=fds, stdin=subprocess.DEVNULL, stderr=self.log, env={**os.environ, "NOTIFY_SOCKET": self.notify})
        Node.running.append(self.process)
        self.ready = False

    def wait_for_exec(self):
        """Returns when the process has become nighd."""
        def has_become():
            with open(f"/proc/{self.process.pid}/comm", encoding="ascii") as file:
                return file.read() == "nighd\n"
        wait_for(has_become)

    def take_for(self, seconds):
        """Acts on what nighd sends for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            select.select([self.socket], [], [], max(0, end - time.monotonic()))
            self.take()

    def measure_start(self):
        """Starts nighd; how long it takes from its first instruction until it is ready."""
        self.spawn()
        self.wait_for_exec()
        began = time.monotonic()
        wait_for(lambda: self.take() or self.ready)
        return time.monotonic() - began

    def take(self):
        """Acts on what nighd has sent."""
        while True:
            fds = array.array("i")
            try:
                data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            for _, _, value in ancillary:
                fds.frombytes(value)
            fields = dict(line.split("=", 1) for line in data.decode().splitlines())
            if fields.get("FDSTORE") == "1":
                assert fields["FDPOLL"] == "0" and len(fds) == 1 and len(self.kept) < 4096
                assert ":" not in fields["FDNAME"] and fields["FDNAME"].isprintable()
                self.kept.append((fields["FDNAME"], fds[0]))
            elif fields.get("FDSTOREREMOVE") == "1":
                for name, fd in self.kept:
                    if name == fields["FDNAME"]:
                        os.close(fd)
                self.kept = [item for item in self.kept if item[0] != fields["FDNAME"]]
            self.ready = self.ready or fields.get("READY") == "1"

    def end(self, number):
        """Ends nighd by a signal; the exit code and what it said."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self.take()
        return code, self.read_log()

    def read_log(self):
        Node.running.remove(self.process)
        self.log.seek(0)
        return self.log.read().decode()

    def fd_of(self, name):
        return next(fd for stored, fd in self.kept if stored == name)

    def names(self):
        return sorted(name for name, _ in self.kept)

    def close(self):
        for _, fd in self.kept:
            os.close(fd)
        self.kept = []
        self.socket.close()
        self.folder.cleanup()


def put(session, oid, data):
    """Creates, writes and seals an object by hand."""
    assert session.call(raw.OP_CREATE, oid=oid, data_size=len(data))[1] == "NIGH_OK"
    fields = session.fields(session.completions())
    number, inside = divmod(fields[2], session.welcome.extent_bytes)
    status, fd = session.extent(number, 1)
    assert status == "NIGH_OK"
    os.pwrite(fd, data, inside)
    os.close(fd)
    assert session.call(raw.OP_SEAL, oid=oid, data_size=len(data), ref=fields[7])[1] == "NIGH_OK"


def get(session, oid):
    """The bytes of an object by way of the lane, or the status. The lane's pin stays."""
    status = session.call(raw.OP_GET, oid=oid)[1]
    if status != "NIGH_OK":
        return status
    fields = session.fields(session.completions())
    number, inside = divmod(fields[2], session.welcome.extent_bytes)
    status, fd = session.extent(number, 0)
    assert status == "NIGH_OK"
    data = os.pread(fd, fields[3], inside)
    os.close(fd)
    return data


def oid(number):
    return struct.pack("<I", number) + b"restart"


def data_of(number):
    return bytes([number % 251]) * (1000 + number)


def resume(path, session):
    """The old session over a new connection."""
    again = Session(path, hello(flags=raw.RESUME, session=session.welcome.session, token=session.welcome.token))
    assert again.welcome.session == session.welcome.session and again.welcome.slot == session.welcome.slot
    return again


def hold_in_a_child(path, prepare=lambda session: None):
    """A process that has a session, in which `prepare` has done something, until it is killed; returns when that is so:
    a node that is killed before it has answered would leave none to come back to."""
    wait, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session = Session(path)
            prepare(session)
            os.write(tell, b"r")
            signal.pause()
        finally:
            os._exit(1)  # the tests that follow are the parent's
    os.close(tell)
    with os.fdopen(wait, "rb") as told:
        assert told.read(1) == b"r", "the child could not have it"
    return child


def fill(session):
    for number in range(50):
        put(session, oid(number), data_of(number))


def check(session):
    for number in range(50):
        came = get(session, oid(number))
        assert came == data_of(number), (number, came if isinstance(came, str) else "other bytes")


def test_what_is_stored_with_the_manager():
    manager = Manager()
    assert manager.start()
    assert {"state", "page", "listen", "index-0-0", "extent-0", "extent-15"} <= set(manager.names())
    assert manager.names().count("listen") == 1
    before = manager.names()
    session = Session(manager.path)
    manager.take()
    assert manager.names() == sorted(before + ["session-1"])
    session.close()
    wait_for(lambda: manager.take() or manager.names() == before)
    assert manager.end(signal.SIGTERM)[0] == 0
    manager.close()


def test_sealed_objects_survive_kills():
    manager = Manager()
    assert manager.start()
    session = Session(manager.path)
    fill(session)
    for restart in range(1, 5):
        manager.end(signal.SIGKILL)
        assert manager.start()
        check(Session(manager.path))
        session = resume(manager.path, session)
        check(session)
        put(session, oid(1000 + restart), b"after")
        assert session.call(raw.OP_STATS)[1] == "NIGH_OK"
        assert session.welcome.incarnation > 0
    manager.end(signal.SIGTERM)
    manager.close()


def test_kills_while_it_takes_over_lose_nothing():
    manager = Manager()
    assert manager.start()
    session = Session(manager.path)
    fill(session)
    manager.end(signal.SIGKILL)
    takes = manager.measure_start()
    manager.end(signal.SIGKILL)
    chance = random.Random(int(os.environ.get("NIGH_SEED", "1")))
    reached = 0
    for _ in range(60):
        manager.spawn()
        manager.wait_for_exec()
        manager.take_for(takes * chance.uniform(0, 1.5))
        reached += manager.ready
        manager.end(signal.SIGKILL)
    assert manager.start()
    check(Session(manager.path))
    session = resume(manager.path, session)
    check(session)
    assert len(set(manager.names())) == len(manager.names()), "nothing twice"
    _, said = manager.end(signal.SIGTERM)
    assert "lost" not in said, said
    print("# of 60 starts,", reached, "were ready before they were killed")
    manager.close()


def test_kills_while_it_begins_leave_nothing_behind():
    manager = Manager()
    takes = manager.measure_start()
    manager.end(signal.SIGKILL)
    chance = random.Random(int(os.environ.get("NIGH_SEED", "2")))
    for _ in range(40):
        manager.spawn()
        manager.wait_for_exec()
        manager.take_for(takes * chance.uniform(0, 1.5))
        manager.end(signal.SIGKILL)
        if chance.random() < 0.5:  # what is to be given up, too
            manager.kept = [item for item in manager.kept if item[0] != "page"]
    assert manager.start()
    fill(Session(manager.path))
    assert len(set(manager.names())) == len(manager.names()), "nothing twice"
    assert manager.end(signal.SIGTERM)[0] == 0
    manager.close()


def test_a_clean_stop_under_a_manager_goes_on_too():
    manager = Manager()
    assert manager.start()
    session = Session(manager.path)
    fill(session)
    assert manager.end(signal.SIGTERM)[0] == 0
    assert session.read_end() is None, "no goodbye: the session may come back"
    assert struct.unpack("<i", session.memory[16:20])[0] == 0
    assert manager.start()
    check(resume(manager.path, session))
    manager.end(signal.SIGTERM)
    manager.close()


def test_clients_wait_in_the_kept_socket():
    manager = Manager()
    assert manager.start()
    manager.end(signal.SIGKILL)
    waiting = raw.connect(manager.path)
    waiting.send(hello())
    assert manager.start()
    data, fds = raw.receive(waiting)
    assert raw.Message(data, fds).status == "NIGH_OK"
    manager.end(signal.SIGTERM)
    manager.close()


def test_what_a_living_session_holds_stays_and_a_dead_ones_goes():
    manager = Manager()
    assert manager.start()
    living = Session(manager.path)
    assert living.call(raw.OP_CREATE, oid=oid(1), data_size=1000)[1] == "NIGH_OK"
    fields = living.fields(1)
    child = hold_in_a_child(manager.path,
                            lambda dying: dying.call(raw.OP_CREATE, oid=oid(2), data_size=1 << 20))
    watcher = Session(manager.path)

    def unsealed():
        assert watcher.call(raw.OP_STATS)[1] == "NIGH_OK"
        at = watcher.base(0) + raw.REPLY
        return struct.unpack("<Q", watcher.memory[at + 24:at + 32])[0]

    assert unsealed() > 1 << 20
    manager.end(signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert manager.start()
    watcher = resume(manager.path, watcher)
    assert 1000 <= unsealed() < 2000, unsealed()
    living = resume(manager.path, living)
    assert living.call(raw.OP_SEAL, oid=oid(1), data_size=1000, ref=fields[7])[1] == "NIGH_OK"
    assert unsealed() == 0
    _, said = manager.end(signal.SIGTERM)
    assert "kept=2 dropped=1" in said, said
    manager.close()


def test_a_session_is_resumed_only_by_whom_it_belongs_to():
    manager = Manager()
    assert manager.start()
    session = Session(manager.path)
    welcome = session.welcome
    forged = [hello(flags=raw.RESUME, session=welcome.session, token=b"\0" * 16),
              hello(flags=raw.RESUME, session=welcome.session + 1, token=welcome.token)]
    for data in forged:
        assert raw.greet(manager.path, data)[1].status == "NIGH_NOT_FOUND"
    good = hello(flags=raw.RESUME, session=welcome.session, token=welcome.token)
    assert raw.greet(manager.path, good)[1].status == "NIGH_BUSY", "it is not lost"
    manager.end(signal.SIGKILL)
    assert manager.start()
    for data in forged:
        assert raw.greet(manager.path, data)[1].status == "NIGH_NOT_FOUND"
    child = os.fork()
    if child == 0:
        data = hello(flags=raw.RESUME, session=welcome.session, token=welcome.token)
        os._exit(0 if raw.greet(manager.path, data)[1].status == "NIGH_NOT_FOUND" else 1)
    assert os.waitpid(child, 0)[1] == 0, "another process"
    resume(manager.path, session)
    manager.end(signal.SIGTERM)
    manager.close()


def test_a_connection_that_ends_without_a_word_may_come_back():
    manager = Manager("--lanes", "2")
    assert manager.start()
    session = Session(manager.path)
    for _ in range(50):
        session.sock.close()
        while True:
            sock, answer = raw.greet(manager.path, hello(flags=raw.RESUME, session=session.welcome.session,
                                                         token=session.welcome.token))
            if answer.status == "NIGH_OK":
                break
            assert answer.status == "NIGH_BUSY", answer.status
        sock.close()  # without having used it
        wait_for(lambda: raw.greet(manager.path, hello(flags=raw.RESUME, session=session.welcome.session))[1].status
                 == "NIGH_NOT_FOUND")
    wait_for(lambda: try_resume(manager.path, session))
    session = session.again
    for lane in range(2):
        assert session.call(raw.OP_NOP, lane=lane, cookie=5) == (5, "NIGH_OK")
    session.close()  # with a word: this is the end
    wait_for(lambda: manager.take() or "session-1" not in manager.names())
    manager.end(signal.SIGTERM)
    manager.close()


def try_resume(path, session):
    """Whether the session could be resumed; it is then session.again."""
    try:
        session.again = resume(path, session)
        return True
    except AssertionError:
        return False


def test_a_kept_session_ends_with_its_process():
    manager = Manager()
    assert manager.start()
    child = hold_in_a_child(manager.path)
    wait_for(lambda: manager.take() or "session-1" in manager.names())
    manager.end(signal.SIGKILL)
    assert manager.start()
    assert "session-1" in manager.names()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_for(lambda: manager.take() or "session-1" not in manager.names())
    manager.end(signal.SIGTERM)
    manager.close()


def test_an_unknown_format_is_refused_and_left_alone():
    for kept in ("state", "index-0-0"):
        manager = Manager()
        assert manager.start()
        fill(Session(manager.path))
        manager.end(signal.SIGKILL)
        os.pwrite(manager.fd_of(kept), struct.pack("<I", 99), 8)
        names = manager.names()
        before = os.pread(manager.fd_of("extent-8"), 1 << 21, 0)
        assert not manager.start()
        said = manager.read_log()
        assert manager.process.returncode == 1 and "format" in said and "begin empty" in said, said
        assert manager.names() == names and os.pread(manager.fd_of("extent-8"), 1 << 21, 0) == before
        os.pwrite(manager.fd_of(kept), struct.pack("<I", 1 if kept == "state" else 2), 8)
        assert manager.start()
        check(Session(manager.path))
        # What was of the older format is of the newer once it is taken over.
        assert kept != "state" or os.pread(manager.fd_of(kept), 4, 8) == struct.pack("<I", 2)
        manager.end(signal.SIGTERM)
        manager.close()


def test_what_cannot_be_taken_over_is_given_up_in_words():
    def lose(name):
        def damage(manager):
            for stored, fd in manager.kept:
                if stored == name:
                    os.close(fd)
            manager.kept = [item for item in manager.kept if item[0] != name]
        return damage

    def keep_twice(name):
        return lambda manager: manager.kept.append((name, os.dup(manager.fd_of(name))))

    def scribble(name, at, value):
        return lambda manager: os.pwrite(manager.fd_of(name), value, at)

    for damage in (lose("extent-3"), lose("page"), lose("index-0-0"), keep_twice("extent-3"), keep_twice("state"),
                   scribble("state", 0, b"\0" * 8), scribble("state", 56, b"\xff" * 4),
                   scribble("index-0-0", 24, b"\xff" * 4)):
        manager = Manager()
        assert manager.start()
        session = Session(manager.path)
        fill(session)
        manager.end(signal.SIGKILL)
        damage(manager)
        assert manager.start(), manager.read_log()
        fresh = Session(manager.path)
        assert get(fresh, oid(1)) == "NIGH_TIMEOUT"
        fill(fresh)
        check(fresh)
        assert manager.names().count("state") == 1 and manager.names().count("extent-3") == 1
        answer = raw.greet(manager.path, hello(flags=raw.RESUME, session=session.welcome.session,
                                               token=session.welcome.token))[1]
        assert answer.status == "NIGH_NOT_FOUND"
        _, said = manager.end(signal.SIGTERM)
        assert "beginning empty" in said, said
        manager.close()


def test_the_same_pool_and_rules_after_a_restart():
    manager = Manager("--lanes", "2", "--max-objects", "1K")
    assert manager.start()
    session = Session(manager.path)
    manager.end(signal.SIGKILL)
    manager.flags[manager.flags.index("2")] = "4"
    assert manager.start()
    again = resume(manager.path, session)
    assert again.welcome.lanes == 2, "the memory is cut as it was"
    _, said = manager.end(signal.SIGTERM)
    assert "full stop" in said, said
    manager.close()


def nigh(path, *words):
    return subprocess.run([os.environ["NIGH"], "--socket", path, *words], stdin=subprocess.DEVNULL, timeout=60,
                          capture_output=True, check=True).stdout


def test_a_member_keeps_its_lanes_over_a_restart():
    with tempfile.NamedTemporaryFile() as key:
        key.write(bytes(32))
        key.flush()
        for lanes, others in (("4", "2"), ("2", "4")):
            ports = free_ports(2)
            manager = Manager("--lanes", lanes, "--cluster-key", key.name, "--member", "0", "--join",
                              ",".join(f"127.0.0.1:{port}" for port in ports))
            assert manager.start(), manager.read_log()
            nigh(manager.path, "put", "--no-claim", "kept", os.environ["NIGH"])
            manager.end(signal.SIGKILL)
            manager.flags[manager.flags.index(lanes)] = others
            # An address that is taken costs nothing of what is kept.
            with socket.create_server(("127.0.0.1", ports[0])):
                assert not manager.start()
            assert manager.start(), manager.read_log()
            assert Session(manager.path).welcome.lanes == int(lanes)
            with open(os.environ["NIGH"], "rb") as file:
                assert nigh(manager.path, "get", "kept") == file.read()
            manager.end(signal.SIGTERM)
            manager.close()


def test_a_join_that_is_refused_costs_nothing_of_what_is_kept():
    """Neither memory nor files: the next attempt, with the right key, has all."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        def path(name, byte=0):
            with open(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(bytes([byte]) * 32)
            return os.path.join(folder, name)
        key, other, ports = path("key"), path("other", 1), [f"127.0.0.1:{port}" for port in free_ports(2)]
        first = Node("--cluster-key", key, "--member", ports[0], "--state", os.path.join(folder, "first"))
        joiner = Manager("--cluster-key", key, "--member", ports[1], "--join", ports[0], "--state",
                         os.path.join(folder, "second"), "--spill", os.path.join(folder, "spill"))
        assert joiner.start(), joiner.read_log()
        data = [os.path.join(folder, f"data{number}") for number in range(16)]
        for number, name in enumerate(data):
            with open(name, "wb") as file:
                file.write(bytes([number]) * 3000000)
            nigh(joiner.path, "put", "--no-claim", f"kept{number}", name)
        joiner.end(signal.SIGKILL)
        os.remove(os.path.join(folder, "second", "members"))
        joiner.flags[joiner.flags.index(key)] = other
        assert not joiner.start() and "cannot join" in joiner.read_log()
        joiner.flags[joiner.flags.index(other)] = key
        assert joiner.start(), joiner.read_log()
        for number, name in enumerate(data):
            with open(name, "rb") as file:
                assert nigh(joiner.path, "get", f"kept{number}") == file.read(), number
        joiner.end(signal.SIGTERM)
        joiner.close()
        first.stop()


def test_nothing_is_kept_without_a_manager():
    node = Node()
    session = Session(node.path)
    node.process.kill()
    node.process.wait()
    assert session.read_end() is None
    node.stop()


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return int(children[0]) if children else 0


def test_the_holder_starts_a_killed_node_again():
    node = Node("--hold", memory="32M")
    assert node.ready
    session = Session(node.path)
    fill(session)
    for _ in range(3):
        first = child_of(node.process.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: child_of(node.process.pid) not in (0, first))
        session = resume(node.path, session)
        check(session)
    code, said = node.stop()
    assert code == 0 and said.count("the node died") == 3, said
    end = session.read_end()
    assert end.status == "NIGH_NODE_LOST", "a clean stop of a held node is the end"


def called(pid):
    """What ps calls it, and each of its threads."""
    names = []
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
                names.append(file.read().rstrip("\n"))
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended since
    return names


def test_ps_tells_a_node_from_its_holder():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node = Node("--hold", "--spill", folder, memory="32M")
        assert node.ready
        for _ in range(2):
            child = child_of(node.process.pid)
            assert called(node.process.pid) == ["nighd-hold"]
            wait_for(lambda: called(child)[0] == "nighd" and {"nigh-lane-0", "nigh-disk-0"} <= set(called(child)))
            os.kill(child, signal.SIGKILL)
            wait_for(lambda: child_of(node.process.pid) not in (0, child))
        # Who ends what is called nighd ends the node in good order, and its holder with it.
        child = child_of(node.process.pid)
        wait_for(lambda: called(child)[0] == "nighd" and "nigh-lane-0" in called(child))
        os.kill(child, signal.SIGTERM)
        assert node.process.wait(timeout=30) == 0
        node.stop()


def test_the_holder_ends_as_its_node_does():
    for flags, code in ((["--memory", "60T"], 3), (["--lanes", "3"], 2)):
        result = subprocess.run([os.environ["NIGHD"], "--memory", "32M", "--socket", "/tmp/nigh-none", "--hold", *flags],
                                capture_output=True, check=False, timeout=30)
        assert result.returncode == code, result.stderr


def test_the_holder_gives_up_on_a_node_that_keeps_dying():
    node = Node("--hold", memory="32M")
    before, killed = 0, []
    # Eleven times in less than 10 s, for which a busy machine may take some more; and no more: a sanitizer's own
    # child at exit must not be taken for the node.
    while len(killed) < 11 or (killed[-1] - killed[-11] > 9 and node.process.poll() is None):
        wait_for(lambda: child_of(node.process.pid) not in (0, before))
        before = child_of(node.process.pid)
        os.kill(before, signal.SIGKILL)
        killed.append(time.monotonic())
    code, said = node.process.wait(timeout=30), node.stop()[1]
    assert code == 1 and "not starting it again" in said, said


def links_of(folder):
    """What a process's descriptors are, but of those that it closes meanwhile."""
    links = []
    for fd in os.listdir(folder):
        try:
            links.append(os.readlink(os.path.join(folder, fd)))
        except FileNotFoundError:
            pass
    return links


def test_strangers_leave_no_descriptor_with_the_holder():
    node = Node("--hold", memory="32M")
    with open(f"/proc/{child_of(node.process.pid)}/environ", "rb") as file:
        address = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if line)[b"NOTIFY_SOCKET"]
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stranger.connect(b"\0" + address[1:])
    for count in (1, 2, 3, 2):
        socket.send_fds(stranger, [b"FDSTORE=1\nFDNAME=stranger\n"], [stranger.fileno()] * count)
        socket.send_fds(stranger, [b"FDSTOREREMOVE=1\nFDNAME=state\n"], [])
    # It has read all that was sent to it before it starts a node that died again.
    child = child_of(node.process.pid)
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: child_of(node.process.pid) not in (0, child))
    links = links_of(f"/proc/{node.process.pid}/fd")
    assert os.readlink(f"/proc/self/fd/{stranger.fileno()}") not in links, links
    wait_for(lambda: os.path.exists(node.path))
    code, said = node.stop()
    assert code == 0 and "lost" not in said, said


def test_without_its_holder_a_node_stops():
    node = Node("--hold", memory="32M")
    child = child_of(node.process.pid)
    node.process.kill()
    node.process.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{child}"))
    node.stop()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
