#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb of nigh against a private node: results, JSON, exit codes, and the line that says what is wrong."""
import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, wait_for  # noqa: E402

IN_CREATE = 0x100  # of inotify
OK, FAILED, USAGE, NOT_FOUND, UNREACHABLE, DENIED, FULL, TIMEOUT, CORRUPT, EXISTS = range(10)
VERBS = ("put", "get", "ls", "stat", "rm", "pin", "unpin", "who", "locate", "nodes", "leave", "forget", "call", "region", "space",
         "top", "doctor", "support", "cluster", "bench", "help")


def run(*arguments, node=None, data=b"", env=None, **more):
    """Runs nigh; its exit code, the bytes it printed, what it said."""
    environment = {key: value for key, value in os.environ.items() if key != "NIGH_SOCKET"}
    environment.update({"NIGH_SOCKET": node.path} if node else {})
    environment.update(env or {})
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    result = subprocess.run([os.environ["NIGH"], *arguments], input=data, timeout=60, check=False, env=environment,
                            **streams)
    return result.returncode, result.stdout, (result.stderr or b"").decode(errors="replace")


def good(*arguments, **more):
    """Runs what must succeed; what it printed."""
    code, printed, said = run(*arguments, **more)
    assert code == OK, (arguments, code, said)
    return printed


def fails(expected, words, *arguments, **more):
    """Runs what must fail with this exit code, and with one line that has these words."""
    code, _, said = run(*arguments, **more)
    assert code == expected, (arguments, code, said)
    lines = said.splitlines()
    assert len(lines) == 1 and lines[0].startswith("nigh"), (arguments, said)
    for word in words:
        assert word in lines[0], (arguments, word, said)
    assert lines[0].isprintable(), lines[0]


def parsed(*arguments, **more):
    return json.loads(good(*arguments, "--json", **more))


def with_node(test):
    """Gives a test a node and a folder of its own."""

    def wrapped():
        node = Node()
        assert node.ready
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            test(node, folder)
        assert node.stop()[0] == 0

    wrapped.__name__ = test.__name__
    return wrapped


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- put and get


@with_node
def test_put_and_get_a_file(node, folder):
    for size in (0, 1, 4096, 3 << 20):
        data = os.urandom(size)
        path = write(folder, "in", data)
        assert good("put", f"object {size}", path, node=node) == b""
        assert good("get", f"object {size}", node=node) == data
        out = os.path.join(folder, "out")
        assert good("get", f"object {size}", "-o", out, node=node) == b""
        assert read(out) == data
    assert sorted(os.listdir(folder)) == ["in", "out"], "nothing else is left"


@with_node
def test_put_standard_input(node, folder):
    data = os.urandom(2 << 20)
    good("put", "stdin", "-", node=node, data=data)
    assert good("get", "stdin", node=node) == data
    good("put", "empty", "-", node=node)
    assert good("get", "empty", node=node) == b""
    with open(write(folder, "file", b"from a file"), "rb") as file:
        code, _, said = run("put", "redirected", "-", node=node, data=None, stdin=file)
        assert code == OK, said
    assert good("get", "redirected", node=node) == b"from a file"


def test_put_of_what_has_no_end_to_one_lane_of_two():
    """An object lies in one lane: what is larger than that has is not read to the size of the whole node."""
    node = Node("--lanes", "2")
    words = ["more than 32.0 MiB", "the node has 64.0 MiB", "32.0 MiB of it for any one object"]
    pipe = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    fails(FULL, words, "put", "z", "-", node=node, data=None, stdin=pipe.stdout)
    pipe.stdout.close()
    pipe.wait()
    assert node.stop()[0] == 0


@with_node
def test_put_of_what_has_no_end(node, folder):
    too_large = ["out of memory", "more than 64.0 MiB", "the node has 64.0 MiB"]
    fails(FULL, too_large, "put", "z", "/dev/zero", node=node, preexec_fn=little_memory)
    pipe = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    fails(FULL, too_large, "put", "z", "-", node=node, data=None, stdin=pipe.stdout, preexec_fn=little_memory)
    pipe.stdout.close()
    pipe.wait(timeout=30)
    # A pipe into which nobody writes.
    reading, writing = os.pipe()
    fails(TIMEOUT, ["the time was up"], "put", "z", "-", "--timeout", "50ms", node=node, data=None, stdin=reading)
    os.write(writing, b"some")
    fails(TIMEOUT, ["the time was up"], "put", "z", "-", "--timeout", "50ms", node=node, data=None, stdin=reading)
    os.write(writing, b"all")
    os.close(writing)
    good("put", "z", "-", "--timeout", "0", node=node, data=None, stdin=reading)
    os.close(reading)
    assert good("get", "z", node=node) == b"all"
    assert [item["name"] for item in parsed("ls", node=node)] == ["z"]


@with_node
def test_put_of_a_pipe_with_a_name(node, folder):
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    for timeout in ("0", "50ms"):
        fails(TIMEOUT, ["pipe", "the time was up before anything came"], "put", "p", pipe, "--timeout", timeout, node=node)
    writing = os.open(pipe, os.O_RDWR)
    os.write(writing, b"some")
    fails(TIMEOUT, ["pipe", "the time was up before it ended"], "put", "p", pipe, "--timeout", "50ms", node=node)
    os.close(writing)
    for arguments in ((), ("--timeout", "30s")):
        put = subprocess.Popen([os.environ["NIGH"], "put", "p", pipe, "--socket", node.path, *arguments])
        with open(pipe, "wb") as writer:  # as soon as it reads
            writer.write(b"all of it")
        assert put.wait(timeout=30) == OK
        assert good("get", "p", node=node) == b"all of it"
        good("rm", "p", node=node)
    good("put", "p", write(folder, "plain", b"plain"), "--timeout", "0", node=node)
    good("put", "q", write(folder, "plain", b""), "--timeout", "0", node=node)
    assert [item["data_size"] for item in parsed("stat", "p", "q", node=node)] == [5, 0]


@with_node
def test_put_of_an_open_stream(node, folder):
    """Standard input that others have made non-blocking is waited for all the same."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    put = subprocess.Popen([os.environ["NIGH"], "put", "n", "-", "--socket", node.path], stdin=reading)
    wait_for(lambda: parsed("top", "--once", node=node)["sessions"] == 2 or put.poll() is not None)
    os.write(writing, b"bytes")
    os.close(writing)
    assert put.wait(timeout=30) == OK and good("get", "n", node=node) == b"bytes"
    os.close(reading)


def open_files(pid):
    folder, paths = f"/proc/{pid}/fd", []
    for number in os.listdir(folder):
        try:
            paths.append(os.path.realpath(os.path.join(folder, number)))
        except FileNotFoundError:  # closed meanwhile
            pass
    return paths


@with_node
def test_put_of_a_file_that_changes(node, folder):
    """It is opened before the node is asked: one that stands still meanwhile lets the file change in time."""
    path = os.path.join(folder, "file")
    for size, word in ((100, "shorter"), (5000, "longer"), (5001, "longer")):
        write(folder, "file", b"x" * 4096)
        raw.halt(node.process)
        put = subprocess.Popen([os.environ["NIGH"], "put", "f", path, "--socket", node.path, "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(lambda: path in open_files(put.pid) and "socket:" in " ".join(open_files(put.pid)))
        os.truncate(path, size)
        node.process.send_signal(signal.SIGCONT)
        printed, said = put.communicate(timeout=30)
        assert put.returncode == FAILED and f"became {word} while it was read" in json.loads(printed)["error"], said
        assert run("stat", "f", node=node)[0] == NOT_FOUND
    assert parsed("top", "--once", node=node)["unsealed_bytes"] == 0


def little_memory():
    """What would take all memory fails instead. Sanitizers need more for themselves."""
    if "NIGH_SANITIZED" not in os.environ:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))


@with_node
def test_metadata(node, folder):
    good("put", "m", write(folder, "f", b"data"), "--meta", "größe=7", node=node)
    assert good("get", "m", "--meta", node=node).decode() == "größe=7"
    assert parsed("stat", "m", node=node)[0]["meta_size"] == len("größe=7".encode())
    good("put", "n", "-", node=node)
    assert good("get", "n", "--meta", node=node) == b""
    fails(USAGE, ["65536"], "put", "o", "-", "--meta", "x" * 65537, node=node)


@with_node
def test_names(node, folder):
    names = ["a", "two words", "größe/μ", "tab\there", "new\nline", "\x1b[31mred", "back\\slash \"quoted\"", "-dash",
             "n" * 255]
    for number, name in enumerate(names):
        good("put", "--", name, "-", node=node, data=str(number).encode())
        assert good("get", "--", name, node=node) == str(number).encode(), name
    listed = parsed("ls", node=node)
    assert sorted(item["name"] for item in listed) == sorted(names)
    text = good("ls", node=node).decode()
    assert len(text.splitlines()) == len(names) + 1 and "\x1b" not in text and "\t" not in text
    assert "größe/μ" in text and "n" * 255 in text
    # Not UTF-8: the listing is JSON all the same.
    code, _, said = run("put", b"\xff\xfe", "-", node=node)
    assert code == OK, said
    (listed,) = [item for item in parsed("ls", node=node) if "name_hex" in item]
    assert (listed["name"], listed["name_hex"]) == ("\ufffd\ufffd", "fffe"), listed
    for bad in ("", "n" * 256):
        fails(USAGE, ["1 to 255 bytes"], "put", bad, "-", node=node)
        fails(USAGE, ["1 to 255 bytes"], "get", bad, node=node)
    # What is said of a name does not reach a terminal as it is.
    for verb in ("get", "stat", "rm", "pin", "unpin", "who"):
        fails(NOT_FOUND, ["red"], verb, "\x1b[31mred\nno", node=node)


@with_node
def test_ids(node, folder):
    digits = "0123456789abcdef" * 2 + "01234567"
    good("put", "id:" + digits, "-", node=node, data=b"by id")
    assert good("get", "id:" + digits.upper(), node=node) == b"by id"
    assert parsed("ls", node=node)[0] == parsed("ls", node=node)[0] | {"id": digits, "name": ""}
    assert digits in good("ls", node=node).decode()
    good("put", "named", "-", node=node, data=b"by name")
    named = [item for item in parsed("ls", node=node) if item["name"] == "named"][0]
    assert good("get", "id:" + named["id"], node=node) == b"by name"
    rows = good("ls", "--ids", node=node).decode().splitlines()
    assert len(rows) == 1 + len(parsed("ls", node=node)), "a row is a line"
    assert [row for row in rows if row.endswith(f"id:{named['id']}  named")], rows
    assert rows[0].index("ID") == rows[1].index("id:") and rows[0].split()[-2:] == ["ID", "NAME"], rows
    for bad in ("id:", "id:12", "id:" + "g" * 40, "id:" + digits + "0"):
        fails(USAGE, ["40 hexadecimal"], "get", bad, node=node)


@with_node
def test_output_is_complete_or_untouched(node, folder):
    out = write(folder, "out", b"what was there")
    fails(NOT_FOUND, ["missing"], "get", "missing", "-o", out, node=node)
    assert read(out) == b"what was there"
    good("put", "large", "-", node=node, data=os.urandom(1 << 20))

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    fails(FAILED, ["out: File too large"], "get", "large", "-o", out, node=node, preexec_fn=small_files)
    with open(os.path.join(folder, "stream"), "wb") as stream:
        fails(FAILED, ["standard output: File too large"], "get", "large", node=node, preexec_fn=small_files, stdout=stream)
    os.unlink(os.path.join(folder, "stream"))
    assert read(out) == b"what was there"
    fails(FAILED, ["No such file"], "get", "large", "-o", folder + "/no/out", node=node)
    assert os.listdir(folder) == ["out"], "nothing else is left"
    for mode in (0o600, 0o640):
        os.chmod(out, mode)
        good("get", "large", "-o", out, node=node)
        assert os.path.getsize(out) == 1 << 20 and stat.S_IMODE(os.stat(out).st_mode) == mode
    good("get", "large", "-o", out + "2", node=node, preexec_fn=lambda: os.umask(0o027))
    assert stat.S_IMODE(os.stat(out + "2").st_mode) == 0o640


def files_made(folder):
    """A descriptor that is readable once a file was made in a folder: who waits for that is woken by it."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    assert fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(folder), IN_CREATE) > 0, os.strerror(ctypes.get_errno())
    return fd


@with_node
def test_output_that_is_interrupted(node, folder):
    """Ctrl-C while the bytes are written: what was there stays, and nothing else does."""
    good("put", "x", "-", node=node, data=bytes(48 << 20))
    out = os.path.join(folder, "out")

    def as_from_a_terminal():  # and not by a script in the background, in which the signals are ignored
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.nice(19)  # on a busy machine it would be done before this process is given a processor again

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for _ in range(200):
            write(folder, "out", b"what was there")
            made = files_made(folder)
            get = subprocess.Popen(
                [os.environ["NIGH"], "get", "x", "-o", out, "--socket", node.path], preexec_fn=as_from_a_terminal
            )
            assert select.select([made], [], [], 120)[0], "it makes a file beside it"
            get.send_signal(number)
            get.wait(timeout=120)
            os.close(made)
            assert os.listdir(folder) == ["out"], os.listdir(folder)
            assert get.returncode in (0, -number)
            if get.returncode and read(out) == b"what was there":
                break
            assert read(out) == bytes(48 << 20)  # it was done before the signal came
        else:
            assert False, "never interrupted"


@with_node
def test_output_that_is_no_plain_file(node, folder):
    good("put", "x", "-", node=node, data=b"bytes")
    device = os.path.join(folder, "null")
    if os.geteuid() == 0:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        good("get", "x", "-o", device, node=node)
        assert stat.S_ISCHR(os.stat(device).st_mode), "a device is written to, not replaced"
        os.unlink(device)
    target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
    write(folder, "target", b"old")
    os.symlink(target, link)
    good("get", "x", "-o", link, node=node)
    assert os.path.islink(link) and read(target) == b"bytes"
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    good("get", "x", "-o", pipe, node=node)
    assert reader.communicate(timeout=30)[0] == b"bytes"
    fails(FAILED, ["directory"], "get", "x", "-o", folder, node=node)
    # A link to what is not there yet, by way of another, relative to its folder.
    os.mkdir(os.path.join(folder, "sub"))
    os.symlink("sub/second", os.path.join(folder, "first"))
    os.symlink("new", os.path.join(folder, "sub", "second"))
    good("get", "x", "-o", os.path.join(folder, "first"), node=node)
    assert os.path.islink(folder + "/first") and os.path.islink(folder + "/sub/second")
    assert read(folder + "/sub/new") == b"bytes" and not os.path.islink(folder + "/sub/new")
    os.symlink("round", os.path.join(folder, "round"))
    fails(FAILED, ["Too many"], "get", "x", "-o", folder + "/round", node=node)


@with_node
def test_output_to_a_stream(node, folder):
    good("put", "x", "-", node=node, data=b"bytes")
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with open(os.path.join(folder, "out"), "wb") as file:
            file.write(b"before ")
            file.flush()
            code, _, said = run("get", "x", "-o", name, node=node, stdout=file)
            assert code == OK, said
            file.seek(0, os.SEEK_END)
            file.write(b" after")
        assert read(folder + "/out") == b"before bytes after", name
        fails(USAGE, ["--output"], "get", "x", "--json", "-o", name, node=node)
    # The program's own descriptors, such as that of the node's socket, are none.
    for number in range(3, 9):
        fails(FAILED, ["Bad file descriptor"], "get", "x", "-o", f"/dev/fd/{number}", node=node)
    assert parsed("top", "--once", node=node)["expelled"] == 0
    assert os.listdir(folder) == ["out"]


@with_node
def test_get_waits(node, folder):
    for given, shown in (("50ms", "50 ms"), ("1s", "1 s"), ("1500us", "1500 us")):
        code, _, said = run("get", "late", "--timeout", given, node=node)
        assert code == TIMEOUT and said == f"nigh get: late: not there within {shown}\n", said
    fails(NOT_FOUND, ["late"], "get", "late", node=node)
    waits = subprocess.Popen([os.environ["NIGH"], "get", "late", "--timeout", "30s", "--socket", node.path],
                             stdout=subprocess.PIPE)
    wait_for(lambda: parsed("top", "--once", node=node)["waiting"] == 1)
    good("put", "late", "-", node=node, data=b"here")
    assert waits.communicate(timeout=30)[0] == b"here" and waits.returncode == OK


@with_node
def test_put_fails(node, folder):
    good("put", "x", "-", node=node, data=b"first")
    fails(EXISTS, ["x: ", "exists", "nigh rm x"], "put", "x", "-", node=node, data=b"second")
    assert good("get", "x", node=node) == b"first"
    fails(FAILED, ["No such file", "missing"], "put", "y", folder + "/missing", node=node)
    fails(FAILED, ["directory"], "put", "y", folder, node=node)
    large = os.path.join(folder, "large")
    # Of a pipe it is not known how much it is; what there is has one unit.
    lanes = parsed("top", "--once", node=node)["lanes"]
    memory = parsed("top", "--once", node=node)["memory_bytes"]
    most = f"{memory / lanes / (1 << 20):.1f} MiB"
    part = f", {most} of it for any one object (it has {lanes} lanes)" if lanes > 1 else ""
    has = f"more than {most} were asked for, and the node has {memory / (1 << 20):.1f} MiB for objects in all{part}"
    with open(large, "wb") as file:
        file.truncate(memory // lanes + 1)
    fails(FULL, [" B " + has], "put", "y", large, node=node)
    with open(large, "rb") as file:
        fails(FULL, [": " + has], "put", "y", "-", node=node, data=None, stdin=file)
    with open(large, "wb") as file:
        file.truncate(100 << 20)
    fails(FULL, ["memory"], "put", "y", large, node=node)
    fails(FULL, ["memory"], "put", "y", large, "--no-evict", node=node)
    assert [item["name"] for item in parsed("ls", node=node)] == ["x"]
    assert parsed("top", "--once", node=node)["unsealed_bytes"] == 0


def test_put_above_a_quota():
    """What failed is said to be a quota, whose it is and how large; small objects are refused before they are written."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path = write(folder, "conf", b"[node]\nlanes = 2\nsession-quota = 1M\n[pool small]\nquota = 96K\n")
        node = Node("--config", path)
        words = ["cannot create", "48.1 KiB is larger than the quota of pool small, 48.0 KiB in each of 2 lanes"]
        fails(FULL, words, "put", "x", "-", "--pool", "small", node=node, data=bytes((48 << 10) + 100))
        fails(FULL, ["2.0 MiB is larger than the quota of this session, 1.0 MiB"], "put", "x", "-", node=node,
              data=bytes(2 << 20))
        assert parsed("ls", node=node) == []
        assert node.stop()[0] == 0


# ---- the other verbs


@with_node
def test_missing_objects(node, folder):
    for verb in ("get", "stat", "rm", "pin", "unpin", "who", "locate"):
        fails(NOT_FOUND, ["nobody: no such object in your pool"], verb, "nobody", node=node)
        pool = f"uid-{os.geteuid()}"
        fails(NOT_FOUND, [f"nobody: no such object in pool {pool}"], verb, "nobody", "--pool", pool, node=node)
    good("put", "there", "-", node=node)
    fails(NOT_FOUND, ["none of these 2 objects is there"], "locate", "nobody", "no one", node=node)
    # What is said of some comes after the list of the others.
    code, printed, _ = run("locate", "nobody", "there", node=node, stderr=subprocess.STDOUT)
    lines = printed.decode().splitlines()
    assert code == OK and len(lines) == 3 and lines[0].split()[0] == "NODE", lines
    assert lines[2] == "nigh locate: 1 of the 2 objects is on no node", lines
    # The rest is done all the same.
    fails(NOT_FOUND, ["nobody"], "rm", "nobody", "there", node=node)
    assert parsed("ls", node=node) == []


@with_node
def test_rm_of_what_is_pinned(node, folder):
    """A pin is no hold: it goes with the object, whose name may be put anew."""
    good("put", "x", "-", node=node, data=b"first")
    good("pin", "x", node=node)
    assert good("rm", "x", node=node) == b"" and parsed("ls", node=node) == []
    good("put", "x", "-", node=node, data=b"second")
    assert good("get", "x", node=node) == b"second" and parsed("stat", "x", node=node)[0]["pinned"] is False


@with_node
def test_ls(node, folder):
    assert parsed("ls", node=node) == []
    for name in ("a/1", "a/2", "b/1"):
        good("put", name, "-", node=node, data=name.encode() * 100)
    assert sorted(item["name"] for item in parsed("ls", "a/", node=node)) == ["a/1", "a/2"]
    for item in parsed("ls", node=node):
        assert item["state"] == "sealed" and item["data_size"] == 300 and item["pinned"] is False
        assert len(item["id"]) == 40 and item["created_ns"] > 0
    assert len(good("ls", "b/", node=node).splitlines()) == 2
    many = 500
    for number in range(0, many, 50):
        subprocess.run(["sh", "-c", f"for i in $(seq {number} {number + 49}); do \"$NIGH\" put m$i - </dev/null; done"],
                       env={**os.environ, "NIGH_SOCKET": node.path}, check=True)
    assert len({item["name"] for item in parsed("ls", "m", node=node)}) == many


@with_node
def test_stat(node, folder):
    good("put", "x", "-", node=node, data=b"123456789")
    good("put", "y", "-", node=node)
    items = parsed("stat", "x", "y", "--checksum", node=node)
    assert [item["name"] for item in items] == ["x", "y"]
    assert items[0]["crc32c"] == 0xE3069283 and items[1]["crc32c"] == 0  # RFC 3720, B.4
    assert items[0]["data_size"] == 9 and items[0]["holders"] == 0 and items[0]["state"] == "sealed"
    text = good("stat", "x", "-c", node=node).decode()
    assert "e3069283" in text and "9 bytes" in text and "sealed" in text
    assert "crc32c" not in good("stat", "x", node=node).decode()


class Holder:
    """A process that holds an object: nigh get into a pipe that nobody reads."""

    def __init__(self, node, name):
        self.process = subprocess.Popen([os.environ["NIGH"], "get", name, "--socket", node.path],
                                        stdout=subprocess.PIPE)
        wait_for(lambda: parsed("who", name, node=node)["holders"])

    def let_go(self):
        data = self.process.communicate(timeout=30)[0]
        assert self.process.returncode == OK
        return data


@with_node
def test_who_and_rm_of_what_is_held(node, folder):
    data = os.urandom(1 << 20)
    good("put", "held", "-", node=node, data=data)
    assert "nobody holds it" in parsed("who", "held", node=node)["reason"]
    # Where there is nobody there is a sentence, and no empty table.
    assert good("who", "held", node=node).decode().splitlines() == ["held: nobody holds it: it may be evicted"]
    assert good("who", node=node).decode().splitlines() == ["nobody holds memory of this pool"]
    assert parsed("who", node=node)["holders"] == []
    holder = Holder(node, "held")
    who = parsed("who", "held", node=node)
    assert [(item["pid"], item["views"]) for item in who["holders"]] == [(holder.process.pid, 1)]
    assert "until they release it" in who["reason"] and who["state"] == "sealed"
    text = good("who", "held", node=node).decode()
    assert str(holder.process.pid) in text and "until they release it" in text
    pool = parsed("who", node=node)["holders"]
    assert any(item["pid"] == holder.process.pid and item["size_bytes"] >= 1 << 20 for item in pool)
    lines = good("who", node=node).decode().splitlines()
    assert str(holder.process.pid) in lines[1] and "HOLDS" in lines[0] and "leased" in " ".join(lines[2:]), lines
    assert str(holder.process.pid) in good("top", "--once", node=node).decode()
    code, printed, said = run("rm", "held", "--json", node=node)
    assert code == OK and json.loads(printed) == [{"name": "held", "status": "NIGH_IN_USE"}]
    assert "in use" in said and len(said.splitlines()) == 1
    assert parsed("stat", "held", node=node)[0]["state"] == "deleting"
    fails(NOT_FOUND, ["held"], "get", "held", node=node)
    assert holder.let_go() == data
    wait_for(lambda: run("stat", "held", node=node)[0] == NOT_FOUND)
    good("put", "held", "-", node=node, data=b"new")
    assert parsed("rm", "held", node=node) == [{"name": "held", "status": "NIGH_OK"}]


@with_node
def test_pin_and_unpin(node, folder):
    good("put", "p", "-", node=node, data=b"kept")
    assert parsed("pin", "p", node=node) == [{"name": "p", "status": "NIGH_OK"}]
    assert parsed("ls", node=node)[0]["pinned"] is True and b"pinned" in good("ls", node=node)
    assert b"pinned" in good("stat", "p", node=node)
    assert "until nigh unpin" in parsed("who", "p", node=node)["reason"]
    big = write(folder, "big", bytes(1 << 20))
    for number in range(100):
        good("put", f"big{number}", big, node=node)
    assert good("get", "p", node=node) == b"kept"
    assert len(parsed("ls", node=node)) < 70, "others were evicted"
    total = parsed("top", "--once", node=node)["evictions"]
    assert total > 30 and f", {total} evictions (" in good("top", "--once", node=node).decode()
    assert good("unpin", "p", node=node) == b""
    assert parsed("stat", "p", node=node)[0]["pinned"] is False


@with_node
def test_top(node, folder):
    good("put", "x", "-", node=node, data=b"x" * 1000)
    numbers = parsed("top", "--once", node=node)
    assert numbers["objects"] == 1 and numbers["memory_bytes"] == 64 << 20 and numbers["sessions"] == 1
    text = good("top", "-1", node=node).decode()
    for word in ("64.0 MiB", "1 sealed", "1 attached", "requests for memory refused", "in all    1 seals, 0 deletes"):
        assert word in text, text
    assert "\x1b" not in text, "no terminal, no colours"
    for word in ("calls", "to many", "bulks"):
        assert f"\n{word}  " not in text, "where all is zero"
    run("call", "nobody's", "x", node=node)
    assert "\ncalls     1 begun" in good("top", "-1", node=node).decode()
    watch = subprocess.Popen([os.environ["NIGH"], "top", "--json", "--delay", "10ms", "--socket", node.path],
                             stdout=subprocess.PIPE)
    assert watch.stdout.readline() == b"{\n"
    decoder, pictures, printed = json.JSONDecoder(), 0, "{\n"
    while pictures < 3:
        printed += watch.stdout.readline().decode()
        try:
            _, end = decoder.raw_decode(printed)
            pictures, printed = pictures + 1, printed[end:].lstrip()
        except json.JSONDecodeError:
            pass
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=30)
    for bad in ("1ms", "2h", "soon"):
        fails(USAGE, ["--delay", bad], "top", "--delay", bad, node=node)


@with_node
def test_doctor(node, folder):
    code, printed, said = run("doctor", "--json", node=node)
    findings = {item["subject"]: item for item in json.loads(printed)}
    assert code == (FAILED if any(item["severity"] == "bad" for item in findings.values()) else OK), said
    for subject in ("node", "cluster", "fabric", "memory", "cgroup", "huge pages", "memlock", "/dev/shm", "descriptors", "cores", "swap"):
        assert findings[subject]["finding"], subject
        assert findings[subject]["severity"] == "ok" or findings[subject]["remedy"], "each finding has its remedy"
    assert findings["node"]["severity"] == "ok"
    assert "nobody keeps" in findings["keeper"]["finding"] and "--hold" in findings["keeper"]["remedy"], findings
    assert findings["loader"]["finding"] and "options" not in findings and "time" not in findings, findings
    for subject in ("agreement", "lives", "clock", "lanes", "reach"):
        assert subject not in findings, "it is alone"
    code, printed, said = run("doctor", env={"NIGH_SOCKET": folder + "/none"})
    bad = any(line.startswith(b"bad") for line in printed.splitlines())
    assert b"start one" in printed and b"-> " in printed and code == (FAILED if bad else UNREACHABLE), said
    config = write(folder, "nighd.conf", b"[node]\nmemory = 64M\n\nthe rest is silence\n")
    code, printed, _ = run("doctor", "--config", config, env={"NIGH_SOCKET": folder + "/none"})
    assert code == FAILED and f"{config}:4: ".encode() in printed and b"nighd --check" in printed, printed
    assert b"silence" not in printed, "which may be a secret"
    fails(FAILED, ["no file"], "doctor", "--config", folder)


def test_doctor_of_a_node_that_is_kept():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node = Node("--hold", "--state", os.path.join(folder, "state"), "--max-sessions", "16")
        clients = [subprocess.Popen([os.environ["NIGH"], "get", "--timeout", "50s", "never", "--socket", node.path],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(14)]
        found = lambda: {item["subject"]: item for item in json.loads(run("doctor", "--json", node=node)[1])}  # noqa: E731
        try:
            wait_for(lambda: "sessions" in found())
            findings = found()
            assert findings["sessions"]["severity"] == "note" and "of 16 sessions" in findings["sessions"]["finding"], findings
            assert findings["keeper"]["severity"] == "ok" and "is kept" in findings["keeper"]["finding"], findings
            assert "the disk of" in findings["state disk"]["finding"], findings
        finally:
            for client in clients:
                client.kill()
                client.wait(timeout=60)
        wait_for(lambda: "sessions" not in found())
        assert node.stop()[0] == 0


def test_doctor_with_an_empty_variable():
    """It says nothing, for whose process the node is as for where it answers."""
    script = """
        mount -t tmpfs none /run && mkdir /run/nigh && mkfifo /run/ready || exit 99
        "$NIGHD" --memory 32M --socket /run/nigh/nigh.sock --ready-fd 3 3>/run/ready 2>/run/log &
        read line </run/ready
        "$NIGH" doctor --json
        kill $! && wait"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, timeout=60, check=False,
                          env={**os.environ, "NIGH_SOCKET": ""})
    if done.returncode in (1, 99) and not done.stdout:
        raise raw.Skipped("mounting needs root")
    findings = {item["subject"]: item for item in json.loads(done.stdout)}
    assert findings["node"]["severity"] == "ok" and "(process " in findings["descriptors"]["finding"], findings
    assert "nobody keeps" in findings["keeper"]["finding"], findings


def test_doctor_of_a_node_without_a_session_left():
    """What is to be done can be done without a session."""
    node = Node("--max-sessions", "2")
    sessions = [raw.Session(node.path) for _ in range(2)]
    finding = {item["subject"]: item for item in json.loads(run("doctor", "--json", node=node)[1])}["node"]
    assert finding["severity"] == "note" and "has 2 sessions" in finding["finding"], finding
    assert "session open" in finding["remedy"] and "--max-sessions" in finding["remedy"], finding
    assert run("who", node=node)[0] == FULL and "nigh who" not in finding["remedy"], finding
    for session in sessions:
        session.sock.close()
    ended, log = node.stop()
    assert ended == 0
    assert sum("session open" in line and f"pid={os.getpid()} " in line for line in log.splitlines()) == 2, log


def test_doctor_of_a_node_that_takes_nobody():
    """As many wait for it as may: it lives, and its port is its own, whoever it is."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as node, socket.create_server(("127.0.0.1", 0)) as port:
        path, waiting = os.path.join(folder, "sock"), []
        node.bind(path)
        node.listen(0)
        while not waiting or waiting[-1].connect_ex(path) == 0:
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            waiting[-1].setblocking(False)
        config = write(folder, "nighd.conf", b"[node]\nlisten = 127.0.0.1:%d\n" % port.getsockname()[1])
        findings = {item["subject"]: item for item in json.loads(
            run("doctor", "--json", "--config", config, "--timeout", "100ms", env={"NIGH_SOCKET": path})[1])}
        assert "is it stopped" in findings["node"]["finding"] or "kill -CONT" in findings["node"]["remedy"], findings["node"]
        assert "taken" not in findings["port"]["finding"], findings["port"]
        text = good("support", "--output", "-", "--timeout", "100ms", env={"NIGH_SOCKET": path}).decode()
        assert "not known: no node answers" in text and "none: the node writes to no file" in text
        for one in waiting:
            one.close()


@with_node
def test_doctor_of_a_full_node(node, folder):
    large = write(folder, "large", bytes(24 << 20))
    good("put", "x", large, node=node)
    good("pin", "x", node=node)
    good("put", "y", large, node=node)
    good("pin", "y", node=node)
    fails(FULL, ["are used: 48.0 MiB pinned (nigh ls shows which; nigh unpin)"], "put", "z", large, "--timeout", "10ms",
          node=node)
    finding = {item["subject"]: item for item in json.loads(run("doctor", "--json", node=node)[1])}["full"]
    assert "refused since the node's start: 1 " in finding["finding"] and "48.0 MiB are pinned" in finding["finding"], finding
    assert "nigh unpin" in finding["remedy"] and finding["severity"] == "note", finding


@with_node
def test_nodes(node, folder):
    alone = parsed("nodes", node=node)
    assert [(item["rank"], item["state"], item["self"], item["address"]) for item in alone] == [(0, "up", True, "")]
    assert alone[0]["incarnation"] > 0
    for rank in ("1", "99"):
        fails(NOT_FOUND, [f"no node has the rank {rank}"], "forget", rank, node=node)
    fails(FAILED, ["only nodes that joined"], "forget", "0", node=node)
    lines = good("nodes", node=node).decode().splitlines()
    assert len(lines) == 2 and "alone" in lines[1], lines
    good("put", "x", "-", node=node)
    assert parsed("who", "x", node=node)["nodes"] == [] and "nodes_status" not in parsed("who", "x", node=node)
    assert parsed("ls", node=node)[0]["copy"] is False and parsed("stat", "x", node=node)[0]["copy"] is False
    assert "cluster" not in good("top", "--once", node=node).decode()


@with_node
def test_bench(node, folder):
    rows = parsed("bench", "objects", node=node)
    assert [row["size_bytes"] for row in rows] == [1 << 10, 32 << 10, 1 << 20, 4 << 20]
    assert all(row["put_us"] > 0 and row["get_release_us"] > 0 for row in rows)
    # A copy of 1 KiB takes some 20 ns, and whether puts waited for a sleeping lane is told.
    assert all(row["memcpy_us"] > 0 and 0 <= row["puts_slept"] <= row["puts"] for row in rows), rows
    assert parsed("ls", node=node) == [], "it leaves nothing"
    lines = good("bench", "objects", node=node).decode().splitlines()
    assert "SLEPT" in lines[0] and "0.000" not in lines[1].split() and "SLEPT of" in lines[5], lines
    for arguments in (("transfer",), ("transfer", "--offer"), ("transfer", "--json")):
        code, printed, said = run("bench", *arguments, node=node)
        assert code == FAILED and "alone" in said, (arguments, code, printed, said)
        assert printed == b"" or "alone" in json.loads(printed)["error"], printed
    assert parsed("ls", node=node) == []
    fails(USAGE, ["objects"], "bench", node=node)
    fails(USAGE, ["objects"], "bench", "rockets", node=node)


@with_node
def test_bench_rpc(node, folder):
    rows = parsed("bench", "rpc", node=node)
    assert [(row["way"], row["at_once"]) for row in rows] == [("node", 1), ("node", 64), ("pair", 1), ("pair", 64)]
    assert all(row["size_bytes"] == 64 and 0 < row["calls"] and 0 < row["median_us"] <= row["p99_us"]
               and row["calls_per_s"] > 0 for row in rows), rows
    # The node counts what goes through it, and no call of a pair.
    stats = parsed("top", "--once", node=node)
    through = sum(row["calls"] for row in rows if row["way"] == "node")
    assert through <= stats["calls_begun"] < sum(row["calls"] for row in rows), stats
    assert stats["calls_taken"] == stats["calls_begun"] and stats["calls_timed_out"] == 0, stats
    assert stats["services"] == stats["calls_under_way"] == stats["requests_unanswered"] == 0, stats
    lines = good("bench", "rpc", "--at-once", "8", "--size", "1000", node=node).decode().splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["node", "1000", "8"], ["pair", "1000", "8"]], lines
    lines = good("bench", "rpc", "--at-once", "1", "--size", "4K", node=node).decode().splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["4096", "4096"], lines
    for arguments in (("--at-once", "65"), ("--at-once", "0"), ("--size", "8161"), ("--size", "8K"), ("--serve", "--size", "8"),
                      ("--offer",)):
        fails(USAGE, ["bench"], "bench", "rpc", *arguments, node=node)
    fails(USAGE, ["bench"], "bench", "objects", "--serve", node=node)
    fails(NOT_FOUND, ["nigh bench rpc --serve"], "bench", "rpc", "--node", "0", node=node)
    assert run("bench", "rpc", "--node", "0", node=node)[1] == b"", "no head where nothing is measured"
    assert json.loads(run("bench", "rpc", "--node", "0", "--json", node=node)[1])["exit_code"] == NOT_FOUND
    assert parsed("bench", "rpc", "--serve", "--timeout", "10ms", node=node) == {"served": 0}


@with_node
def test_bench_rpc_ends_in_time(node, folder):
    """The rows share --timeout, and each has something in its part."""
    rows = parsed("bench", "rpc", "--timeout", "600ms", node=node)
    assert len(rows) == 4 and all(row["calls"] > 0 for row in rows), rows
    assert sum(row["calls"] / row["calls_per_s"] for row in rows) <= 0.8, rows
    fails(TIMEOUT, ["the deadline passed"], "bench", "rpc", "--timeout", "0", node=node)


@with_node
def test_bench_rpc_prints_a_row_when_it_is_there(node, folder):
    for _ in range(5):
        with subprocess.Popen([os.environ["NIGH"], "bench", "rpc", "--socket", node.path],
                              stdout=subprocess.PIPE) as bench:
            lines = [bench.stdout.readline(), bench.stdout.readline()]
            bench.kill()
            lines += bench.stdout.readlines()
        if len(lines) < 5:  # else it was over before it could be ended
            return
    assert False, "all rows came at once"


@with_node
def test_json_of_every_verb(node, folder):
    path, out = write(folder, "f", b"data"), os.path.join(folder, "out")
    done = parsed("put", "größe \x01", path, node=node)
    assert done["name"] == "größe \x01" and done["data_size"] == 4 and len(done["id"]) == 40
    assert parsed("get", "größe \x01", "-o", out, node=node)["output"] == out
    for verb in ("stat", "who", "pin", "unpin", "rm"):
        assert parsed(verb, "größe \x01", node=node)
    for arguments in (("ls",), ("who",), ("nodes",), ("top", "--once"), ("bench", "objects"), ("bench", "rpc"), ("bench", "region")):
        parsed(*arguments, node=node)
    json.loads(run("doctor", "--json", node=node)[1])
    fails(USAGE, ["--output"], "get", "x", "--json", node=node)


@with_node
def test_json_of_errors(node, folder):
    """Standard output is one JSON value also when a verb fails: an object with the error, or an array with it."""

    def failed(expected, *arguments, **more):
        code, printed, said = run(*arguments, **more)
        assert code == expected and len(said.splitlines()) == 1, (arguments, code, said)
        return json.loads(printed)

    def one(expected, words, verb, *arguments, **more):
        item = failed(expected, *([verb] if verb else []), *arguments, "--json", **more)
        assert sorted(item) == ["error", "exit_code", "verb"] and item["exit_code"] == expected, item
        assert item["verb"] == verb and words in item["error"], item

    out = os.path.join(folder, "out")
    good("put", "x", "-", node=node, data=b"x")
    one(NOT_FOUND, "nope: no such object", "get", "nope", "-o", out, node=node)
    one(NOT_FOUND, "nope: no such object", "who", "nope", node=node)
    one(TIMEOUT, "nope: ", "get", "nope", "-o", out, "--timeout", "10ms", node=node)
    one(FAILED, "No such file", "get", "x", "-o", folder + "/no/out", node=node)
    one(FAILED, "No such file", "put", "y", folder + "/missing", node=node)
    one(EXISTS, "exists already", "put", "x", "-", node=node)
    one(USAGE, "1 to 255", "put", "", "-", node=node)
    one(USAGE, "no option --rocket", "ls", "--rocket", node=node)
    one(USAGE, "write --ids in full", "ls", "--id", node=node)
    one(USAGE, "write --timeout in full", "ls", "--time=1s", node=node)
    one(USAGE, "write --timeout in full", "ls", "--time", "1s", node=node)
    one(USAGE, "no option --rocket", "", "--rocket", node=node)
    one(USAGE, "no verb", "", node=node)
    one(USAGE, "rocket", "help", "rocket", node=node)
    one(USAGE, "bench takes", "bench", node=node)
    one(USAGE, "--output", "get", "x", node=node)
    one(FAILED, "alone", "bench", "transfer", node=node)
    one(USAGE, "no option --\x1b[31m", "ls", "--\x1b[31m", node=node)
    none = {"NIGH_SOCKET": folder + "/none"}
    for arguments in (("put", "x", "-"), ("get", "x", "-o", out), ("ls",), ("stat", "x"), ("rm", "x"), ("pin", "x"),
                      ("unpin", "x"), ("who",), ("who", "x"), ("nodes",), ("top",), ("bench", "objects"), ("region", "stat", "x"),
                      ("space", "stat", "x")):
        one(UNREACHABLE, folder + "/none", *arguments, env=none)
    # Of several names each that fails is an element, and the rest is done.
    for verb in ("stat", "pin", "unpin", "rm"):
        items = failed(NOT_FOUND, verb, "nope", "x", "--json", node=node)
        assert items[0] == {"name": "nope", "status": "NIGH_NOT_FOUND", "error": "nope: no such object in your pool",
                            "exit_code": NOT_FOUND}, items
        assert len(items) == 2 and items[1]["name"] == "x" and "error" not in items[1], items
        items = failed(USAGE, verb, "id:12", "--json", node=node)
        assert [(item["name"], item["exit_code"]) for item in items] == [("id:12", USAGE)], items
    assert not os.path.exists(out)


# ---- what is wrong is said before a node is asked


def test_words_of_space():
    for words, arguments in ((["takes create, ls", "not 'make'"], ("make", "x")), (["takes create"], ()),
                             (["create takes a NAME and a SIZE"], ("create", "x")),
                             (["the name of a space has 1 to 47 bytes"], ("create", "x" * 48, "1M")),
                             (["SIZE '0' is not a size"], ("create", "x", "0")),
                             (["SIZE 'much' is not a size"], ("create", "x", "much")),
                             (["--block takes a power of two from 64 to 4096, not '96'"], ("create", "x", "1M", "--block", "96")),
                             (["--group takes rights", "not 'rx'"], ("create", "x", "1M", "--group", "rx")),
                             (["rm takes no --block"], ("rm", "x", "--block", "64")),
                             (["'0' is not an address"], ("free", "x", "0")),
                             (["'-1' is not an address"], ("read", "x", "--", "-1", "8")),
                             (["'0x1g' is not an address"], ("write", "x", "0x1g")),
                             (["read takes no --json"], ("read", "x", "0x200", "8"))):
        more = ("--json",) if "--json" in words[0] else ()
        code, _, said = run("space", *more, *arguments)
        assert code == USAGE and len(said.splitlines()) == 1, (arguments, code, said)
        assert said.startswith("nigh space: ") and all(word in said for word in words), (arguments, said)
    for action in ("create", "ls", "stat", "alloc", "free", "read", "write", "rm"):
        helped = good("space", action, "--help").decode()
        assert helped.startswith(f"usage: nigh space {action} [OPTION...]"), helped


# ---- what every verb does


def test_no_node():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        none = {"NIGH_SOCKET": folder + "/none"}
        for arguments in (("put", "x", "-"), ("get", "x"), ("ls",), ("stat", "x"), ("rm", "x"), ("pin", "x"),
                          ("unpin", "x"), ("who",), ("who", "x"), ("nodes",), ("top",), ("bench", "objects"), ("region", "stat", "x"),
                          ("space", "stat", "x")):
            fails(UNREACHABLE, [folder + "/none"], *arguments, env=none)
        fails(UNREACHABLE, [folder + "/other"], "ls", "--socket", folder + "/other", env=none)
        fails(USAGE, ["107"], "ls", "--socket", folder + "/" + "x" * 120)
        write(folder, "file", b"no socket")
        for path in (folder + "/file", folder):
            fails(UNREACHABLE, [f"{path} is no socket"], "ls", "-s", path)


@with_node
def test_a_node_that_stands_still(node, _folder):
    good("put", "x", "-", node=node)
    raw.halt(node.process)
    try:
        for arguments in (("put", "y", "-"), ("get", "x"), ("ls",), ("stat", "x"), ("rm", "x"), ("who", "x"), ("nodes",),
                          ("top", "--once")):
            begun = time.monotonic()
            fails(TIMEOUT, ["does not answer"], *arguments, "--timeout", "10ms", node=node)
            assert time.monotonic() - begun < 10, arguments
        begun = time.monotonic()
        assert run("doctor", "--timeout", "10ms", node=node)[0] == UNREACHABLE
        assert time.monotonic() - begun < 10
    finally:
        node.process.send_signal(signal.SIGCONT)
    good("get", "x", node=node)


@with_node
def test_the_socket_of_the_option_wins(node, folder):
    other = Node()
    good("put", "here", "-", node=node)
    assert parsed("ls", "--socket", other.path, node=node) == []
    assert len(parsed("ls", "-s", node.path, node=other)) == 1
    assert other.stop()[0] == 0


@with_node
def test_pools(node, folder):
    good("put", "x", "-", "--pool", f"uid-{os.geteuid()}", node=node)
    assert len(parsed("ls", node=node)) == 1
    fails(NOT_FOUND, [': there is no pool "nosuch"; '], "ls", "--pool", "nosuch", node=node)


@with_node
def test_denied(node, folder):
    if os.geteuid() != 0:
        return

    def as_another():
        os.setgroups([])
        os.setgid(4321)
        os.setuid(4321)

    # The program itself, and its library, must be within reach of another uid.
    program = os.path.join(folder, "nigh")
    library = os.path.join(os.environ["NIGH_BUILD"], "src", "client", "libnigh.so.0")
    shutil.copy(os.environ["NIGH"], program)
    shutil.copy(library, folder)
    for path in (folder, program, os.path.join(folder, "libnigh.so.0")):
        os.chmod(path, 0o755)
    good("put", "x", "-", node=node, data=b"root's")
    saved, os.environ["NIGH"] = os.environ["NIGH"], program
    try:
        here = {"env": {"LD_LIBRARY_PATH": folder}, "node": node, "preexec_fn": as_another}
        assert parsed("ls", **here) == [], "a pool of its own"
        for arguments in (("get", "x"), ("ls",), ("rm", "x"), ("put", "y", "-")):
            fails(DENIED, ["pool \"uid-0\" (owner 0"] if arguments[0] != "put" else ["uid-0"], *arguments, "--pool", "uid-0", **here)
    finally:
        os.environ["NIGH"] = saved


def test_full_with_spill():
    with tempfile.TemporaryDirectory() as folder:
        node = Node("--spill", os.path.join(folder, "spill"), "--spill-max", "24M", memory="64M")
        data, number = {}, 0
        while True:
            data[number] = os.urandom(3000000)
            path = write(folder, "in", data[number])
            code, _, said = run("put", "-t", "2s", f"f{number}", path, node=node)
            if code != 0:
                break
            number += 1
        assert code == FULL and "the room on disk is full" in said and "--spill-max" in said, said
        assert number > 20 and parsed("top", "--once", node=node)["objects_spilled"] > 0, number
        for turn in range(3):
            for each in range(number):
                key = each if turn % 2 == 0 else each * 7 % number
                assert good("get", f"f{key}", node=node) == data[key], key
        assert b"left for puts" in good("top", "-1", node=node)
        assert b"left for puts" in run("doctor", node=node)[1]
        node.stop()


def test_a_disk_that_others_filled():
    """Nothing goes to disk, and nothing is there: the disk is named all the same."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], stderr=subprocess.PIPE, check=False)
        if mounted.returncode != 0:
            raise raw.Skipped("mounting needs root")
        try:
            node = Node("--spill", os.path.join(folder, "spill"), memory="32M")
            with open(os.path.join(folder, "filler"), "wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(4096)) > 0:
                    pass
            code, number, large = 0, 0, os.urandom(3000000)
            while code == 0:
                code, _, said = run("put", "-t", "2s", f"f{number}", "-", data=large, node=node)
                number += 1
            assert code == FULL and "there is no room on disk either" in said and "make room" in said, said
            code, printed, _ = run("doctor", "--json", node=node)
            findings = {item["subject"]: item for item in json.loads(printed)}
            assert findings["spill"]["severity"] == "note" and "0 B left for puts" in findings["spill"]["finding"], findings
            assert findings["spill disk"]["severity"] == "bad" and "is full" in findings["spill disk"]["finding"], findings
            assert code == FAILED
            node.stop()
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def test_files_that_are_refused():
    """A node that cannot write to disk says so where its memory is full, not that nobody holds it."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node("--spill", os.path.join(folder, "spill"), memory="32M")
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        path, code, number = write(folder, "in", os.urandom(3000000)), 0, 0
        while code == 0:
            code, _, said = run("put", "-t", "2s", f"f{number}", path, node=node)
            number += 1
        failed = parsed("top", "--once", node=node)["spill_failures"]
        assert code == FULL and failed > 0
        assert f"held by no reader and not pinned; {failed} disk writes and reads failed so far" in said, said
        # The limit is the node's, whoever asks; the caller's own is none of its concern.
        finding = lambda **more: {item["subject"]: item for item in json.loads(  # noqa: E731
            run("doctor", "--json", node=node, **more)[1])}.get("file size")
        assert f"the node (process {node.process.pid}) may have up to 1.0 MiB" in finding()["finding"], finding()
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert finding(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))) is None
        assert "(ulimit -f)" in node.stop()[1]


def test_full_index():
    with tempfile.TemporaryDirectory() as folder:
        node = Node("--spill", os.path.join(folder, "spill"), "--max-objects", "16", memory="32M")
        path = write(folder, "in", b"x")
        code, number = 0, 0
        while code == 0:
            code, _, said = run("put", f"n{number}", path, node=node)
            number += 1
        assert code == FULL and "--max-objects" in said and "nigh rm" in said, said
        assert parsed("top", "--once", node=node)["index_full"] > 0
        assert b"--max-objects" in run("doctor", node=node)[1]
        node.stop()


def test_corrupt():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node = Node("--spill", folder, memory="32M")
        data = os.urandom(1 << 20)
        for number in range(60):
            good("put", f"o{number}", "-", node=node, data=data)
        wait_for(lambda: any(item["state"] == "spilled" for item in parsed("ls", node=node)))
        damaged = set()
        for name in os.listdir(folder):
            # What is still being written has another name soon.
            if name.endswith(".object") and os.path.getsize(os.path.join(folder, name)) > 1 << 20:
                with open(os.path.join(folder, name), "r+b") as file:
                    damaged.add(file.read(40)[20:].hex())
                    file.seek(700000)
                    file.write(b"other bytes")
        # Others may have been spilled meanwhile.
        items = zip(range(60), parsed("stat", *(f"o{number}" for number in range(60)), node=node))
        spilled = [f"o{number}" for number, item in items if item["state"] == "spilled" and item["id"] in damaged]
        out = os.path.join(folder, "out")
        fails(CORRUPT, [spilled[0], "checksum"], "get", spilled[0], "-o", out, node=node)
        assert not os.path.exists(out)
        assert node.stop()[0] == 0


class SlowDisk:
    """The spill file of an object as a pipe: a read of it takes as long as nobody writes."""

    def __init__(self, node, folder, name):
        # What is still being written has another name soon.
        wait_for(lambda: not [file for file in os.listdir(folder) if file.endswith(".writing")])
        digits = bytes.fromhex(parsed("stat", name, node=node)[0]["id"])
        self.path = next(path for path in (os.path.join(folder, file) for file in os.listdir(folder))
                         if path.endswith(".object") and read(path)[20:40] == digits)
        self.bytes = read(self.path)
        os.unlink(self.path)
        os.mkfifo(self.path)

    def give(self):
        """Who reads finds an end; the next one finds the object."""
        fifo = os.open(self.path, os.O_RDWR)
        write(os.path.dirname(self.path), "whole", self.bytes)
        os.rename(os.path.join(os.path.dirname(self.path), "whole"), self.path)
        os.close(fifo)


def test_get_from_a_slow_disk():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node = Node("--spill", folder, memory="32M")
        data = os.urandom(1 << 20)
        for number in range(60):
            good("put", f"o{number}", "-", node=node, data=data)
        wait_for(lambda: parsed("stat", "o0", node=node)[0]["state"] == "spilled")
        disk = SlowDisk(node, folder, "o0")
        out = os.path.join(folder, "out")
        words = ["o0", "on disk", "not read back in time", "--timeout"]
        fails(TIMEOUT, words, "get", "o0", "-o", out, node=node)
        fails(TIMEOUT, words, "get", "o0", "-o", out, "--timeout", "0", node=node)
        fails(TIMEOUT, [*words, "longer"], "get", "o0", "-o", out, "--timeout", "10ms", node=node)
        assert parsed("stat", "o0", node=node)[0]["state"] == "spilled" and not os.path.exists(out)
        disk.give()
        assert node.stop()[0] == 0


def test_rm_of_what_is_written_to_disk():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node = Node("--spill", folder, "--lanes", "1", memory="32M")
        data = os.urandom(1 << 20)
        good("put", "x", "-", node=node, data=data)
        item = parsed("stat", "x", node=node)[0]
        assert item["node_uses"] == []
        # The file that the disk's thread will open to write: as long as nobody reads, it waits.
        paths = [os.path.join(folder, f"p{pool}-l0-i{item['incarnation']}-g{item['birth_counter']:016x}.object.writing")
                 for pool in range(64)]
        for path in paths:
            os.mkfifo(path)
        filler, number = write(folder, "filler", data), 0
        while parsed("stat", "x", node=node)[0]["node_uses"] != ["written"]:
            assert number < 100, "it is never written"
            run("put", f"o{number}", filler, "--timeout", "0", node=node)
            number += 1
        assert b"being written to disk" in good("stat", "x", node=node)
        assert "being written to disk" in parsed("who", "x", node=node)["reason"]
        code, printed, said = run("rm", "x", "--json", node=node)
        assert code == OK and json.loads(printed) == [{"name": "x", "status": "NIGH_IN_USE"}], (code, printed, said)
        assert "x: deleted, but it is being written to disk" in said and len(said.splitlines()) == 1, said
        item = parsed("stat", "x", node=node)[0]
        assert item["state"] == "deleting" and item["node_uses"] == ["written"] and item["holders"] == 0
        assert "deleted, and still being written to disk" in parsed("who", "x", node=node)["reason"]
        for path in paths:
            os.close(os.open(path, os.O_RDWR))
            with contextlib.suppress(FileNotFoundError):  # the disk's thread goes on at once, and removes its own
                os.unlink(path)
        wait_for(lambda: run("stat", "x", node=node)[0] == NOT_FOUND)
        assert node.stop()[0] == 0


@with_node
def test_of_what_is_not_sealed(node, folder):
    session = raw.Session(node.path)
    assert session.call(raw.OP_CREATE, oid=bytes(range(20)), data_size=100)[1] == "NIGH_OK"
    name = "id:" + bytes(range(20)).hex()
    fails(FAILED, [name, "not sealed yet: its creator is still writing it"], "rm", name, node=node)
    fails(NOT_FOUND, [name, "not sealed yet"], "get", name, node=node)
    fails(TIMEOUT, [name, "not sealed within 10 ms"], "get", name, "--timeout", "10ms", node=node)
    session.close()


@with_node
def test_wrong_usage(node, folder):
    cases = [
        (["put"], ["NAME", "FILE"]),
        (["put", "x"], ["NAME", "FILE"]),
        (["put", "x", "y", "z"], ["NAME", "FILE"]),
        (["get"], ["NAME"]),
        (["get", "a", "b"], ["NAME"]),
        (["ls", "a", "b"], ["PREFIX"]),
        (["stat"], ["NAME"]),
        (["rm"], ["NAME"]),
        (["pin"], ["NAME"]),
        (["unpin"], ["NAME"]),
        (["who", "a", "b"], ["NAME"]),
        (["top", "a"], ["no argument"]),
        (["nodes", "a"], ["no argument"]),
        (["leave", "--look", "--undo"], ["--look or --undo, not both"]),
        (["leave", "-u", "-l"], ["--look or --undo, not both"]),
        (["doctor", "a"], ["no argument"]),
        (["help", "rocket"], ["rocket"]),
        (["ls", "--timeout", "soon"], ["--timeout", "soon", "250ms"]),
        (["get", "x", "--output"], ["--output", "value"]),
        (["get", "x", "-o"], ["-o", "value"]),
        (["ls", "--json=1"], ["--json=1"]),
    ]
    cases += [([verb, "--no-such-thing"], ["--no-such-thing"]) for verb in VERBS if verb != "help"]
    cases += [([verb, "-X"], ["-X"]) for verb in VERBS if verb != "help"]
    for arguments, words in cases:
        fails(USAGE, [*words, f"nigh {arguments[0]} --help"], *arguments, node=node)
    fails(USAGE, ["rocket", "nigh --help"], "rocket", node=node)
    code, printed, said = run(node=node)
    assert code == USAGE and printed == b"" and "usage: nigh" in said


@with_node
def test_options_before_the_verb(node, folder):
    pool = f"uid-{os.geteuid()}"
    good("--socket", node.path, "put", "x", "-", data=b"bytes")
    assert good("-s", node.path, "get", "x") == b"bytes"
    assert good(f"--socket={node.path}", "--pool", pool, "get", "x", "-m", "--timeout", "20s") == b""
    assert json.loads(good("--json", "-s", node.path, "ls"))[0]["name"] == "x"
    assert json.loads(good("-p", pool, "ls", "--json", node=node))[0]["name"] == "x"
    # The last one counts, wherever it stands.
    assert good("--socket", folder + "/none", "get", "x", "--socket", node.path) == b"bytes"
    fails(TIMEOUT, ["nigh get: y"], "--timeout", "10ms", "get", "y", node=node)
    fails(NOT_FOUND, ["nosuch"], "--pool", "nosuch", "ls", node=node)
    cases = [
        (["--no-such-thing", "ls"], ["--no-such-thing", "before the verb"]),
        (["--js", "ls"], ["write --json in full"]),
        (["-o", folder + "/out", "get", "x"], ["-o", "before the verb"]),
        (["--timeout", "soon", "ls"], ["--timeout", "soon"]),
        (["--socket"], ["--socket", "value"]),
        (["-p", "", "ls"], ["--pool ''"]),
        (["--json"], ["no verb"]),
        (["--"], ["no verb"]),
    ]
    for arguments, words in cases:
        fails(USAGE, [*words, "nigh: ", "'nigh --help'"], *arguments, node=node)
    for verb in VERBS:
        assert max(map(len, good(verb, "--help").splitlines())) <= 110, verb
    assert good("--json", "--help") == good("--help") and good("-s", "x", "--version") == good("--version")


def test_unknown_verbs():
    meant = {"gte": "get", "putt": "put", "lss": "ls", "stta": "stat", "unpn": "unpin", "docter": "doctor", "wo": "who",
             "hlep": "help", "list": "ls", "delete": "rm", "remove": "rm", "cat": "get", "status": "top",
             "node": "nodes", "members": "nodes"}
    for word, verb in meant.items():
        fails(USAGE, [f"'{word}'", f"did you mean '{verb}'?"], word)
        fails(USAGE, ["nigh help:", f"did you mean '{verb}'?"], "help", word)
    for word in ("rocket", "x", "", "n" * 300, "\x1b[31mred"):
        code, _, said = run(word)
        assert code == USAGE and "did you mean" not in said and len(said.splitlines()) == 1, said


def test_help():
    text = good("--help").decode()
    assert good("help").decode() == text and good("-h").decode() == text
    for verb in VERBS:
        assert f"\n  {verb} " in text, verb
        if verb != "help":
            alone = good(verb, "--help").decode()
            assert alone.startswith(f"usage: nigh {verb} ") and "--socket" in alone and "--json" in alone
            assert good("help", verb).decode() == alone
            assert parsed("help", verb)["verb"] == verb and parsed("help", verb)["summary"] in text
    # Both codes of what a node that is not up may have stand where the user looks.
    assert "exit code 1 without --timeout, 7 with it" in good("get", "--help").decode()
    assert [item["verb"] for item in parsed("help")] == list(VERBS)
    fails(USAGE, ["at most one"], "help", "put", "get")
    fails(USAGE, ["--output", "standard output"], "get", "x", "--json")
    version = good("--version").decode()
    assert version.startswith("nigh ") and len(version.splitlines()) == 1
    for arguments in (["--version", "--json"], ["--json", "--version"], ["--version", "-j"]):
        assert json.loads(good(*arguments)) == {"version": version.split()[1]}


def completed(node, folder, *words):
    """What bash offers for the last of these words, in a folder with one file."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nigh; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    file = os.path.join(os.environ["NIGH_SOURCE"], "src", "cli", "completion", "nigh.bash")
    environment = {**os.environ, "NIGH_SOCKET": node.path,
                   "PATH": os.path.dirname(os.environ["NIGH"]) + ":" + os.environ["PATH"]}
    result = subprocess.run(["bash", "-c", script, "bash", file, "nigh", *words], cwd=folder, env=environment,
                            capture_output=True, check=True, timeout=60)
    assert result.stderr == b"", result.stderr
    return result.stdout.decode().split()


@with_node
def test_completion(node, folder):
    write(folder, "model.bin", b"x")
    good("put", "weights", "-", node=node)
    assert set(VERBS) <= set(completed(node, folder, ""))
    assert sorted(completed(node, folder, "help", "")) == sorted(set(VERBS) - {"help"})
    assert completed(node, folder, "help", "n") == ["nodes"]
    assert completed(node, folder, "region", "c") == ["create", "chmod"]
    assert completed(node, folder, "space", "r") == ["read", "rm"]
    for words in (("region", "create"), ("region", "stat", "w"), ("region", "create", "--chunk"), ("--pool", "p", "region", "rm")):
        assert completed(node, folder, *words, "") == [], words
    for name in ("r1", "r2", 'quoted"'):
        good("region", "create", name, "4K", node=node)
    # What takes a busy machine longer than a second is not offered.
    for words in (("stat",), ("move",), ("rm",), ("rm", "x"), ("--offset", "1", "read"), ("create", "new", "1M", "--near")):
        wait_for(lambda: completed(node, folder, "region", *words, "r") == ["r1", "r2"])  # noqa: B023
    for words in (("create",), ("ls",), ("stat", "r1"), ("chmod", "r1"), ("resize", "r1")):
        assert completed(node, folder, "region", *words, "") == [], words
    good("region", "rm", "r1", "r2", 'quoted"', node=node)
    for verb in VERBS:
        offered = set(completed(node, folder, verb, "--"))
        taken = {word for line in good("help", verb).decode().splitlines() for word in line.replace(",", " ").split()[:3]
                 if line.startswith("  ") and word.startswith("--")}
        assert taken <= offered, (verb, taken - offered)
    # The name that put gives is new; then comes a file.
    assert completed(node, folder, "put", "") == [] and completed(node, folder, "put", "m") == []
    for words in (("put", "x"), ("put", "--meta", "text", "x"), ("--pool", "p", "put", "-m", "text", "--no-claim", "x")):
        assert completed(node, folder, *words, "") == ["model.bin"], words
    assert completed(node, folder, "put", "--meta", "") == []
    assert completed(node, folder, "put", "x", "model.bin", "") == []
    assert completed(node, folder, "get", "w") == ["weights"]
    assert completed(node, folder, "get", "weights", "-o", "") == ["model.bin"]


@with_node
def test_output_that_cannot_be_written(node, folder):
    good("put", "x", "-", node=node, data=os.urandom(1 << 20))
    cases = (["get", "x"], ["ls"], ["stat", "x"], ["who", "x"], ["who"], ["top", "--once"], ["top"], ["help"],
             ["ls", "--json"], ["put", "y", "-", "--json"], ["pin", "x", "--json"], ["--help"], ["--version"])
    for arguments in cases:
        with open("/dev/full", "wb") as full:
            fails(FAILED, ["standard output"], *arguments, node=node, stdout=full)
    for arguments in (["get", "x"], ["ls"], ["top", "--once"]):
        fails(FAILED, ["standard output"], *arguments, node=node, preexec_fn=lambda: os.close(1), stdout=None)
    # No descriptor is open at all: what is written to the node is not an object's bytes.
    code, _, _ = run("get", "x", node=node, preexec_fn=lambda: os.closerange(0, 3), stdout=None, stderr=None)
    assert code == FAILED
    assert parsed("top", "--once", node=node)["expelled"] == 0
    assert good("get", "x", node=node)


@with_node
def test_examples_refuse_rubbish(node, folder):
    examples = os.path.join(os.environ["NIGH_BUILD"], "examples")
    if not os.path.isdir(examples):
        return

    def example(name, *arguments):
        result = subprocess.run([os.path.join(examples, f"example-{name}"), *arguments], capture_output=True, timeout=60,
                                check=False, env={**os.environ, "NIGH_SOCKET": node.path})
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    for name in ("consumer", "counter_service", "echo_service", "embedded", "fetch", "producer", "region_donated", "region_mapped",
                 "share", "subscriber"):
        code, printed, said = example(name, "--help")
        assert code == OK and printed.startswith(f"usage: example-{name} ") and not said, (name, code, printed, said)
        assert len(printed.splitlines()) > 2 and max(map(len, printed.splitlines())) <= 100, printed
    assert parsed("region", "ls", node=node) == [] and not os.path.exists("--help")
    for name in ("consumer", "producer", "subscriber"):
        for bad in ("ten", "", "0", "-1", "2x", "99999999999999999999"):
            code, _, said = example(name, bad)
            assert code == USAGE and "COUNT" in said and f"'{bad}'" in said, (name, bad, code, said)
    for bad in ("-1", "fast", ""):
        code, _, said = example("producer", "1", bad)
        assert code == USAGE and "PERIOD_MS" in said, (bad, code, said)
    assert example("producer", "2", "0")[:2] == (OK, "producer: sealed frame/0\nproducer: sealed frame/1\n")
    code, printed, said = example("consumer", "2")
    assert code == OK and printed.count("8388608 bytes") == 2, (code, printed, said)
    # What is nowhere is waited for, and the user knows how long.
    code, printed, said = example("fetch", "--wait", "1", node.path, folder + "/nowhere")
    assert code == FAILED and "waits up to 1 s" in printed and "nowhere" in said, (code, printed, said)
    for bad in ("", "-1", "soon", "1x"):
        assert "SECONDS" in example("fetch", "--wait", bad, node.path, "x")[2], bad


@with_node
def test_the_subscriber_tells_what_happens(node, folder):
    program = os.path.join(os.environ["NIGH_BUILD"], "examples", "example-subscriber")
    if not os.path.exists(program):
        return
    good("put", "before", "-", node=node, data=b"12345")
    identity = parsed("stat", "before", node=node)[0]["id"]
    with subprocess.Popen([program, "3"], stdout=subprocess.PIPE, env={**os.environ, "NIGH_SOCKET": node.path}) as watcher:
        assert watcher.stdout.readline().decode() == f"sealed id:{identity} 5 bytes before\n"
        good("rm", "before", node=node)
        assert watcher.stdout.readline().decode() == f"deleted id:{identity} 5 bytes\n"
        good("put", "after", "-", node=node, data=b"123")
        assert watcher.stdout.readline().decode().endswith(" 3 bytes after\n")
        assert watcher.wait(timeout=60) == 0


@with_node
def test_a_reader_that_goes_away(node, folder):
    good("put", "x", "-", node=node, data=os.urandom(1 << 20))
    get = subprocess.Popen([os.environ["NIGH"], "get", "x", "--socket", node.path], stdout=subprocess.PIPE)
    get.stdout.read(10)
    get.stdout.close()
    assert get.wait(timeout=30) in (-signal.SIGPIPE, FAILED)
    wait_for(lambda: parsed("who", "x", node=node)["holders"] == [])  # it died, and the node hears of it


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
