#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything wrong that nighd can be told: one line that says what is wrong and what helps, and the documented exit
code. And what it does when all is well: readiness, signals, sockets left behind."""
import ctypes
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import Node, Session, wait_for  # noqa: E402

FAILED, USAGE, MEMORY, IN_USE, PERMISSION = 1, 2, 3, 4, 5
IN_CREATE = 0x100  # inotify(7)


def run(*flags, env=None, **more):
    """Runs nighd with flags that keep it from starting; its exit code, what it printed, what it said."""
    result = subprocess.run([os.environ["NIGHD"], *flags], stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                            check=False, env={**os.environ, **(env or {})}, **more)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def expect(code, words, *flags, **more):
    got, _, said = run(*flags, **more)
    lines = [line for line in said.splitlines() if not line.startswith("time=")]
    assert got == code, (flags, got, said)
    assert len(lines) == 1 and lines[0].startswith("nighd: "), (flags, said)
    for word in words:
        assert word in lines[0], (flags, word, lines[0])


def in_folder(test):
    """Gives a test a folder of its own, and flags of a node that would start."""

    def wrapped():
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            os.chmod(folder, 0o755)
            test(folder, ["--memory", "32M", "--socket", os.path.join(folder, "s")])

    wrapped.__name__ = test.__name__
    return wrapped


def write_key(path):
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("5a" * 32)


@in_folder
def test_wrong_flags(folder, good):
    cases = [
        ([], ["no memory size", "--memory 1G"]),
        (["--memory"], ["value is missing", "--memory"]),
        (["--memory", "lots"], ["--memory", "\"lots\"", "512M"]),
        (["--memory", "1MB"], ["--memory", "not a size"]),
        (["--memory", "-1"], ["--memory", "not a size"]),
        (["--memory", "0"], ["memory size of 0", "K, M, G, T or P", "--memory 1G"]),
        (["--memory", "1M"], ["too small", "16.0 MiB"]),
        (good + ["--space-memory", "1K"], ["memory for spaces of 1.0 KiB is too small", "24.0 KiB"]),
        (["--memory", "99999999999999999999"], ["not a size"]),
        (good + ["--no-such-thing"], ["no option", "--help"]),
        (good + ["-x"], ["no option"]),
        # Beginnings of names, which getopt_long would take; also where the value is the same word.
        (["--memo", "16M"], ["no option --memo: write --memory in full", "--help"]),
        (good + ["--conf=c"], ["no option --conf: write --config in full"]),
        (good + ["--spin", "--spin"], ["no option --spin: write --spin-us in full"]),
        (good + ["--vers"], ["no option --vers: write --version in full"]),
        (good + ["stray"], ["\"stray\"", "--help"]),
        (good + ["--lanes", "3"], ["3 lanes", "1, 2, 4"]),
        (good + ["--lanes", "128"], ["--lanes", "number up to 64"]),
        (good + ["--lanes", "two"], ["--lanes", "\"two\""]),
        (good + ["--spin-us", "2000000"], ["--spin-us", "1000000"]),
        (good + ["--extent", "3M"], ["power of two"]),
        (good + ["--extent", "1M"], ["power of two"]),
        (good + ["--huge", "perhaps"], ["auto, require or never"]),
        (good + ["--transfer", "both"], ["auto, two-sided, one-sided, push or register"]),
        (good + ["--fabric", "udp"], ["tcp, verbs or auto"]),
        (good + ["--fabric-addresses", "1.2.3.4," * 9], ["--fabric-addresses", "up to four IPv4"]),
        (good + ["--fabric-tos", "256"], ["--fabric-tos", "a number up to 255"]),
        (good + ["--fabric-tos", "af31"], ["--fabric-tos", "\"af31\""]),
        (good + ["--fabric-ack-timeout", "21"], ["--fabric-ack-timeout", "a number up to 20"]),
        (good + ["--fabric-ack-timeout", "7"], ["--fabric-ack-timeout", "8 to 20", "1 ms"]),
        (good + ["--fabric-retries", "8"], ["--fabric-retries", "a number up to 7"]),
        (good + ["--fabric-queue-pairs", "5"], ["--fabric-queue-pairs", "a number up to 4"]),
        (good + ["--shared-receives", "8193"], ["--shared-receives", "a number up to 8192"]),
        (good + ["--fanout", "256"], ["--fanout", "a number up to 255"]),
        (good + ["--shared-receives", "7"], ["--shared-receives", "8 to 8192"]),
        (good + ["--max-sessions", "5000"], ["--max-sessions", "1024"]),
        (good + ["--max-pins", "99999"], ["--max-pins", "8192"]),
        (good + ["--max-objects", "1T"], ["objects", "too many"]),
        (good + ["--spill-max", "1G"], ["spill directory"]),
        (good + ["--socket-mode", "999"], ["octal"]),
        (good + ["--http", "192.0.2.1:80"], ["--http", "loopback"]),
        (good + ["--http", "0"], ["--http", "a port"]),
        (good + ["--http", "127.0.0.1:0"], ["--http", "a port"]),
        (good + ["--http", "[::1]:00"], ["--http", "a port"]),
        (good + ["--http", "65536"], ["--http", "a port"]),
        (good + ["--directory", "redis://me:open sesame@host"], ["--directory", "blanks", "--directory-password"]),
        (good + ["--log-level", "shout"], ["error, warn, info or debug"]),
        (good + ["--ready-fd", "77"], ["--ready-fd", "descriptor"]),
        (good + ["--socket", ""], ["--socket"]),
        (good + ["--socket", folder + "/" + "x" * 120], ["107", "shorter"]),
        (good + ["--socket", folder + "/missing/s"], ["no directory", "missing"]),
        (good + ["--config", folder + "/missing.ini"], ["missing.ini", "No such file"]),
        (good + ["--config", folder], ["not a file"]),
    ]
    for flags, words in cases:
        expect(USAGE, words, *flags)


@in_folder
def test_none_is_not_the_default(folder, good):
    """Of what there has to be some 0 is refused; where it is one more value it is taken, and the manual says what it is."""
    for name in ("region-memory", "call-memory", "session-quota", "spill-max", "extent", "max-objects", "lanes", "max-sessions",
                 "max-pins", "ranks", "socket-mode"):
        expect(USAGE, [f"--{name}", "0 is not taken", "its default"], *good, f"--{name}", "0", "--check")
    path = os.path.join(folder, "nigh.ini")
    with open(path, "w", encoding="utf-8") as file:
        file.write("[node]\nregion-memory = 0\n")
    expect(USAGE, ["nigh.ini:2:", "region-memory", "0 is not taken"], *good, "--config", path)
    zeros = [word for name in ("spin-us", "session-rate", "session-ops", "dead-ms", "fanout", "fabric-tos", "fabric-ack-timeout",
                               "fabric-retries", "fabric-queue-pairs", "shared-receives") for word in (f"--{name}", "0")]
    code, _, said = run(*good, *zeros, "--check")
    assert code == 0, said


@in_folder
def test_what_a_cluster_needs(folder, good):
    expect(USAGE, ["--join", "--cluster-key"], *good, "--join", "127.0.0.1:1,127.0.0.1:2", "--member", "0")
    expect(USAGE, ["--join", "--member"], *good, "--join", "127.0.0.1:1,127.0.0.1:2")
    key = os.path.join(folder, "key")
    with open(os.open(key + "3", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(os.urandom(32))  # bytes do, too, and a key without a list is no cluster
    expect(USAGE, ["--join", "--cluster-key"], *good, "--cluster-key", key + "3", "--check")
    code, _, said = run(*good, "--join", "127.0.0.1:1,127.0.0.1:2", "--member", "0", "--cluster-key", key + "3", "--check")
    assert code == 0, said
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write("short\n")
    # The proposed line makes a key that nobody else may read, and it works.
    code, _, said = run(*good, "--join", "127.0.0.1:1,127.0.0.1:2", "--member", "0", "--cluster-key", key)
    line = said[said.index("make one: ") + 10:].strip().removesuffix(")")
    assert code == USAGE and "umask 077" in line, said
    assert said.startswith(f"nighd: {key}: a cluster key is "), said
    subprocess.run(["sh", "-c", line.replace("FILE", key + "2")], check=True)
    assert os.stat(key + "2").st_mode & 0o777 == 0o600
    code, _, said = run(*good, "--join", "127.0.0.1:1,127.0.0.1:2", "--member", "0", "--cluster-key", key + "2", "--check")
    assert code == 0, said


def flags_of_a_cluster(folder, good):
    key = os.path.join(folder, "key")
    write_key(key)
    return [*good, "--join", "127.0.0.1:1,127.0.0.1:2", "--member", "0", "--listen", "127.0.0.1:0", "--cluster-key", key,
            "--lanes", "2"]


def fabric_said(flags, env=None):
    """The one line that a node of two lanes has of its fabric, from its start to its end."""
    ready, tell = os.pipe()
    with subprocess.Popen([os.environ["NIGHD"], *flags, "--ready-fd", str(tell)], stderr=subprocess.PIPE, pass_fds=[tell],
                          env={**os.environ, **(env or {})}, text=True) as node:
        os.close(tell)
        with os.fdopen(ready) as pipe:
            assert pipe.readline() == "ready\n"
        node.terminate()
        said = node.stderr.read()
    lines = [line for line in said.splitlines() if "fabric=" in line]
    assert len(lines) == 1, said
    return lines[0]


@in_folder
def test_a_fabric_that_is_told(folder, good):
    assert "fabric=tcp why=\"as configured\"" in fabric_said([*flags_of_a_cluster(folder, good), "--fabric", "tcp"])


@in_folder
def test_a_fabric_whose_library_is_not_there(folder, good):
    """The loader finds something else under its name first."""
    flags = flags_of_a_cluster(folder, good)
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY and os.geteuid() != 0:
        raise raw.Skipped("little memory may be locked, which is said first")
    for library in ("libibverbs.so.1", "librdmacm.so.1"):
        with tempfile.TemporaryDirectory(prefix="nigh-") as hidden:
            with open(os.path.join(hidden, library), "w", encoding="ascii") as file:
                file.write("nothing\n")
            env = {"LD_LIBRARY_PATH": hidden}
            line = fabric_said([*flags, "--fabric", "auto"], env)
            assert "fabric=tcp why=" in line and library in line, line
            code, _, said = run(*flags, "--fabric", "verbs", env=env)
            assert code != 0 and "no RDMA for other nodes" in said and library in said and "--fabric tcp" in said, said


@in_folder
def test_a_fabric_that_is_not_there(folder, good):
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        raise raw.Skipped("this machine has RDMA devices, for which there is tests/rdma")
    flags = flags_of_a_cluster(folder, good)
    code, _, said = run(*flags, "--fabric", "verbs")
    assert code != 0 and "no RDMA for other nodes" in said and "--fabric tcp" in said, said
    line = fabric_said([*flags, "--fabric", "auto"])
    assert "fabric=tcp why=" in line and "as configured" not in line, line


@in_folder
def test_a_spill_folder_that_is_made(folder, good):
    spill = os.path.join(folder, "spill")
    for made in (True, False):
        node = Node("--spill", spill)
        code, said = node.stop()
        assert node.ready and code == 0 and os.path.isdir(spill)
        assert ("spill directory made" in said and spill in said) == made, said


@in_folder
def test_the_file_of_a_cluster(folder, good):
    path, key = os.path.join(folder, "nodes"), os.path.join(folder, "key")
    write_key(key)
    others = good + ["--member", "10.0.0.2:7470", "--cluster-key", key, "--check", "--join"]
    for text in ("10.0.0.1:7470\n10.0.0.2:7470\n", "\n10.0.0.1:7470, \r\n\n\n 10.0.0.2:7470", "10.0.0.1:7470,10.0.0.2:7470,\n"):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        code, out, said = run(*others, "@" + path)
        assert code == 0 and "rank 1 of 2 nodes" in out, (text, code, out, said)
    # A node whose list cannot be had does not begin alone.
    for text in ("", "\n \n"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        expect(USAGE, ["no address", "nodes"], *good, "--join", "@" + path)
    expect(USAGE, ["cannot read", "Is a directory"], *good, "--join", "@" + folder)
    expect(USAGE, ["cannot read", "No such file"], *good, "--join", "@" + path + "s")
    with open(path, "w", encoding="utf-8") as file:
        file.write("host:1," * 65536)
    expect(USAGE, ["at most 256"], *good, "--join", "@" + path)


@in_folder
def test_wrong_configuration(folder, good):
    path = os.path.join(folder, "nigh.ini")
    cases = [
        ("[node]\nmemry = 1G\n", ["nigh.ini:2:", "memry"]),
        ("[nodes]\n", ["nigh.ini:1:", "[nodes]"]),
        ("[pool a]\nmode = 0620\n", ["pool a", "without reading"]),
        ("[pool uid-7]\nowner = 8\n", ["uid-7", "another name"]),
        ("[node]\n" + "x" * 400 + "\n", ["nigh.ini:2:", "longer"]),
        ("[node]\nlanes = many\n", ["nigh.ini:2:", "lanes", "\"many\""]),
    ]
    for text, words in cases:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        expect(USAGE, words, *good, "--config", path)


@in_folder
def test_more_memory_than_there_is(folder, good):
    expect(MEMORY, ["memory"], *good, "--memory", "50T")
    expect(MEMORY, ["huge"], *good, "--memory", "1G", "--huge", "require")
    # The figure is not the one that was asked for: it says what it counts.
    expect(MEMORY, ["memory", "100.0 GiB for objects", "indexes"], *good, "--memory", "100G")


@in_folder
def test_the_socket_comes_after_the_memory(folder, good):
    """Who waits for the socket need not wait on: a node that has no memory never had one."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0 and libc.inotify_add_watch(watch, folder.encode(), IN_CREATE) >= 0
    expect(MEMORY, ["memory"], *good, "--memory", "50T")
    made = os.read(watch, 4096)
    os.close(watch)
    assert b"s.lock\0" in made, made
    assert b"s\0" not in made.replace(b"s.lock\0", b""), made


@in_folder
def test_a_socket_that_somebody_makes_meanwhile(folder, good):
    """While a node takes its memory its path is free to others: theirs is not removed."""
    # Theirs answers from the moment it is there: a socket that nobody listens on is a dead node's, and is removed.
    other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.bind(os.path.join(folder, "other"))
    other.listen()
    node = subprocess.Popen([os.environ["NIGHD"], *good, "--memory", "1G"], stdin=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: os.path.exists(os.path.join(folder, "s.lock")), 20)
        os.link(os.path.join(folder, "other"), os.path.join(folder, "s"))
        assert node.wait(60) == IN_USE
    finally:
        node.kill()
        node.wait()
    assert os.path.exists(os.path.join(folder, "s"))
    other.close()


@in_folder
def test_control_characters_of_others_are_not_printed(folder, good):
    for flags in (["--cluster-key", "\x1b[31m"], ["--join", "\x1b[31m"], ["--bad\x1b[31m"], ["\x1b[31m"]):
        code, _, said = run(*good, "--member", "0", "--join", "a:1,b:2", *flags)
        assert code != 0 and said and "\x1b" not in said, (flags, said)


@in_folder
def test_memory_above_the_control_groups(folder, good):
    group = "/sys/fs/cgroup/memory"
    if os.geteuid() != 0 or not os.path.isdir(group):
        return
    group = os.path.join(group, f"nigh-test-{os.getpid()}")
    try:
        os.mkdir(group)
    except OSError:
        return
    try:
        with open(group + "/memory.limit_in_bytes", "w", encoding="ascii") as file:
            file.write(str(64 << 20))

        def enter():
            with open(group + "/tasks", "w", encoding="ascii") as file:
                file.write(str(os.getpid()))

        expect(MEMORY, ["control group"], *good, "--memory", "512M", preexec_fn=enter)
    finally:
        os.rmdir(group)


@in_folder
def test_a_node_that_is_being_killed_is_waited_for(folder, good):
    """Its lock is there for a while after it; here as long as the next one has not opened the file."""
    path = os.path.join(folder, "s")
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    ready, tell = os.pipe()
    process = subprocess.Popen([os.environ["NIGHD"], "--memory", "32M", "--socket", path, "--ready-fd", str(tell)],
                               pass_fds=[tell], stderr=subprocess.PIPE)
    os.close(tell)

    def has_opened_it():
        names = (os.path.join(f"/proc/{process.pid}/fd", name) for name in os.listdir(f"/proc/{process.pid}/fd"))
        return process.poll() is not None or any(os.path.realpath(name) == path + ".lock" for name in names)

    wait_for(has_opened_it)
    os.close(lock)
    with os.fdopen(ready) as pipe:
        assert pipe.readline() == "ready\n", process.communicate(timeout=30)
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0


@in_folder
def test_a_second_node_on_the_same_socket(folder, good):
    node = Node()
    expect(IN_USE, ["another node", "--socket"], "--memory", "32M", "--socket", node.path)
    assert Session(node.path).call(raw.OP_NOP)[1] == "NIGH_OK", "the first one goes on"
    assert node.stop()[0] == 0


@in_folder
def test_something_else_on_the_socket(folder, good):
    path = os.path.join(folder, "s")
    other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.bind(path)
    other.listen()
    expect(IN_USE, ["answers"], *good)
    other.close()
    os.unlink(path)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.bind(path)
    stream.listen()
    expect(IN_USE, ["answers"], *good)
    stream.close()
    os.unlink(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("precious")
    expect(USAGE, ["no socket", "remove"], *good)
    with open(path, encoding="utf-8") as file:
        assert file.read() == "precious"


@in_folder
def test_spill_directories_that_do_not_do(folder, good):
    path = os.path.join(folder, "file")
    with open(path, "w", encoding="utf-8") as file:
        file.write("x")
    code, _, said = run(*good, "--spill", path)
    assert code == USAGE and path in said, (code, said)
    expect(USAGE, ["spill directory", "No such file"], *good, "--spill", folder + "/missing/spill")
    node = Node("--spill", folder)
    expect(IN_USE, ["spill"], *good, "--spill", folder)
    assert node.stop()[0] == 0


@in_folder
def test_log_directories_that_do_not_do(folder, good):
    path = os.path.join(folder, "file")
    with open(path, "w", encoding="utf-8") as file:
        file.write("x")
    good += ["--space-memory", "16M"]
    expect(FAILED, [path, "Not a directory", "--log-dir"], *good, "--log-dir", path)
    expect(FAILED, ["No such file", "--log-dir"], *good, "--log-dir", folder + "/missing/logs")
    logs = os.path.join(folder, "logs")
    node = Node("--space-memory", "16M", "--log-dir", logs)
    expect(IN_USE, ["rank 0", logs, "--log-dir"], *good, "--log-dir", logs)
    assert node.stop()[0] == 0


def as_nobody():
    os.setgroups([])
    os.setgid(4321)
    os.setuid(4321)


@in_folder
def test_no_permission(folder, good):
    if os.geteuid() != 0:
        return
    # The program itself must be within reach of another uid.
    program = os.path.join(folder, "nighd")
    with open(os.environ["NIGHD"], "rb") as source, open(program, "wb") as copy:
        copy.write(source.read())
    os.chmod(program, 0o755)
    saved = os.environ["NIGHD"]
    os.environ["NIGHD"] = program
    try:
        expect(PERMISSION, ["no permission", "--socket"], *good, preexec_fn=as_nobody)
        os.chmod(folder, 0o777)
        node = Node()
        os.chmod(os.path.dirname(node.path), 0o777)
        expect(PERMISSION, ["another user"], "--memory", "32M", "--socket", node.path, preexec_fn=as_nobody)
        assert node.stop()[0] == 0
        logs = os.path.join(folder, "logs")
        os.mkdir(logs, 0o755)
        expect(PERMISSION, [logs, "Permission denied", "--log-dir"], *good, "--space-memory", "16M", "--log-dir", logs,
               preexec_fn=as_nobody)
        secret = os.path.join(folder, "secret.ini")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("[node]\n")
        os.chmod(secret, 0o600)
        expect(PERMISSION, ["secret.ini", "ermission"], *good, "--config", secret, preexec_fn=as_nobody)
    finally:
        os.environ["NIGHD"] = saved


@in_folder
def test_too_few_descriptors(folder, good):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    code, _, said = run(*good, preexec_fn=few)
    lines = [line for line in said.splitlines() if not line.startswith("time=")]
    assert code == FAILED and len(lines) == 1 and "descriptor" in lines[0], (code, said)


@in_folder
def test_too_few_descriptors_for_the_members(folder, good):
    key = os.path.join(folder, "key")
    write_key(key)
    members = ",".join(f"127.0.0.1:{port}" for port in range(7501, 7531))
    flags = good + ["--join", members, "--member", "0", "--listen", "127.0.0.1:0", "--cluster-key", key, "--lanes", "4"]
    expect(FAILED, ["30 members", "RLIMIT_NOFILE grants 600", "hard limit", "fewer lanes"], *flags,
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 600)))


@in_folder
def test_files_that_may_not_be_as_large(folder, good):
    """An index is a larger file than an extent here. The kernel's signal would end the node without a word."""
    expect(FAILED, ["files of up to", "2.8 MiB at most", "ulimit -f"], *good, "--lanes", "1", "--extent", "2M",
           "--max-objects", "100000", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000000, 3000000)))


@in_folder
def test_a_log_that_may_not_grow(folder, good):
    """Lines are lost, and not the node, also where the thread says something that takes no signals of others."""
    with open(os.path.join(folder, "log"), "wb") as log:
        limit = 64 << 20
        log.seek(limit)
        process = subprocess.Popen([os.environ["NIGHD"], *good, "--max-objects", "1000"], stderr=log,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        wait_for(lambda: process.poll() is not None or os.path.exists(os.path.join(folder, "s")))
        if process.poll() is None:
            process.terminate()
        assert process.wait(timeout=30) == 0, process.returncode


@in_folder
def test_check_says_what_would_be_done_and_does_nothing(folder, good):
    path = os.path.join(folder, "nigh.ini")
    with open(path, "w", encoding="utf-8") as file:
        file.write("[node]\nmemory = 64M\nlanes = 2\nsession-quota = 2M\n"
                   "[pool shared]\nmode = 0666\nstrict = yes\nquota = 16M\n")
    code, printed, said = run("--config", path, "--socket", folder + "/s", "--check", "--memory", "48M")
    assert code == 0 and said == "", said
    for words in ("48.0 MiB", "lanes         2", ", quota 2.0 MiB\n", "bring up to 12.0 MiB of memory", "up to 24.0 MiB of them lie here", "shared", "0666, strict, quota 16.0 MiB\n",
                  folder + "/s"):
        assert words in printed, printed
    assert "bring up to 5.0 MiB" in run("--config", path, "--socket", folder + "/s", "--check", "--call-memory", "5M")[1]
    assert "up to 7.0 MiB of them" in run("--config", path, "--socket", folder + "/s", "--check", "--region-memory", "7M")[1]
    assert "spaces " not in printed, printed
    assert "up to 9.0 MiB of them" in run("--config", path, "--socket", folder + "/s", "--check", "--space-memory", "9M")[1]
    key = os.path.join(folder, "key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write("00112233" * 8 + "\n")
    of_two = ("--space-memory", "9M", "--join", "127.0.0.1:7001,127.0.0.1:7002", "--member", "0", "--cluster-key", key)
    assert "none: --space-memory is for nothing in a cluster without --state" in run(
        "--config", path, "--socket", folder + "/s", "--check", *of_two)[1]
    assert "up to 9.0 MiB of them" in run("--config", path, "--socket", folder + "/s", "--check", *of_two, "--state", folder + "/state")[1]
    os.remove(key)
    assert "of regions: software\n" in printed, printed
    assert "of regions: none; a session up to 2.0 MiB a second; a session up to 500 operations a second\n" in run(
        "--config", path, "--socket", folder + "/s", "--check", "--region-qos", "none", "--session-rate", "2M", "--session-ops", "500")[1]
    assert os.listdir(folder) == ["nigh.ini"]
    assert "of regions: separate\n" in run("--config", path, "--socket", folder + "/s", "--check", "--region-qos", "separate")[1]
    expect(USAGE, ["software, none or separate"], "--check", "--memory", "48M", "--region-qos", "hardware")
    expect(USAGE, ["a number"], "--check", "--memory", "48M", "--session-ops", "4G")
    expect(USAGE, ["3 lanes"], "--check", "--memory", "48M", "--lanes", "3")


@in_folder
def test_check_says_what_memory_it_would_take(folder, good):
    code, printed, said = run(*good, "--lanes", "1", "--check")
    line = next(line for line in printed.splitlines() if line.startswith("memory "))
    assert code == 0 and said == "" and "32.0 MiB for objects, " in line and " for indexes, " in line, (line, said)
    assert line.endswith(" can be had here") and "only" not in line, line
    line = next(line for line in run(*good, "--check", "--memory", "50T")[1].splitlines() if line.startswith("memory "))
    assert "50.0 TiB for objects, " in line and "; only " in line, line
    # Whole extents for every lane: as much as the node then has.
    printed = run("--memory", "64M", "--lanes", "64", "--socket", folder + "/s", "--check")[1]
    taken = next(line for line in Node("--lanes", "64").stop()[1].splitlines() if "memory is ready" in line)
    assert "memory        128.0 MiB for objects, " in printed and 'size="128.0 MiB"' in taken, (printed, taken)


@in_folder
def test_check_looks_at_the_socket(folder, good):
    path = os.path.join(folder, "s")
    code, printed, _ = run("--memory", "32M", "--check", env={"NIGH_SOCKET": path})
    assert code == 0 and f"socket        {path} (mode 0666), as NIGH_SOCKET says\n" in printed, printed
    code, printed, _ = run("--memory", "32M", "--check", "--socket", path, env={"NIGH_SOCKET": path + "2"})
    assert code == 0 and f"socket        {path} (mode 0666)\n" in printed, printed
    node = Node()
    expect(IN_USE, [f"answers on {node.path} already", "--socket"], "--memory", "32M", "--socket", node.path, "--check")
    expect(IN_USE, [f"answers on {node.path} already", "NIGH_SOCKET"], "--memory", "32M", "--check",
           env={"NIGH_SOCKET": node.path})
    node.process.kill()  # what a crash leaves behind is replaced
    node.process.wait()
    code, _, said = run("--memory", "32M", "--socket", node.path, "--check")
    assert code == 0 and said == "" and os.path.exists(node.path), said
    node.stop()


@in_folder
def test_the_sample_of_a_configuration(folder, good):
    sample = os.path.join(os.environ["NIGH_SOURCE"], "src", "daemon", "nighd.conf.example")
    code, printed, said = run("--config", sample, "--check", "--socket", folder + "/s")
    assert code == 0 and said == "" and "memory        1.0 GiB" in printed, (code, printed, said)
    # Every line that is commented out is right too. Explanations begin with "# " and a capital letter.
    with open(sample, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("# ")]
    given, key, password = (os.path.join(folder, name) for name in ("nighd.conf", "key", "password"))
    write_key(key)
    write_key(password)
    keys = set()
    for left_out in (("#state", "#ranks", "#name"), "#directory"):  # two ways to keep where objects are: one at a time
        with open(given, "w", encoding="utf-8") as file:
            file.writelines(line.removeprefix("#").replace("/etc/nigh/cluster.key", key)
                            .replace("/etc/nigh/redis.password", password)
                            for line in lines if not line.startswith(left_out))
        with open(given, encoding="utf-8") as file:
            keys |= {line.split("=")[0].strip() for line in file if "=" in line}
        code, printed, said = run("--config", given, "--check", "--socket", folder + "/s")
        assert code == 0 and said == "" and "pool          features:" in printed, (code, printed, said)
    help_text = run("--help")[1]
    options = {line.split()[0][2:] for line in help_text.splitlines() if line.startswith("  --")}
    options -= {"config", "hold", "ready-fd", "check", "version,"}
    assert options <= keys, options - keys


def test_help_and_version():
    code, printed, said = run("--help")
    assert code == 0 and said == ""
    for flag in ("memory", "socket", "lanes", "spin-us", "max-objects", "extent", "huge", "spill", "spill-max",
                 "session-quota", "call-memory", "region-memory", "space-memory", "log-dir", "region-qos", "session-rate", "session-ops", "max-sessions", "max-pins", "config", "hold", "ready-fd", "http", "log-level", "check"):
        assert "--" + flag in printed, flag
    assert max(len(line) for line in printed.splitlines()) <= 100
    for words in ("spill directory", "port for other nodes", "or 32 bytes"):
        assert words in printed, words
    code, printed, _ = run("--version", "--no-such-thing")
    assert code == 0 and printed.startswith("nighd ")


@in_folder
def test_stop_removes_what_start_made(folder, good):
    for number in (signal.SIGTERM, signal.SIGINT):
        node = Node()
        assert node.ready
        assert sorted(os.listdir(os.path.dirname(node.path))) == ["s", "s.lock"]
        node.process.send_signal(number)
        assert node.process.wait(timeout=30) == 0
        assert os.listdir(os.path.dirname(node.path)) == []
        node.stop()


def test_hangup_is_said_and_ignored():
    node = Node()
    node.process.send_signal(signal.SIGHUP)
    assert Session(node.path).call(raw.OP_NOP)[1] == "NIGH_OK"
    code, said = node.stop()
    assert code == 0 and "SIGHUP does nothing" in said


def test_a_socket_left_behind_by_a_crash_is_replaced():
    node = Node()
    node.process.kill()
    node.process.wait()
    assert os.path.exists(node.path)
    again = subprocess.Popen([os.environ["NIGHD"], "--memory", "32M", "--socket", node.path],
                             stderr=subprocess.DEVNULL)
    Node.running.append(again)

    def answers():
        try:
            Session(node.path).close()
            return True
        except OSError:
            return False

    wait_for(answers)
    again.terminate()
    assert again.wait(timeout=30) == 0
    Node.running.remove(again)
    node.stop()


def test_the_mode_of_the_socket():
    node = Node("--socket-mode", "0600")
    assert os.stat(node.path).st_mode & 0o777 == 0o600
    node.stop()
    node = Node()
    assert os.stat(node.path).st_mode & 0o777 == 0o666
    node.stop()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
