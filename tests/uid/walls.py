#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What another uid can do to objects, with real uids, one of them hostile: nothing beyond what the pool's mode says,
whatever it does with the descriptors and mappings that it was given or with files of other processes in /proc.

Needs root, to become other uids. Each wall is tried against a nighd of root and against one of a uid of its own."""
import ctypes
import errno
import fcntl
import http.client
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "system"))
import raw_session as raw  # noqa: E402
from raw_session import Session, greet, hello, wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402

SKIPPED = 77
NODE_UID, WRITER, READER, TEAM, STRANGER = 61000, 61001, 61002, 61100, 61003
OP_DELETE, OP_CHECKSUM, OP_RESERVE = 8, 13, 22
MAP_ASK, MAP = 12, 13
OP_SPACE, SPACE_ASK, SPACE_FILE = 40, 17, 18
(SPACE_CREATE, SPACE_OPEN, SPACE_CLOSE, SPACE_DELETE, SPACE_STAT, SPACE_LIST, SPACE_WINDOW, SPACE_WINDOW_END, SPACE_COUNT) = range(1, 10)
# Of a window's records.
(RECORD_WRITE, RECORD_UNLOCK, RECORD_READ, RECORD_ADD, RECORD_EXCHANGE, RECORD_SWAP, RECORD_LOCK_WRITE, RECORD_TRY_LOCK_WRITE,
 RECORD_FLUSH, RECORD_ALLOC, RECORD_FREE) = (1, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14)
LEASED = 1
PATTERN = bytes(range(256)) * 64
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1033, 1, 2, 4, 8
PUNCH_HOLE, KEEP_SIZE, MADV_REMOVE, PR_SET_DUMPABLE = 2, 1, 9, 4
SYS_PTRACE, SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = {"x86_64": (101, 434, 438)}.get(os.uname().machine, (117, 434, 438))
POOLS = """
[pool private]
owner = 61001
group = 61100
mode = 0600
[pool grouped]
owner = 61001
group = 61100
mode = 0640
[pool shared]
owner = 61001
group = 61100
mode = 0644
[pool team]
owner = 61001
group = 61100
mode = 0660
[pool everyone]
owner = 61001
group = 61100
mode = 0666
[pool strict]
owner = 61001
group = 61100
mode = 0644
strict = yes
"""

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.syscall.restype = ctypes.c_long


# ---- processes of other uids


def become(uid, gid):
    os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # As after a login: a change of uid alone would close the process's files in /proc, even to itself.
    assert libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0


class Node(raw.Node):
    """A nighd of a uid, with the pools above."""

    def __init__(self, uid=0, memory="64M", flags=()):
        self.owner = uid
        self.config = tempfile.NamedTemporaryFile("w", prefix="nigh-", suffix=".ini")
        self.config.write(POOLS)
        self.config.flush()
        os.chmod(self.config.name, 0o644)
        folder_of = tempfile.TemporaryDirectory

        def owned(*args, **more):
            folder = folder_of(*args, **more)
            os.chown(folder.name, uid, uid)
            return folder

        tempfile.TemporaryDirectory = owned
        try:
            super().__init__("--config", self.config.name, "--space-memory", "16M", *flags, memory=memory,
                             before_exec=(lambda: become(uid, uid)) if uid else None)
        finally:
            tempfile.TemporaryDirectory = folder_of
        assert self.ready

    @property
    def pid(self):
        return self.process.pid


def as_uid(uid, gid, body):
    """Runs body in a child of another uid: what it returned, through JSON. Its exceptions fail the test."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(uid, gid)
            os.write(write, json.dumps(body()).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
    return json.loads(said)


class Actor:
    """A process of another uid that runs body and stays; body returns what the test has to know, and may return a
    second function, which runs when the test says go."""

    def __init__(self, uid, gid, body):
        read, write = os.pipe()
        wait, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(tell)
                become(uid, gid)
                said, after = body()
                os.write(write, json.dumps(said).encode() + b"\n")
                if os.read(wait, 1) and after is not None:
                    os.write(write, json.dumps(after()).encode() + b"\n")
                os.read(wait, 1)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(write)
        os.close(wait)
        self.pipe, self.tell = os.fdopen(read), tell
        self.said = json.loads(self.pipe.readline() or "null")
        assert self.said is not None, "the child failed"

    def go(self):
        os.write(self.tell, b"g")
        said = self.pipe.readline()
        assert said, "the child failed"
        return json.loads(said)

    def end(self):
        os.close(self.tell)
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0
        self.pipe.close()


# ---- objects by hand


class Owner:
    """A session that writes: a lease, its extent mapped for writing, objects sealed from it."""

    def __init__(self, path, pool):
        self.session = Session(path, hello(pool=pool))
        assert self.session.welcome.rights == raw.WRITES
        self.each = self.session.welcome.extent_bytes
        count = self.session.completions() + 1
        assert self.session.call(raw.OP_LEASE, argument=1 << 18)[1] == "NIGH_OK"
        self.at, self.left = self.session.fields(count)[10:12]
        assert self.left > 0
        status, self.fd = self.session.extent(self.at // self.each, 1)
        assert status == "NIGH_OK"
        self.window = mmap.mmap(self.fd, self.each)

    def write(self, data):
        """Bytes at the front of the lease; where they are in the extent."""
        place = self.at % self.each
        self.window[place:place + len(data)] = data
        return place

    def put(self, oid, data):
        place = self.write(data)
        answer = self.session.call(raw.OP_SEAL, flags=LEASED, offset=self.at, data_size=len(data), oid=oid)
        assert answer[1] == "NIGH_OK", answer
        self.at += (len(data) + 63) // 64 * 64
        return place


class Guest:
    """A session that reads: an object got, and its extent mapped."""

    def __init__(self, path, pool, oid):
        self.session = Session(path, hello(pool=pool))
        self.each = self.session.welcome.extent_bytes
        count = self.session.completions() + 1
        assert self.session.call(raw.OP_GET, oid=oid, argument=5000000)[1] == "NIGH_OK"
        _, _, self.offset, self.size = self.session.fields(count)[:4]
        self.number = self.offset // self.each
        status, self.fd = self.session.extent(self.number, 0)
        assert status == "NIGH_OK", status
        self.window = mmap.mmap(self.fd, self.each, prot=mmap.PROT_READ)

    def read(self):
        place = self.offset % self.each
        return self.window[place:place + self.size]


def fails(wanted, call, *arguments):
    """The call must be refused, with one of the wanted errors."""
    try:
        result = call(*arguments)
    except (OSError, ValueError) as error:
        assert error.errno in wanted, (call, arguments, error)
        return
    raise AssertionError(f"{call} {arguments} was let through: {result}")


def system(function, *arguments):
    """A function of libc that is -1 on failure, as Python's own fail."""
    result = function(*arguments)
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "refused")
    return result


def call_by_number(number, *arguments):
    return system(libc.syscall, ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])


def in_both(test):
    """Against a nighd of root, and of a uid of its own."""

    def wrapped():
        for uid in (0, NODE_UID):
            node = Node(uid)
            test(node)
            assert node.process.poll() is None, "nighd still runs"
            assert node.stop()[0] == 0

    wrapped.__name__ = test.__name__
    return wrapped


def with_shared_object(test):
    """The test's body gets a guest of another uid in its own process, and its result; afterwards the object is what
    it was, for the guest and for the owner."""

    def body(node):
        oid = b"walls".ljust(20)

        def own():
            owner = Owner(node.path, b"shared")
            place = owner.put(oid, PATTERN)
            return os.getpid(), lambda: owner.window[place:place + len(PATTERN)] == PATTERN

        def visit():
            guest = Guest(node.path, b"shared", oid)
            assert guest.read() == PATTERN
            test(node, guest, owner.said)
            assert guest.read() == PATTERN, "the bytes are what they were"

        owner = Actor(WRITER, WRITER, own)
        try:
            as_uid(READER, READER, visit)
            assert owner.go(), "the owner's bytes are what they were"
        finally:
            owner.end()

    body.__name__ = test.__name__
    return in_both(body)


def read_only_files(guest):
    """What a reader is given: an extent, the node page, an index."""
    return [guest.fd, guest.session.welcome.fds[0], guest.session.welcome.fds[2]]


# ---- pools


@in_both
def test_nobody_attaches_to_anothers_own_pool(node):
    mine = Actor(WRITER, WRITER, lambda: (Session(node.path).welcome.pool, None))
    assert mine.said == f"uid-{WRITER}"

    def stranger():
        return greet(node.path, hello(pool=f"uid-{WRITER}".encode()))[1].status

    assert as_uid(READER, READER, stranger) == "NIGH_DENIED"
    assert as_uid(READER, WRITER, stranger) == "NIGH_DENIED", "nor with its group"
    mine.end()


@in_both
def test_modes_of_pools(node):
    """Each pool, for its owner, a member of its group, and others: refused, reads, writes."""
    table = {"private": "w..", "grouped": "wr.", "shared": "wrr", "team": "ww.", "everyone": "www"}

    def rights():
        answers = {}
        for pool in table:
            answer = greet(node.path, hello(pool=pool.encode()))[1]
            answers[pool] = ("w" if answer.rights == raw.WRITES else "r") if answer.status == "NIGH_OK" else "."
            assert answer.status in ("NIGH_OK", "NIGH_DENIED")
        return answers

    who = ((WRITER, WRITER), (READER, TEAM), (STRANGER, STRANGER))
    for place, (uid, gid) in enumerate(who):
        for pool, letter in as_uid(uid, gid, rights).items():
            assert letter == table[pool][place], (pool, uid, gid, letter)


@in_both
def test_who_may_only_read_cannot_write_through_the_protocol(node):
    def attempt():
        session = Session(node.path, hello(pool=b"shared"))
        assert session.welcome.rights == raw.READS
        for operation in (raw.OP_LEASE, raw.OP_CREATE, raw.OP_SEAL, OP_RESERVE):
            answer = session.call(operation, argument=1 << 18, data_size=100, oid=b"x" * 20)[1]
            assert answer != "NIGH_OK", operation
        return True

    assert as_uid(READER, READER, attempt)


@with_shared_object
def test_a_reader_cannot_delete(node, guest, owner_pid):
    assert guest.session.call(OP_DELETE, oid=b"walls".ljust(20))[1] == "NIGH_DENIED"


@with_shared_object
def test_extents_for_writing_are_not_granted_to_readers(node, guest, owner_pid):
    answers = {guest.session.extent(number, 1)[0] for number in [*range(256), 4095, 4096, 2**31, 2**32 - 1]}
    assert "NIGH_DENIED" in answers and answers <= {"NIGH_DENIED", "NIGH_NOT_FOUND", "NIGH_INVALID"}, answers


@with_shared_object
def test_extents_of_other_pools_are_not_granted(node, guest, owner_pid):
    other = Session(node.path, hello(pool=b"everyone"))
    own = Session(node.path)
    for session in (other, own):
        for number in range(256):
            for writable in (0, 1):
                status, fd = session.extent(number, writable)
                if fd is not None:
                    assert os.fstat(fd).st_ino != os.fstat(guest.fd).st_ino, (number, writable)
                    os.close(fd)
        assert session.extent(guest.number, 0)[0] == "NIGH_DENIED"
        assert session.extent(guest.number, 1)[0] == "NIGH_DENIED"


@in_both
def test_a_writer_of_another_uid_gets_no_write_access_to_my_extents(node):
    oid = b"team".ljust(20)
    mine = Actor(WRITER, TEAM, lambda: (Owner(node.path, b"team").put(oid, PATTERN), None))

    def colleague():
        guest = Guest(node.path, b"team", oid)
        assert guest.session.welcome.rights == raw.WRITES and guest.read() == PATTERN
        assert guest.session.extent(guest.number, 1)[0] == "NIGH_DENIED"
        own = Owner(node.path, b"team")
        assert os.fstat(own.fd).st_ino != os.fstat(guest.fd).st_ino
        own.put(b"theirs".ljust(20), PATTERN)
        return True

    assert as_uid(READER, TEAM, colleague)
    mine.end()


# ---- descriptors


@with_shared_object
def test_reopening_descriptors(node, guest, owner_pid):
    for fd in read_only_files(guest):
        for path in (f"/proc/self/fd/{fd}", f"/proc/thread-self/fd/{fd}", f"/dev/fd/{fd}"):
            for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
                fails([errno.EACCES], os.open, path, flags)
            fails([errno.EACCES], os.truncate, path, 0)


@with_shared_object
def test_reopening_what_is_mapped(node, guest, owner_pid):
    for name in os.listdir("/proc/self/map_files"):
        path = f"/proc/self/map_files/{name}"
        try:
            if "memfd" in os.readlink(path):
                fails([errno.EACCES, errno.EPERM], os.open, path, os.O_RDWR)
        except OSError as error:
            assert error.errno in (errno.EPERM, errno.ENOENT)


@with_shared_object
def test_changing_modes_and_owners(node, guest, owner_pid):
    for fd in read_only_files(guest):
        fails([errno.EPERM], os.fchmod, fd, 0o666)
        fails([errno.EPERM], os.chmod, f"/proc/self/fd/{fd}", 0o666)
        fails([errno.EPERM], os.fchown, fd, READER, READER)


@with_shared_object
def test_writing_and_resizing_descriptors(node, guest, owner_pid):
    read, write = os.pipe()
    os.write(write, b"x" * 100)
    for fd in read_only_files(guest):
        fails([errno.EBADF], os.pwrite, fd, b"x", 0)
        fails([errno.EBADF, errno.EINVAL], os.ftruncate, fd, 0)
        fails([errno.EBADF], os.posix_fallocate, fd, 0, 4096)
        fails([errno.EBADF], system, libc.fallocate, fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0),
              ctypes.c_long(4096))
        fails([errno.EBADF], os.splice, read, fd, 100)
        fails([errno.EBADF], os.copy_file_range, guest.fd, fd, 4096)
        fails([errno.EBADF], os.sendfile, fd, guest.fd, 0, 4096)


@with_shared_object
def test_sealing_descriptors(node, guest, owner_pid):
    for fd in read_only_files(guest):
        for seal in (F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SEAL):
            fails([errno.EPERM], fcntl.fcntl, fd, F_ADD_SEALS, seal)


# ---- mappings


def address_of(guest, fd, size):
    return system(libc.mmap, None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)


@with_shared_object
def test_making_mappings_writable(node, guest, owner_pid):
    for fd in read_only_files(guest):
        fails([errno.EACCES], system, libc.mmap, None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        at = ctypes.c_void_p(address_of(guest, fd, 4096))
        for protection in (mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_WRITE):
            fails([errno.EACCES], system, libc.mprotect, at, ctypes.c_size_t(4096), protection)


@with_shared_object
def test_punching_holes_through_mappings(node, guest, owner_pid):
    for fd in read_only_files(guest):
        at = ctypes.c_void_p(address_of(guest, fd, 4096))
        fails([errno.EACCES], system, libc.madvise, at, ctypes.c_size_t(4096), MADV_REMOVE)


@with_shared_object
def test_writing_mappings_through_proc_self_mem(node, guest, owner_pid):
    for fd in read_only_files(guest):
        at = address_of(guest, fd, guest.each if fd == guest.fd else 4096)
        was = ctypes.string_at(at, 4096)
        mem = os.open("/proc/self/mem", os.O_RDWR)
        fails([errno.EIO, errno.EFAULT], os.pwrite, mem, b"overwritten", at)
        if fd == guest.fd:
            fails([errno.EIO, errno.EFAULT], os.pwrite, mem, b"overwritten", at + guest.offset % guest.each)
        os.close(mem)
        assert ctypes.string_at(at, 4096) == was


@with_shared_object
def test_private_mappings_change_nothing(node, guest, owner_pid):
    at = system(libc.mmap, None, guest.each, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, guest.fd, 0)
    ctypes.memset(at + guest.offset % guest.each, 0, 4096)


# ---- other processes


@with_shared_object
def test_files_of_other_processes(node, guest, owner_pid):
    for pid in (node.pid, owner_pid):
        for name in ("fd", "map_files"):
            fails([errno.EACCES, errno.EPERM], os.listdir, f"/proc/{pid}/{name}")
        for fd in range(64):
            fails([errno.EACCES, errno.EPERM, errno.ENOENT], os.open, f"/proc/{pid}/fd/{fd}", os.O_RDWR)
        for flags in (os.O_RDONLY, os.O_RDWR):
            fails([errno.EACCES, errno.EPERM], os.open, f"/proc/{pid}/mem", flags)


@with_shared_object
def test_memory_and_descriptors_of_other_processes(node, guest, owner_pid):
    buffer = ctypes.create_string_buffer(64)

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    here = Piece(ctypes.addressof(buffer), 64)
    there = Piece(guest.session.welcome.slot + 0x10000, 64)
    for pid in (node.pid, owner_pid):
        for function in (libc.process_vm_writev, libc.process_vm_readv):
            fails([errno.EPERM], system, function, pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there),
                  ctypes.c_ulong(1), ctypes.c_ulong(0))
        handle = call_by_number(SYS_PIDFD_OPEN, pid, 0)
        for fd in range(16):
            fails([errno.EPERM], call_by_number, SYS_PIDFD_GETFD, handle, fd, 0)
        os.close(handle)
        fails([errno.EPERM], call_by_number, SYS_PTRACE, 0x4206, pid, 0, 0)
        fails([errno.EPERM], os.kill, pid, 0)


# ---- what a writer may do to its own


@in_both
def test_a_writer_cannot_resize_or_seal_its_extents(node):
    def attempt():
        owner = Owner(node.path, b"shared")
        for fd in (owner.fd, owner.session.welcome.fds[1]):
            size = os.fstat(fd).st_size
            for length in (0, 4096, size - 1, size + 1, size * 2):
                fails([errno.EPERM], os.ftruncate, fd, length)
            fails([errno.EPERM], os.posix_fallocate, fd, size, 4096)
            for seal in (F_SEAL_WRITE, F_SEAL_SEAL, 16):
                fails([errno.EPERM], fcntl.fcntl, fd, F_ADD_SEALS, seal)
            fails([errno.EPERM], os.fchmod, fd, 0o666)
            assert os.fstat(fd).st_size == size
        return True

    assert as_uid(WRITER, WRITER, attempt)


@in_both
def test_who_leases_all_it_can_leaves_leases_to_others(node):
    """However many sessions a user has: another's have some of what leases may take."""
    kept = []

    def lease_all():
        status = "NIGH_OK"
        while status == "NIGH_OK":
            kept.append(Session(node.path, hello(pool=b"everyone")))
            status = [kept[-1].call(raw.OP_CALL_LEASE, argument=1 << 18)[1] for _ in range(4)][0]
        return len(kept), None

    def lease():
        session = Session(node.path, hello(pool=b"everyone"))
        return session.call(raw.OP_CALL_LEASE, argument=1 << 18)[1]

    greedy = Actor(WRITER, WRITER, lease_all)
    assert greedy.said > 4, greedy.said
    assert as_uid(WRITER, WRITER, lease) == "NIGH_OUT_OF_MEMORY"
    assert as_uid(READER, READER, lease) == "NIGH_OK"
    greedy.end()


@in_both
def test_holes_in_ones_own_memory_hurt_nobody(node):
    """A writer may tear its own pages out, of the extent and of the session's memory: the node goes on."""
    oid = b"torn".ljust(20)

    def attempt():
        owner = Owner(node.path, b"shared")
        owner.put(oid, PATTERN)
        for fd in (owner.fd, owner.session.welcome.fds[1]):
            size = os.fstat(fd).st_size
            system(libc.fallocate, fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))
        witness = Session(node.path, hello(pool=b"shared"))
        return witness.call(OP_CHECKSUM, oid=oid)[1]

    assert as_uid(WRITER, WRITER, attempt) == "NIGH_OK"
    assert as_uid(READER, READER, lambda: Session(node.path).call(raw.OP_NOP)[1]) == "NIGH_OK"


@in_both
def test_a_strict_pool_keeps_what_was_sealed(node):
    """A writer keeps its mapping. In a strict pool that is of no use; elsewhere its own objects are its own."""
    for pool, keeps in ((b"strict", True), (b"shared", False)):
        oid = b"kept".ljust(20)

        def own(pool=pool, oid=oid):
            owner = Owner(node.path, pool)
            place = owner.put(oid, PATTERN)

            def overwrite():
                owner.window[:] = b"\xee" * owner.each
                return place >= 0

            return True, overwrite

        def read(pool=pool, oid=oid):
            return Guest(node.path, pool, oid).read() == PATTERN

        owner = Actor(WRITER, WRITER, own)
        assert as_uid(READER, READER, read)
        assert owner.go()
        assert as_uid(READER, READER, read) == keeps, pool
        owner.end()


@in_both
def test_in_a_strict_pool_the_bytes_lie_where_no_client_writes(node):
    oid = b"kept".ljust(20)
    owner = Actor(WRITER, WRITER, lambda: (Owner(node.path, b"strict").put(oid, PATTERN), None))

    def attempt():
        guest = Guest(node.path, b"strict", oid)
        return guest.session.extent(guest.number, 1)[0]

    assert as_uid(WRITER, WRITER, attempt) == "NIGH_DENIED"
    owner.end()


# ---- memory that goes from one uid to another


def fill(path, pool, share):
    """Leases until nothing more comes; the inodes of all extents that may be written."""
    session = Session(path, hello(pool=pool))
    for _ in range(200):
        if session.call(raw.OP_CREATE, data_size=1 << 20, oid=os.urandom(20))[1] != "NIGH_OK":
            break
    files = []
    for number in range(4096):
        status, fd = session.extent(number, 1)
        if status == "NIGH_NOT_FOUND":
            break
        if fd is not None:
            files.append(fd)
    assert len(files) >= share, len(files)
    return session, files


def test_memory_that_one_uid_could_write_is_never_anothers():
    """One uid takes all memory, keeps the descriptors and goes; what another uid then gets is other memory."""
    node = Node(memory="32M")

    def first():
        session, files = fill(node.path, b"", 8)
        inodes = [os.fstat(fd).st_ino for fd in files]
        for fd in files:
            window = mmap.mmap(fd, session.welcome.extent_bytes)
            window[:] = b"\xaa" * len(window)
        session.sock.close()
        return inodes, None

    def second():
        try:
            session, files = fill(node.path, b"", 1)
        except AssertionError:
            return None
        for fd in files:
            window = mmap.mmap(fd, session.welcome.extent_bytes)
            assert b"\xaa" not in window, "nobody's old bytes"
        return [os.fstat(fd).st_ino for fd in files]

    one = Actor(WRITER, WRITER, first)
    tries = []
    wait_for(lambda: tries.append(as_uid(READER, READER, second)) or tries[-1] is not None)
    other = tries[-1]
    assert other and not set(other) & set(one.said)
    one.end()
    assert node.stop()[0] == 0


# ---- regions that are mapped


class Mapper:
    """A process of another uid that has a region open, and maps it (map_user.c)."""

    def __init__(self, node, uid, rights):
        self.process = subprocess.Popen([os.environ["MAP_USER"], node.path, "r", str(rights)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, preexec_fn=lambda: become(uid, uid))
        self.opened = self.process.stdout.readline().strip()

    def hears(self):
        return self.process.stdout.readline().strip()

    def does(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.hears()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def change_region(node, uid, *arguments):
    """Of a node of a cluster: once it has a lease."""
    done = []

    def has_lease():
        done[:] = [subprocess.run([os.environ["NIGH"], "region", *arguments, "--socket", node.path], capture_output=True,
                                  preexec_fn=lambda: become(uid, uid))]
        return b"cut off" not in done[0].stderr

    wait_for(has_lease)
    assert done[0].returncode == 0, done[0].stderr


def mapped_by(node, rights):
    """A region of WRITER's, that READER has these rights to, and what either has open."""
    change_region(node, WRITER, "create", "r", "64K", "--mappable")
    change_region(node, WRITER, "chmod", "r", f"u:{READER}+{rights}")
    owner, reader = Mapper(node, WRITER, 3), Mapper(node, READER, 3 if "w" in rights else 1)
    assert owner.opened == reader.opened == "NIGH_OK"
    assert owner.does("map 0 0 3") == "NIGH_OK"
    return owner, reader


@in_both
def test_who_may_read_a_region_maps_it_and_cannot_write_it(node):
    owner, reader = mapped_by(node, "r")
    assert Mapper(node, READER, 3).opened == "NIGH_DENIED"
    assert Mapper(node, STRANGER, 1).opened == "NIGH_DENIED"
    assert reader.does("map 0 0 3") == "NIGH_DENIED"
    assert owner.does("poke 8 7") == "NIGH_OK"
    assert reader.does("map 0 0 1") == "NIGH_OK"
    assert reader.does("peek 8") == "7"
    assert reader.does("mode") == "r-"
    assert owner.does("mode") == "rw"
    assert reader.does("force") == "refused"
    assert reader.does("punch") != "NIGH_OK"
    assert owner.does("peek 8") == "7"
    owner.end()
    reader.end()


class RawMap(raw.RegionSession):
    """A session that asks by hand: a region opened, a chunk of it mapped to be read, and the descriptor of that."""

    def __init__(self, path, rights):
        super().__init__(path)
        self.handle = self.open(b"r", rights)

    def descriptor(self, number):
        self.session.sock.send(struct.pack("@IHHiIQ", raw.MAGIC, MAP_ASK, 0, 0, 0, number))
        data, fds = raw.receive(self.session.sock)
        _, kind, _, status, _, answered = struct.unpack("@IHHiIQ", data)
        assert kind == MAP and answered == number
        return raw.STATUS[status], fds[0] if fds else None


def attack_map(node):
    """Of a user who may read."""
    guest = RawMap(node.path, 1)
    assert guest.ask(raw.REGION_MAP, guest.handle, ref=8, flags=1)[0] == "NIGH_DENIED"
    status, number = guest.ask(raw.REGION_MAP, guest.handle, ref=8)
    assert status == "NIGH_OK", status
    assert guest.descriptor(number + 1)[0] == "NIGH_NOT_FOUND"
    assert RawMap(node.path, 1).descriptor(number)[0] == "NIGH_NOT_FOUND", "of another session, though of the same uid"
    status, fd = guest.descriptor(number)
    assert status == "NIGH_OK"
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
        fails([errno.EACCES], os.open, f"/proc/self/fd/{fd}", flags)
    fails([errno.EACCES], os.truncate, f"/proc/self/fd/{fd}", 0)
    fails([errno.EPERM], os.fchmod, fd, 0o666)
    fails([errno.EPERM], os.fchown, fd, READER, READER)
    fails([errno.EBADF], os.pwrite, fd, b"x", 0)
    fails([errno.EBADF, errno.EINVAL], os.ftruncate, fd, 0)
    fails([errno.EBADF], system, libc.fallocate, fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(4096))
    fails([errno.EPERM], fcntl.fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE)
    fails([errno.EACCES], system, libc.mmap, None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    return guest.ask(raw.REGION_UNMAP, number)[0] == "NIGH_OK"


@in_both
def test_a_descriptor_of_a_region_is_as_its_rights_say(node):
    """What the socket brings, not only what libnigh makes of it: no reopening, chmod, chown, resizing or sealing."""
    change_region(node, WRITER, "create", "r", "64K", "--mappable", "--others", "r")
    assert as_uid(READER, READER, lambda: attack_map(node))


@in_both
def test_a_revoke_parts_who_has_it_mapped_from_the_region(node):
    owner, reader = mapped_by(node, "rw")
    assert reader.does("map 0 0 3") == "NIGH_OK"
    assert reader.does("poke 8 1") == "NIGH_OK"
    assert owner.does("peek 8") == "1"
    change_region(node, WRITER, "chmod", "r", f"u:{READER}-w")
    assert reader.does("poke 8 2") == "NIGH_OK"
    assert owner.does("read 8") == "NIGH_STALE", "it has the same old memory"
    assert owner.does("unmap") == "NIGH_STALE"
    assert owner.does("read 8") == "1"
    assert owner.does("map 0 0 3") == "NIGH_OK"
    assert owner.does("poke 8 3") == "NIGH_OK"
    assert owner.does("read 8") == "3"
    assert reader.does("peek 8") == "2", "nothing of what is written afterwards"
    assert reader.does("write 8 4") == "NIGH_DENIED"
    assert reader.does("unmap") == "NIGH_STALE"
    assert reader.does("map 0 0 3") == "NIGH_DENIED"
    change_region(node, WRITER, "chmod", "r", f"u:{READER}-r")
    owner.end()
    reader.end()


def test_a_revoke_ends_what_is_under_way_at_another_node():
    """Of a user that writes without end from there: when it is acknowledged nothing more lands, though that node went on or stood
    still meanwhile, and the user hears of it."""
    for stands_still in (False, True):
        cluster = Voters(2, dead_ms=10000)
        os.chmod(cluster.folder.name, 0o755)
        wait_for(cluster.agrees)
        near, far = (types.SimpleNamespace(path=cluster.socket(rank)) for rank in range(2))
        change_region(near, WRITER, "create", "r", "64K")
        change_region(near, WRITER, "chmod", "r", f"u:{READER}+rw")
        owner, writer = Mapper(near, WRITER, 3), Mapper(far, READER, 3)
        assert owner.opened == writer.opened == "NIGH_OK"
        assert writer.does("flood 8") == "floods"
        assert int(owner.does("read 8")) > 0
        if stands_still:
            raw.halt(cluster.processes[1])
        change_region(near, WRITER, "chmod", "r", f"u:{READER}-w")
        last = owner.does("read 8")
        assert int(last) > 0
        assert {owner.does("read 8") for _ in range(20)} == {last}
        if stands_still:
            cluster.stop(1, False)
        assert writer.hears() == "NIGH_DENIED"
        assert {owner.does("read 8") for _ in range(20)} == {last}
        assert writer.does("write 8 1") == "NIGH_DENIED"
        assert writer.does("read 8") == last
        owner.end()
        writer.end()
        cluster.close()


@in_both
def test_holes_in_a_region_that_is_mapped_hurt_nobody_else(node):
    """Who may write it may as well tear its pages out: they are zero, and the node goes on."""
    owner, reader = mapped_by(node, "rw")
    assert owner.does("write 8 7") == "NIGH_OK"
    assert reader.does("map 0 0 3") == "NIGH_OK"
    assert reader.does("punch") == "NIGH_OK"
    assert owner.does("read 8") == "0"
    assert owner.does("write 8 9") == "NIGH_OK"
    assert reader.does("peek 8") == "9"
    owner.end()
    reader.end()


# ---- spaces


class RawSpaces:
    """A session that asks for spaces by hand, and has one window."""

    def __init__(self, path, flags=0):
        self.session = Session(path, hello(flags=flags))
        self.places = mmap.mmap(self.session.welcome.fds[1], raw.PLACES_BYTES, offset=self.session.welcome.session_bytes)
        self.window, self.tail, self.sequence = None, 0, 0

    def ask(self, what, question=b"", number=0, argument=0):
        """How it ends, the number that it brings, and what is answered."""
        self.places[:len(question)] = question
        count = self.session.completions() + 1
        status = self.session.call(OP_SPACE, name_size=what, oid=struct.pack("<QQI", number, argument, 0), offset=raw.OWN_PLACE,
                                   argument=10 ** 7, data_size=len(question))[1]
        fields = self.session.fields(count)
        return status, fields[9], self.places[:fields[3]]

    def create(self, name, group=0, others=0):
        return self.ask(SPACE_CREATE, struct.pack("<QQIIII", 1 << 16, 0, 0, 0, group, others) + name)[0]

    def open(self, name, rights):
        """Its number, and those of its files."""
        status, number, said = self.ask(SPACE_OPEN, name, argument=rights)
        assert status == "NIGH_OK", status
        return number, *struct.unpack("<QQ", said[128:144])

    def names(self):
        status, _, said = self.ask(SPACE_LIST)
        assert status == "NIGH_OK", status
        count = struct.unpack("<I", said[:4])[0]
        return [said[8 + 128 * n + 80:8 + 128 * (n + 1)].rstrip(b"\0").decode() for n in range(count)]

    def file(self, number):
        self.session.sock.send(struct.pack("@IHHiIQ", raw.MAGIC, SPACE_ASK, 0, 0, 0, number))
        data, fds = raw.receive(self.session.sock)
        _, kind, _, status, _, answered = struct.unpack("@IHHiIQ", data)
        assert kind == SPACE_FILE and answered == number and len(fds) == (raw.STATUS[status] == "NIGH_OK")
        return raw.STATUS[status], fds[0] if fds else None

    def make_window(self):
        """The number of its file."""
        status, number, _ = self.ask(SPACE_WINDOW)
        assert status == "NIGH_OK", status
        status, fd = self.file(number)
        assert status == "NIGH_OK", status
        self.window = mmap.mmap(fd, os.fstat(fd).st_size)
        os.close(fd)
        return number

    def say(self, kind, space, address, more=b"", length=0):
        record = struct.pack("<QQ", space << 32 | length << 16 | kind, address) + more
        for n in range(0, len(record), 8):
            at = 8192 + (self.tail + n) % 32768
            self.window[at:at + 8] = record[n:n + 8]
        self.tail += len(record)
        self.window[0:8] = struct.pack("<Q", self.tail)
        self.session.ring()

    def put(self, space, address, word):
        """A word is written: how, as a flush says."""
        failed = self.window[768:772]
        self.say(RECORD_WRITE, space, address, word + bytes(8), len(word))
        assert self.question(RECORD_FLUSH, space, 0)[0] in ("NIGH_OK", "NIGH_CLOSED", "NIGH_NOT_FOUND")
        return "NIGH_OK" if self.window[768:772] == failed else raw.STATUS[struct.unpack("<i", self.window[772:776])[0]]

    def question(self, kind, space, address, operand=0):
        """What has an answer: how it ends, and the value; of READ the word."""
        self.sequence += 1
        more = struct.pack("<QQ", 10 ** 7, self.sequence)
        if kind in (RECORD_ADD, RECORD_EXCHANGE, RECORD_SWAP, RECORD_ALLOC):
            more += struct.pack("<QQ", operand, 0)
        self.say(kind, space, address, more, 8 if kind in range(RECORD_READ, RECORD_SWAP + 1) else 0)
        wait_for(lambda: struct.unpack("<I", self.window[640:644])[0] == self.sequence)
        status, value = struct.unpack("<iQ", self.window[644:656])
        return raw.STATUS[status], struct.unpack("<Q", self.window[4096:4104])[0] if kind == RECORD_READ else value


SECRET = struct.unpack("<Q", b"a secret")[0]


def owner_of_spaces(path):
    """One for its user alone, and one that all may read; a secret in each, and every number that it was told."""
    owner = RawSpaces(path)
    assert owner.create(b"private") == owner.create(b"readable", others=1) == "NIGH_OK"
    numbers, at = {"window": owner.make_window()}, {}
    for name in (b"private", b"readable"):
        space, cache, home = owner.open(name, 3)
        numbers.update({name.decode(): space, name.decode() + " cache": cache, name.decode() + " home": home})
        status, at[name.decode()] = owner.question(RECORD_ALLOC, space, 0, 8)
        assert status == "NIGH_OK", status
        assert owner.put(space, at[name.decode()], struct.pack("<Q", SECRET + (name == b"readable"))) == "NIGH_OK"

    def look():
        return [owner.question(RECORD_READ, numbers[name], at[name])[1] for name in ("private", "readable")] + [
            owner.file(numbers["private home"])[0]]

    return (numbers, at), look


def attack_a_private_space(node, numbers, at):
    guest = RawSpaces(node.path)
    guest.make_window()
    # Numbers of another session, and such as any would have.
    guesses = set(numbers.values()) | {uses << 10 | (place + 1) << 2 | of for uses in range(3) for place in range(64)
                                       for of in range(4)} | {2 ** 64 - 1, 2 ** 32, 2 ** 31}
    guesses.discard(1 << 10 | 1 << 2 | 3)  # its own window
    for number in sorted(guesses):
        assert guest.file(number) == ("NIGH_NOT_FOUND", None), number
    for space in sorted({numbers["private"], numbers["readable"], 0, 1, 1 << 8, 2 << 8 | 1, 2 ** 32 - 1}):
        for kind in (RECORD_READ, RECORD_ADD, RECORD_LOCK_WRITE, RECORD_FREE, RECORD_ALLOC):
            assert guest.question(kind, space, at["private"])[0] == "NIGH_CLOSED", (space, kind)
        assert guest.put(space, at["private"], bytes(8)) == "NIGH_CLOSED", space
        assert guest.ask(SPACE_CLOSE, number=space)[0] == "NIGH_INVALID"
    assert guest.ask(SPACE_WINDOW_END, number=numbers["window"] + (1 << 2))[0] == "NIGH_INVALID"
    # By its name.
    assert guest.names() == ["readable"]
    for what, argument in ((SPACE_STAT, 0), (SPACE_COUNT, 0), (SPACE_OPEN, 1), (SPACE_OPEN, 2), (SPACE_OPEN, 3), (SPACE_DELETE, 0)):
        assert guest.ask(what, b"private", argument=argument) == ("NIGH_DENIED", 0, b""), (what, argument)
    assert guest.create(b"private", 3, 3) == "NIGH_EXISTS"
    return True


def attack_a_readable_space(node, at):
    guest = RawSpaces(node.path)
    guest.make_window()
    for what, argument in ((SPACE_OPEN, 2), (SPACE_OPEN, 3), (SPACE_DELETE, 0)):
        assert guest.ask(what, b"readable", argument=argument)[0] == "NIGH_DENIED", (what, argument)
    space, cache, home = guest.open(b"readable", 1)
    assert guest.question(RECORD_READ, space, at["readable"]) == ("NIGH_OK", SECRET + 1)
    assert guest.put(space, at["readable"], bytes(8)) == "NIGH_DENIED"
    for kind in (RECORD_ADD, RECORD_EXCHANGE, RECORD_SWAP, RECORD_LOCK_WRITE, RECORD_TRY_LOCK_WRITE, RECORD_ALLOC, RECORD_FREE):
        assert guest.question(kind, space, at["readable"], 8)[0] == "NIGH_DENIED", kind
    for number in (cache, home):
        status, fd = guest.file(number)
        assert status == "NIGH_OK", status
        for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
            fails([errno.EACCES], os.open, f"/proc/self/fd/{fd}", flags)
        fails([errno.EPERM], os.fchmod, fd, 0o666)
        fails([errno.EPERM], os.fchown, fd, READER, READER)
        fails([errno.EBADF], os.pwrite, fd, b"x", 0)
        fails([errno.EBADF, errno.EINVAL], os.ftruncate, fd, 0)
        fails([errno.EBADF], system, libc.fallocate, fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(4096))
        fails([errno.EPERM], fcntl.fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE)
        fails([errno.EACCES], system, libc.mmap, None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        shown = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
        assert shown.find(struct.pack("<Q", SECRET)) < 0, "what is another space's"
        assert (shown.find(struct.pack("<Q", SECRET + 1)) >= 0) == (number == home)
    return True


@in_both
def test_a_space_is_as_its_rights_say(node):
    """By name, by number, by records of a window and by descriptors: what another user may not is not done."""
    owner = Actor(WRITER, WRITER, lambda: owner_of_spaces(node.path))
    numbers, at = owner.said
    assert as_uid(READER, READER, lambda: attack_a_private_space(node, numbers, at))
    assert as_uid(READER, READER, lambda: attack_a_readable_space(node, at))
    assert as_uid(0, 0, lambda: RawSpaces(node.path).names()) == ["private", "readable"], "root is told of all"
    assert owner.go() == [SECRET, SECRET + 1, "NIGH_OK"]
    owner.end()


@in_both
def test_a_group_has_what_it_was_given_of_a_space(node):
    def tries():
        session = RawSpaces(node.path)
        return [session.names()] + [session.ask(SPACE_OPEN, b"team's", argument=rights)[0] for rights in (1, 3)]

    assert as_uid(WRITER, TEAM, lambda: RawSpaces(node.path).create(b"team's", group=1)) == "NIGH_OK"
    assert as_uid(READER, TEAM, tries) == [["team's"], "NIGH_OK", "NIGH_DENIED"]
    assert as_uid(READER, READER, tries) == [[], "NIGH_DENIED", "NIGH_DENIED"]
    assert as_uid(WRITER, WRITER, tries) == [["team's"], "NIGH_OK", "NIGH_OK"]


@in_both
def test_a_session_that_only_reads_changes_no_space(node):
    """Not of its own user's either."""

    def tries():
        assert RawSpaces(node.path).create(b"s") == "NIGH_OK"
        session = RawSpaces(node.path, raw.READ_ONLY)
        return [session.create(b"t"), session.ask(SPACE_DELETE, b"s")[0]] + [
            session.ask(SPACE_OPEN, b"s", argument=rights)[0] for rights in (1, 2, 3)]

    assert as_uid(WRITER, WRITER, tries) == ["NIGH_DENIED", "NIGH_DENIED", "NIGH_OK", "NIGH_DENIED", "NIGH_DENIED"]


@in_both
def test_the_nodes_user_knows_of_a_space_and_may_nothing(node):
    """He tells others what each may see, so he is told that there is one; nothing of what it holds."""

    def look():
        session = RawSpaces(node.path)
        tries = [session.ask(SPACE_OPEN, b"private", argument=rights)[0] for rights in (1, 2, 3)]
        return [session.names(), *(session.ask(what, b"private")[0] for what in (SPACE_STAT, SPACE_COUNT)), tries,
                session.ask(SPACE_DELETE, b"private")[0], json.loads(run_space(node, "stat", "private", "--json"))["access"]]

    assert as_uid(WRITER, WRITER, lambda: RawSpaces(node.path).create(b"private")) == "NIGH_OK"
    if node.owner != 0:
        assert as_uid(node.owner, node.owner, look) == [["private"], "NIGH_OK", "NIGH_OK", ["NIGH_DENIED"] * 3, "NIGH_DENIED", "--"]
    assert as_uid(READER, READER, lambda: [RawSpaces(node.path).names(), RawSpaces(node.path).ask(SPACE_STAT, b"private")[0]]) == [
        [], "NIGH_DENIED"]


def page_of(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    said = connection.getresponse().read().decode()
    connection.close()
    return said


def test_the_page_shows_each_user_his_own_spaces_and_regions():
    """Whoever the node's user is: their owner and root see them, another that there are some."""
    for uid in (0, NODE_UID):
        (port,) = raw.free_ports(1)
        node = Node(uid, flags=("--http", str(port)))
        assert as_uid(WRITER, WRITER, lambda: RawSpaces(node.path).create(b"private")) == "NIGH_OK"  # noqa: B023
        change_region(node, WRITER, "create", "secret", "64K")

        def seen_by(who):
            return as_uid(who, who, lambda: [page_of(port, "/page.json"), page_of(port, "/metrics")])  # noqa: B023

        # Regions are not asked for again at once.
        wait_for(lambda: "secret" in seen_by(0)[0])  # noqa: B023
        for who in (WRITER, 0, NODE_UID, READER):
            text, numbers = seen_by(who)
            said, sees = json.loads(text), who in (WRITER, 0, uid)
            assert [space["name"] for space in said["spaces"]] == ["private"] * sees, (uid, who, said["spaces"])
            assert [region["name"] for region in said["regions"]] == ["secret"] * sees, (uid, who, said["regions"])
            assert said["spaces_hidden"] == said["regions_hidden"] == (0 if sees else 1), (uid, who)
            assert ('nigh_one_space_reads_total{space="private"} 0' in numbers) == sees, (uid, who)
            assert sees or ("private" not in text + numbers and "secret" not in text), (uid, who)
        assert node.stop()[0] == 0


@in_both
def test_the_nodes_user_knows_of_a_region_and_may_nothing(node):
    def listed():
        done = subprocess.run([os.environ["NIGH"], "region", "ls", "--json", "--socket", node.path], capture_output=True, check=True)
        return [[region["name"], region["access"]] for region in json.loads(done.stdout)]

    change_region(node, WRITER, "create", "r", "64K")
    change_region(node, WRITER, "chmod", "r", f"u:{STRANGER}+r")
    for who, told in ((WRITER, [["r", "rwm"]]), (0, [["r", "rwm"]]), (STRANGER, [["r", "r--"]]), (READER, []),
                      (NODE_UID, [["r", "---"]] if node.owner == NODE_UID else [])):
        assert as_uid(who, who, listed) == told, who
    for rights in (1, 2, 3):
        assert Mapper(node, NODE_UID, rights).opened == "NIGH_DENIED"


def run_space(node, *arguments, data=b""):
    done = subprocess.run([os.environ["NIGH"], "space", *arguments, "--socket", node.path], input=data, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def views_of(path, name):
    """What there is of a space in its two files."""
    session = RawSpaces(path)
    for number in session.open(name, 3)[1:]:
        status, fd = session.file(number)
        assert status == "NIGH_OK", status
        yield os.fstat(fd).st_ino, mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)


@in_both
def test_memory_of_a_space_is_never_anothers(node):
    """One user fills most of what there is, keeps the files, and the space goes: what another's has is other memory, and zero."""

    def first():
        run_space(node, "create", "s", "8M", "--cache", "2M")
        address = run_space(node, "alloc", "s", "7M").decode().strip()
        run_space(node, "write", "s", address, data=b"\xaa" * (7 << 20))
        views = list(views_of(node.path, b"s"))
        assert any(shown.find(b"\xaa" * 512) >= 0 for _, shown in views)
        run_space(node, "rm", "s")
        return [inode for inode, _ in views], lambda: any(shown.find(b"\xbb" * 64) >= 0 for _, shown in views)

    def second():
        run_space(node, "create", "s", "8M", "--cache", "2M")
        address = run_space(node, "alloc", "s", "7M").decode().strip()
        assert run_space(node, "read", "s", address, "7M") == bytes(7 << 20)
        views = list(views_of(node.path, b"s"))
        assert not any(shown.find(b"\xaa" * 16) >= 0 for _, shown in views), "nobody's old bytes"
        run_space(node, "write", "s", address, data=b"\xbb" * (7 << 20))
        assert any(shown.find(b"\xbb" * 512) >= 0 for _, shown in views)
        return [inode for inode, _ in views]

    one = Actor(WRITER, WRITER, first)
    other = as_uid(READER, READER, second)
    assert not set(other) & set(one.said)
    assert not one.go(), "who had it does not see what comes there"
    one.end()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root, to become other uids")
        sys.exit(SKIPPED)
    # A copy that every uid can reach: the build may lie in a folder that is closed to others.
    with tempfile.TemporaryDirectory(prefix="nigh-") as open_folder:
        os.chmod(open_folder, 0o755)
        for name in ("NIGHD", "NIGH", "MAP_USER"):
            os.environ[name] = shutil.copy(os.environ[name], open_folder)
        client = os.path.join(os.environ["NIGH_BUILD"], "src", "client", "libnigh.so.0")
        os.environ["LD_LIBRARY_PATH"] = os.path.dirname(shutil.copy(client, open_folder))
        sys.exit(raw.run_tests(globals()))
