# SPDX-License-Identifier: Apache-2.0
"""The session protocol by hand, for tests that must say what libnigh never would (docs/session.md). Not a client
library: it knows nothing of pins, and trusts the node."""
import array
import fcntl
import mmap
import fnmatch
import os
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
import traceback

MAGIC = 0x4847494E
HELLO, WELCOME, EXTENT, GRANT, POKE, BYE = 1, 2, 3, 4, 5, 6
READ_ONLY, RESUME = 1, 2
PAGE, RING = 4096, 256
# Of a welcome: has places of its own, its windows take fetches; may write, has pairs, takes donations, drops them.
READS = 16 | 32
WRITES = 1 | 2 | 4 | 8 | READS
OP_NOP, OP_LEASE, OP_CREATE, OP_SEAL, OP_ABORT, OP_GET = 0, 1, 3, 4, 5, 6
OP_SUBSCRIBE, OP_STATS = 18, 17
OP_CALL_LEASE, OP_REGION = 25, 39
REGION_CREATE, REGION_OPEN, REGION_CLOSE, REGION_READ, REGION_WRITE, REGION_GRANT, REGION_LOCK = 1, 2, 3, 4, 5, 8, 13
REGION_MAP, REGION_UNMAP, REGION_LIST = 17, 18, 19
WELCOME_FORMAT = "@IHHiHHIIQ16sQQQII32s192s"
BUSY_TIMES = 4
OWN_PLACE, PLACES_BYTES = 1 << 63, 32 * 8192
LANE_BYTES, SQ, CQ, EVENTS, REPLY = 270336, 8192, 24576, 40960, 73728
SQ_TAIL, SQ_HEAD, CQ_TAIL, CQ_HEAD = (PAGE + 64 * i for i in range(4))


def _statuses():
    path = os.path.join(os.environ.get("NIGH_SOURCE", "."), "include/nigh/status.h")
    with open(path, encoding="utf-8") as header:
        return {int(value): symbol for symbol, value in re.findall(r"X\((NIGH_\w+), (-?\d+),", header.read())}


STATUS = _statuses()


def hello(version_min=1, version_max=1, flags=0, quota=0, session=0, token=b"", pool=b"", name=b"raw", magic=MAGIC,
          kind=HELLO):
    """The bytes of a hello; every field may be forged."""
    return struct.pack("@IHHHHIQQ16s32s32s", magic, kind, 0, version_min, version_max, flags, quota, session, token,
                       pool, name)


class Message:
    """What the node said: a welcome, a refusal or a bye."""

    def __init__(self, data, fds):
        (magic, self.kind, _, status, self.version, self.rights, self.lanes, self.slot, self.session, self.token,
         self.extent_bytes, self.arena_bytes, self.session_bytes, self.spin_us, self.incarnation, pool,
         sentence) = struct.unpack(WELCOME_FORMAT, data)
        assert magic == MAGIC
        self.status = STATUS[status]
        self.pool = pool.split(b"\0")[0].decode()
        self.sentence = sentence.split(b"\0")[0].decode()
        self.fds = fds


_ports = []


def free_ports(count, host="127.0.0.1"):
    """Ports for nodes to listen on. They stay bound here, as SO_REUSEADDR lets a node listen nevertheless, and no other
    process is given one: not to bind, and not for a connection of its own."""
    sockets = [socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, 0))
    _ports.extend(sockets)
    return [one.getsockname()[1] for one in sockets]


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(30)
    sock.connect(path)
    return sock


def unread_bytes(sock):
    """What was sent and the other end has not read."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def receive(sock):
    """The next message and its descriptors; b"" at the end of file."""
    fds = array.array("i")
    try:
        data, ancillary, _, _ = sock.recvmsg(512, socket.CMSG_SPACE(250 * 4))
    except ConnectionResetError:  # it left something unread, which is told of once, and before what it said
        data, ancillary, _, _ = sock.recvmsg(512, socket.CMSG_SPACE(250 * 4))
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(value[:len(value) - len(value) % 4])
    return data, list(fds)


def greet(path, data=None):
    """Connects, says hello, returns the socket and the answer (None: the node just closed)."""
    sock = connect(path)
    sock.send(hello() if data is None else data)
    answer, fds = receive(sock)
    return sock, Message(answer, fds) if answer else None


class Session:
    """An open session of a node with any number of lanes; talks to one lane at a time."""

    def __init__(self, path, data=None):
        self.sock, self.welcome = greet(path, data)
        assert self.welcome.status == "NIGH_OK", self.welcome.sentence
        self.memory = mmap.mmap(self.welcome.fds[1], self.welcome.session_bytes)
        self.doorbells = self.welcome.fds[3::2]
        self.tails = [0] * self.welcome.lanes

    def base(self, lane):
        return PAGE + lane * LANE_BYTES

    def put(self, at, value):
        self.memory[at:at + 4] = struct.pack("<I", value & 0xFFFFFFFF)

    def word(self, at):
        return struct.unpack("<I", self.memory[at:at + 4])[0]

    def submit(self, operation, lane=0, cookie=1, flags=0, argument=0, ref=0, offset=0, data_size=0, oid=b"",
               meta_size=0, name_size=0):
        """Writes one submission and rings."""
        base, tail = self.base(lane), self.tails[lane]
        at = base + SQ + tail % RING * 64
        self.memory[at:at + 64] = struct.pack("<BBHI20sIQQQQ", operation, flags, name_size, cookie, oid, meta_size,
                                              offset, data_size, argument, ref)
        self.tails[lane] = tail + 1
        self.put(base + SQ_TAIL, tail + 1)
        self.ring(lane)

    def ring(self, lane=0):
        self.put(self.base(lane) + self.welcome.slot % 64 * 64, 1)
        os.write(self.doorbells[lane], struct.pack("<Q", 1))

    def completions(self, lane=0):
        return self.word(self.base(lane) + CQ_TAIL)

    def wait(self, count, lane=0):
        """Waits until `count` completions were ever published; the last one as (cookie, status)."""
        wait_for(lambda: self.completions(lane) >= count)
        at = self.base(lane) + CQ + (count - 1) % RING * 64
        cookie, status = struct.unpack("<Ii", self.memory[at:at + 8])
        return cookie, STATUS[status]

    def fields(self, count, lane=0):
        """All fields of a completion: cookie, status, offset, data size, meta size, name size, flags, ref, pin,
        generation, lease offset, lease bytes."""
        at = self.base(lane) + CQ + (count - 1) % RING * 64
        return struct.unpack("<IiQQIHHIIQQQ", self.memory[at:at + 64])

    def call(self, operation, lane=0, **fields):
        """Submits, waits and takes the completion."""
        count = self.completions(lane) + 1
        self.submit(operation, lane, **fields)
        answer = self.wait(count, lane)
        self.put(self.base(lane) + CQ_HEAD, count)
        return answer

    def extent(self, number, writable):
        """Asks for an extent: the status and its descriptor or None."""
        self.sock.send(struct.pack("@IHHII", MAGIC, EXTENT, 0, number, writable))
        data, fds = receive(self.sock)
        _, kind, _, status, answered = struct.unpack("@IHHiI", data)
        assert kind == GRANT and answered == number & 0xFFFFFFFF
        return STATUS[status], fds[0] if fds else None

    def read_end(self):
        """What the node says before it closes: a Message, or None for a bare end of file."""
        while True:
            data, fds = receive(self.sock)
            if not data:
                return None
            if struct.unpack("@IHH", data[:8])[1] == BYE:
                return Message(data, fds)

    def close(self):
        """Ends the session."""
        try:
            self.sock.send(struct.pack("@IHH", MAGIC, BYE, 0))
        except OSError:
            pass  # it has ended already
        self.drop()

    def drop(self):
        """Ends the connection without a word."""
        self.sock.close()
        for fd in self.welcome.fds:
            os.close(fd)
        self.memory.close()


def lease(session, count):
    """Memory for questions: its place, as the session names it, and the extent in which it lies, mapped."""
    before = session.completions() + 1
    assert session.call(OP_CALL_LEASE, argument=count)[1] == "NIGH_OK"
    place, each = session.fields(before)[10], session.welcome.extent_bytes
    status, fd = session.extent(place // each, 1)
    assert status == "NIGH_OK", status
    window = mmap.mmap(fd, each)
    os.close(fd)
    return place, window


class RegionSession:
    """A session that asks for regions; its questions, and what they are answered with, lie in places of its own."""

    def __init__(self, path):
        self.session = Session(path)
        self.place = OWN_PLACE
        self.window = mmap.mmap(self.session.welcome.fds[1], PLACES_BYTES, offset=self.session.welcome.session_bytes)

    def ask(self, what, number=0, at=0, question=b"", **fields):
        """How one of regions ends, and the number that it brings."""
        place = self.place % len(self.window)
        self.window[place:place + len(question)] = question
        count = self.session.completions() + 1
        status = self.session.call(OP_REGION, name_size=what, oid=struct.pack("<QQI", number, at, 0), offset=self.place,
                                   argument=10 ** 7, data_size=len(question), **fields)[1]
        return status, self.session.fields(count)[9]

    def create(self, name, size):
        return self.ask(REGION_CREATE, question=struct.pack("<QQIIII", size, 0, 0, 0, 0, 0) + name)[0]

    def open(self, name, rights):
        """A handle."""
        status, number = self.ask(REGION_OPEN, at=rights, question=name)
        assert status == "NIGH_OK", status
        return number


def wait_for(condition, seconds=20):
    """Waits until a condition holds; fails the test when it does not, in so many seconds, or what a busy machine makes of them."""
    end = time.monotonic() + seconds * BUSY_TIMES
    while not condition():
        assert time.monotonic() < end, "a condition did not come to hold"
        select.select([], [], [], 0.001)


def is_stopped(pid):
    """Whether all threads of a process stand still."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


def halt(process):
    """Stops a process. A thread that runs goes on for a moment after the signal was sent: until none does."""
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: is_stopped(process.pid))


class Node:
    """A nighd of its own, in a folder of its own."""

    running = []

    def __init__(self, *flags, memory="64M", before_exec=None):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        os.chmod(self.folder.name, 0o755)
        self.path = os.path.join(self.folder.name, "s")
        ready, tell = os.pipe()
        self.process = subprocess.Popen(
            [os.environ["NIGHD"], "--memory", memory, "--socket", self.path, "--ready-fd", str(tell), *flags],
            pass_fds=[tell], stderr=subprocess.PIPE, preexec_fn=before_exec)
        Node.running.append(self.process)
        os.close(tell)
        with os.fdopen(ready) as pipe:
            self.ready = pipe.readline() == "ready\n"

    def stop(self):
        """Stops the node; returns its exit code and what it said."""
        self.process.terminate()
        Node.running.remove(self.process)
        said = self.process.communicate(timeout=30)[1].decode()
        self.folder.cleanup()
        return self.process.returncode, said


class Skipped(Exception):
    """A test cannot say anything on this machine: why."""


def kill_children():
    """Who failed may have left processes: whoever reads what this one prints would wait for them, too."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass  # it has ended


def run_tests(names):
    """Runs the functions of a module whose names begin with test_, those that match $NIGH_TEST, and there must be one;
    prints TAP-like lines; returns an exit code."""
    failed = 0
    wanted = os.environ.get("NIGH_TEST", "*")
    chosen = {name: function for name, function in names.items()
              if name.startswith("test_") and fnmatch.fnmatch(name[5:].replace("_", " "), wanted)}
    if not chosen:
        print("not ok: no test matches NIGH_TEST:", wanted, flush=True)
        return 1
    for name, function in chosen.items():
        try:
            function()
            print("ok", name[5:].replace("_", " "), flush=True)
        except Skipped as why:
            print("skipped", name[5:].replace("_", " ") + ":", why, flush=True)
        except Exception:  # every failure is to be seen, of whatever kind
            traceback.print_exc()
            print("not ok", name[5:].replace("_", " "), flush=True)
            failed += 1
        for process in Node.running:
            process.kill()
            process.communicate()
        Node.running.clear()
    if failed:
        kill_children()
    return 1 if failed else 0
