#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In the guest: two nodes whose lanes are joined by RDMA, a host each. What one puts the other gets, of any size; transfers
register no memory; a node that is killed in the middle ends every get; a held one serves what it had; nodes that may
not use RDMA say why. With arguments: nodes that have them as flags, too. TAP."""
import glob
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
# Around what travels in a reply, in messages and in READs, and around chunks of READs and extents.
SIZES = (1, 100, 8191, 8192, 32767, 32768, 100001, MIB - 1, MIB + 1, 5 * MIB + 3, 64 * MIB)
LARGE = 16 * MIB
AT_ONCE = 6
LINK_UP, LINK_DOWN = 'module=link msg="up"', 'module=link msg="down"'  # of --log-level debug
GET_SECONDS = 15  # of a get that nobody may answer
SLOW = 60  # so much later than it should a command may end, in the guest
HOSTS = os.environ["RDMA_GUEST_HOSTS"].split()[:2]
FLAGS = sys.argv[1:]
LANES = (1, 2)
NOBODY = 65534
SAID = 3000  # characters of a node's log that a failure shows
KERNEL_LINES = 160  # of the guest's kernel, likewise: who died of what, what memory there was


class Node:
    hosts = HOSTS

    def __init__(self, folder, rank, *flags):
        self.path, self.log = os.path.join(folder, f"s{rank}"), os.path.join(folder, f"log{rank}")
        join = ",".join(f"{host}:770{n}" for n, host in enumerate(self.hosts))
        self.flags = ["--socket", self.path, "--join", join, "--member", str(rank), "--cluster-key",
                      os.path.join(folder, "key"), "--dead-ms", "20000", *flags]
        self.start()

    def start(self, *more):
        ready, tell = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.environ["NIGHD"], *self.flags, *more, "--ready-fd", str(tell)],
                                            pass_fds=[tell], stderr=log)
        os.close(tell)
        with os.fdopen(ready) as pipe:
            assert pipe.readline() == "ready\n", self.said()

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(timeout=SLOW)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def fate(self):
        """What became of it, and its last words."""
        status = self.process.poll()
        if status is None:
            fate = "still runs"
        elif status < 0:
            fate = f"died of {signal.Signals(-status).name}"
        else:
            fate = f"ended with status {status}"
        return f"{self.path} {fate}; it said:\n{self.said()[-SAID:]}"

    def begin(self, *arguments):
        return subprocess.Popen([os.environ["NIGH"], "--socket", self.path, *arguments], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *arguments):
        process = self.begin(*arguments)
        printed, said = process.communicate(timeout=GET_SECONDS + 2 * SLOW)
        return process.returncode, printed, said.decode()

    def good(self, *arguments):
        code, printed, said = self.run(*arguments)
        assert code == 0, (arguments, code, said, self.said()[-2000:])
        return printed

    def numbers(self):
        return json.loads(self.good("top", "--once", "--json"))


def wait_for(what, seconds=SLOW):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def are_joined(*nodes):
    return all(node.numbers()["links_up"] > 0 for node in nodes)


def write(path, size, seed):
    """A file of that size; its digest."""
    data = random.Random(seed).randbytes(size)
    with open(path, "wb") as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def kernel_said():
    """The last lines of the guest's kernel, and the memory that is left."""
    lines = []
    with open(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as ring:
        while line := ring.read(8192):
            lines.append(line.decode(errors="replace").split(";", 1)[-1].split("\n", 1)[0])
    with open("/proc/meminfo", encoding="ascii") as file:
        return "\n".join(lines[-KERNEL_LINES:]) + "\n" + " ".join(" ".join(line.split()) for line in list(file)[:24])


def move(folder, source, target, name, size):
    path, copy = os.path.join(folder, "in"), os.path.join(folder, "out")
    expected = write(path, size, name)
    source.good("put", name, path)
    begun = time.monotonic()
    target.good("get", name, "-o", copy, "--timeout", f"{2 * SLOW}s")
    took = time.monotonic() - begun
    assert digest(copy) == expected, (name, size)
    print(f"# {size} bytes: {took:.2f} s", flush=True)
    os.unlink(copy)
    os.unlink(path)


def shared_queues():
    """Shared receive queues that the kernel has."""
    shown = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], check=True, stdout=subprocess.PIPE).stdout)
    return sum(device["srq"] for device in shown)


def check_both_use_rdma(folder, one, other):
    wait_for(lambda: are_joined(one, other))
    for node in (one, other):
        assert "fabric=verbs" in node.said(), node.said()
        assert node.numbers()["rdma_lanes"] > 0
    assert shared_queues() == (sum(LANES) if "--shared-receives" in FLAGS else 0), shared_queues()
    finding = {item["subject"]: item for item in json.loads(one.run("doctor", "--json")[1])}["fabric"]
    assert finding["severity"] == "ok" and "the node uses verbs; RDMA can be used" in finding["finding"], finding


def print_counters():
    """What the devices count: packets that come again, or were not expected, cost time."""
    for path in sorted(glob.glob("/sys/class/infiniband/*/ports/1/hw_counters/*")):
        with open(path, encoding="ascii") as file:
            count = file.read().strip()
        if count != "0":
            print(f"# {path.split('/')[4]} {os.path.basename(path)}: {count}")


def check_every_size_arrives(folder, one, other):
    for size in SIZES:
        move(folder, one, other, f"there-{size}", size)
    move(folder, other, one, "back", 5 * MIB + 1)
    print_counters()
    numbers = other.numbers()
    assert numbers["pulled_bytes_one_sided"] >= 64 * MIB and numbers["checksum_failures"] == 0, numbers


def check_transfers_register_nothing(folder, one, other):
    before = [node.numbers()["registrations"] for node in (one, other)]
    for round_ in range(3):
        move(folder, one, other, f"again-{round_}", 5 * MIB)
        move(folder, other, one, f"and-back-{round_}", 40000)
    assert before == [node.numbers()["registrations"] for node in (one, other)]


def restart_both(one, other, *flags):
    for node in (one, other):
        assert node.end(signal.SIGTERM) == 0, node.said()
    for node in (one, other):
        node.start(*flags)
    wait_for(lambda: are_joined(one, other), 2 * SLOW)


def check_what_is_pushed_arrives(folder, one, other):
    """The holder writes, and nobody registers anything; what fits a reply needs no window. And packets travel as they
    are told to."""
    restart_both(one, other, "--transfer", "push", "--fabric-tos", "106", "--fabric-ack-timeout", "18", "--fabric-retries", "5")
    for node in (one, other):
        assert "tos=106 ack_timeout=18 retries=5" in node.said() and "does not take an option" not in node.said(), node.said()
    for source, target in ((one, other), (other, one)):
        move(folder, source, target, f"warm-{source.path}", 8192)  # buffers for answers are registered once
    before = [node.numbers()["registrations"] for node in (one, other)]
    for size in (100, 40000, MIB + 1, 5 * MIB + 3):
        move(folder, one, other, f"pushed-{size}", size)
        move(folder, other, one, f"pushed-back-{size}", size)
    for node in (one, other):
        numbers = node.numbers()
        assert numbers["pulled_bytes_pushed"] >= 6 * MIB and numbers["pulled_bytes_one_sided"] == 0, numbers
        assert numbers["checksum_failures"] == 0 and numbers["pulls_failed"] == 0, numbers
    assert before == [node.numbers()["registrations"] for node in (one, other)]


def check_what_is_sent_at_once_arrives(folder, one, other):
    """More than there are receives: who is granted none waits until another's are given back."""
    restart_both(one, other, "--transfer", "two-sided", "--log-level", "debug")
    path = os.path.join(folder, "in")
    expected = {}
    for n in range(AT_ONCE):
        expected[f"sent-{n}"] = write(path, MIB + n, f"sent-{n}")
        one.good("put", f"sent-{n}", path)
    gets = [(name, other.begin("get", name, "-o", os.path.join(folder, name), "--timeout", f"{2 * SLOW}s"))
            for name in expected]
    for name, get in gets:
        said = get.communicate(timeout=3 * SLOW)[1]
        assert get.returncode == 0, (name, get.returncode, said)
        assert digest(os.path.join(folder, name)) == expected[name], name
    numbers = other.numbers()
    assert numbers["pulled_bytes_one_sided"] == 0 and numbers["pulls_failed"] == 0, numbers
    for node in (one, other):
        assert LINK_UP in node.said() and LINK_DOWN not in node.said(), node.said()
    restart_both(one, other)


def check_a_loan_is_registered_where_that_is_asked_for(folder, one, other):
    restart_both(one, other, "--transfer", "register")
    for source, target in ((one, other), (other, one)):
        move(folder, source, target, f"warm-{source.path}", 8192)
    before = [node.numbers()["registrations"] for node in (one, other)]
    for round_ in range(3):
        move(folder, one, other, f"registered-{round_}", 5 * MIB)
    after = [node.numbers()["registrations"] for node in (one, other)]
    assert [late - early for early, late in zip(before, after)] == [3, 0], (before, after)
    restart_both(one, other)


def check_a_kill_ends_every_get(folder, one, other):
    path = os.path.join(folder, "large")
    for n in range(3):
        write(path, LARGE, n)
        one.good("put", f"large-{n}", path)
    os.unlink(path)
    gets = [other.begin("get", f"large-{n}", "-o", os.path.join(folder, f"out{n}"), "--timeout", f"{GET_SECONDS}s")
            for n in range(3)]
    wait_for(lambda: one.numbers()["loans"] > 0)
    one.end(signal.SIGKILL)
    begun = time.monotonic()
    codes = [(get.communicate(timeout=GET_SECONDS + SLOW), get.returncode)[1] for get in gets]
    print(f"# they ended {time.monotonic() - begun:.1f} s after the kill, with {codes}", flush=True)
    assert any(code != 0 for code in codes), "it was killed too late"
    numbers = other.numbers()
    assert numbers["checksum_failures"] == 0


def check_it_comes_back(folder, one, other):
    one.start()
    wait_for(lambda: are_joined(one, other), 2 * SLOW)
    move(folder, one, other, "after", 3 * MIB)
    move(folder, other, one, "after, back", 3 * MIB)


def child_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return int(children[0]) if children else 0


def check_a_held_node_serves_what_it_had(folder, one, other):
    """Its memory stays with its holder, and is registered anew by who comes after."""
    assert one.end(signal.SIGTERM) == 0, one.said()
    one.start("--hold")
    wait_for(lambda: are_joined(one, other), 2 * SLOW)
    path, copy = os.path.join(folder, "in"), os.path.join(folder, "out")
    expected = write(path, LARGE, "kept")
    one.good("put", "kept", path)
    first = child_of(one.process)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: child_of(one.process) not in (0, first))
    before = other.numbers()["pulled_bytes_one_sided"]
    other.good("get", "kept", "-o", copy, "--timeout", f"{2 * SLOW}s")
    assert digest(copy) == expected
    assert other.numbers()["pulled_bytes_one_sided"] >= before + LARGE and one.numbers()["rdma_lanes"] > 0


def as_nobody():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (MIB, MIB))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def check_little_locked_memory_is_said(folder, one, other):
    key = os.path.join(folder, "key-of-nobody")
    with open(key, "w", encoding="ascii") as file:
        file.write("00112233" * 8 + "\n")
    os.chmod(key, 0o600)
    os.chown(key, NOBODY, NOBODY)
    os.chmod(folder, 0o777)
    flags = ["--socket", os.path.join(folder, "s9"), "--join", f"{HOSTS[0]}:7711,{HOSTS[1]}:7712", "--member", "0",
             "--cluster-key", key, "--memory", "64M"]
    done = subprocess.run([os.environ["NIGHD"], *flags, "--fabric", "verbs"], preexec_fn=as_nobody, timeout=SLOW,
                          stderr=subprocess.PIPE)
    assert done.returncode != 0 and b"may be locked" in done.stderr and b"--fabric tcp" in done.stderr, done
    with subprocess.Popen([os.environ["NIGHD"], *flags, "--fabric", "auto"], preexec_fn=as_nobody,
                          stderr=subprocess.PIPE) as auto:
        line = b""
        for line in auto.stderr:
            if b"fabric=" in line:
                break
        auto.terminate()
        auto.stderr.read()
    assert b"fabric=tcp" in line and b"may be locked" in line, line


CHECKS = (check_both_use_rdma, check_every_size_arrives, check_transfers_register_nothing, check_what_is_pushed_arrives,
          check_a_loan_is_registered_where_that_is_asked_for, check_a_kill_ends_every_get, check_it_comes_back,
          check_a_held_node_serves_what_it_had, check_little_locked_memory_is_said)
if "--shared-receives" in FLAGS:
    CHECKS = (check_both_use_rdma, check_what_is_pushed_arrives, check_what_is_sent_at_once_arrives,
              check_a_kill_ends_every_get, check_it_comes_back)


def check_all(folder, one, other):
    """How many failed: none, or the first that did."""
    for number, check in enumerate(CHECKS, 1):
        name = check.__name__[6:].replace("_", " ")
        try:
            check(folder, one, other)
        except (AssertionError, ValueError, OSError, subprocess.TimeoutExpired) as problem:
            print(f"not ok {number} - {name}")
            for line in "\n".join((str(problem), one.fate(), other.fate(), kernel_said())).splitlines():
                print("# " + line)
            return 1
        print(f"ok {number} - {name}", flush=True)
    return 0


def main():
    print(f"1..{len(CHECKS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        nodes = Node(folder, 0, "--memory", "256M", "--lanes", str(LANES[0]), "--fabric", "verbs", *FLAGS), Node(
            folder, 1, "--memory", "384M", "--lanes", str(LANES[1]), "--fabric", "auto", *FLAGS)
        try:
            return check_all(folder, *nodes)
        finally:
            for node in nodes:
                if node.process.poll() is None:
                    node.end(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
