#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In the guest: two nodes whose lanes are joined by RDMA, a host each. What one puts the other gets, of any size; transfers
register no memory; a node that is killed in the middle ends every get; a held one serves what it had; nodes that may
not use RDMA say why. With arguments: nodes that have them as flags, too. TAP."""
import collections
import glob
import hashlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from checks import check_all, counted

MIB = 1 << 20
LARGEST = 32 * MIB
# Around what travels in a reply, in messages and in READs, and around chunks of READs and extents.
SIZES = (1, 100, 8191, 8192, 32767, 32768, 100001, MIB - 1, MIB + 1, 5 * MIB + 3, LARGEST)
LARGE = 16 * MIB
AT_ONCE = 6
TRIES = 3
LINK_UP, LINK_DOWN = 'module=link msg="up"', 'module=link msg="down"'  # of --log-level debug
GET_SECONDS = 8  # of a get that nobody may answer
SLOW = 60  # so much later than it should a command may end, in the guest
HOSTS = os.environ["RDMA_GUEST_HOSTS"].split()[:2]
FLAGS = sys.argv[1:]
LANES = (1, 2)
SERVICE, ACK_TIMEOUT, RETRIES = 106, 18, 2  # how packets travel, where that is asked for: 1.07 s for an answer
ROCE_PORT, MANAGEMENT, WIRE_BYTES = 4791, 1, 128  # UDP's; the queue pair of rdma_cm's messages; of a packet, looked at
NOBODY = 65534
SAID = 3000  # characters of a node's log that a failure shows


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


def kernel_has(kind):
    """Of all devices: "qp", "srq", ..."""
    shown = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], check=True, stdout=subprocess.PIPE).stdout)
    return sum(device[kind] for device in shown)


def check_both_use_rdma(folder, one, other):
    wait_for(lambda: are_joined(one, other))
    for node in (one, other):
        assert "fabric=verbs" in node.said(), node.said()
        assert node.numbers()["rdma_lanes"] > 0
    assert kernel_has("srq") == (sum(LANES) if "--shared-receives" in FLAGS else 0)
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
    assert numbers["pulled_bytes_one_sided"] >= LARGEST and numbers["checksum_failures"] == 0, numbers


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
    """The holder writes, and nobody registers anything; what fits a reply needs no window."""
    restart_both(one, other, "--transfer", "push", "--fabric-tos", str(SERVICE), "--fabric-ack-timeout", str(ACK_TIMEOUT),
                 "--fabric-retries", str(RETRIES))
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


class Wire:
    """A copy of each packet of RDMA that comes to a host: its socket is not bound to a port."""

    def __init__(self, number):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, f"h{number}".encode())
        self.socket.setblocking(False)

    def services(self):
        """How many packets of connections came with which type of service; the first ones, as many as a socket holds."""
        found = collections.Counter()
        try:
            while True:
                packet = self.socket.recv(WIRE_BYTES)
                udp = packet[4 * (packet[0] & 15):]
                if int.from_bytes(udp[2:4], "big") == ROCE_PORT and int.from_bytes(udp[13:16], "big") != MANAGEMENT:
                    found[packet[1]] += 1
        except BlockingIOError:
            return found


def check_packets_have_the_class_that_was_asked_for(folder, one, other):
    """Of the nodes that pushed: the packets that come are looked at, of both directions."""
    for node in (one, other):
        assert "does not take an option" not in node.said(), node.said()
    wires = Wire(1), Wire(2)
    move(folder, one, other, "of-a-class", 40000)
    move(folder, other, one, "of-a-class, back", 40000)
    for wire in wires:
        found = wire.services()
        wire.socket.close()
        print(f"# packets by type of service: {dict(found)}", flush=True)
        assert found[SERVICE] >= 40000 // 4096 and len(found) == 1, found


def lose_what_the_first_sends(folder, other):
    """And nothing else, in the middle of a get from it; how long its device asked before it gave up, and how often."""
    before, lost = counted("rxe1", "sent_pkts"), counted("rxe1", "retry_exceeded_err")
    get = other.begin("get", "unheard", "-o", os.path.join(folder, "out"), "--timeout", f"{GET_SECONDS}s")
    wait_for(lambda: counted("rxe1", "sent_pkts") > before + MIB // 4096)
    rule = "pref", "0", "iif", "h2", "ipproto", "udp", "blackhole"
    begun, again = time.monotonic(), counted("rxe1", "completer_retry_err")
    subprocess.run(["ip", "rule", "add", *rule], check=True)
    try:
        wait_for(lambda: counted("rxe1", "retry_exceeded_err") > lost)
        took = time.monotonic() - begun
    finally:
        subprocess.run(["ip", "rule", "del", *rule], check=True)
    get.terminate()
    get.communicate(timeout=SLOW)
    return took, counted("rxe1", "completer_retry_err") - again


def check_an_answer_is_waited_for_as_long_as_was_asked_for(folder, one, other):
    """By default it asks for ever (rxe takes 7 so), and four times as often. On a busy machine it may have asked in vain
    before, as answers were only late."""
    path = os.path.join(folder, "in")
    write(path, LARGE, "unheard")
    one.good("put", "unheard", path)
    for _ in range(TRIES):
        took, again = lose_what_the_first_sends(folder, other)
        print(f"# {again} times sent again, given up after {took:.2f} s", flush=True)
        if again >= RETRIES and took > RETRIES * 4.096e-6 * 2 ** ACK_TIMEOUT:
            return
        wait_for(lambda: are_joined(one, other), 2 * SLOW)
    raise AssertionError("given up too early")


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


def check_objects_are_read_over_as_many_queue_pairs_as_one_asks_for(folder, one, other):
    wait_for(lambda: are_joined(one, other))
    few = kernel_has("qp")
    assert one.end(signal.SIGTERM) == 0, one.said()
    one.start("--fabric-queue-pairs", "3")
    wait_for(lambda: are_joined(one, other), 2 * SLOW)
    # Two more of each link, of which there are as many as the lanes of the node with more, at both ends.
    wait_for(lambda: kernel_has("qp") == few + 2 * 2 * max(LANES))
    move(folder, one, other, "in-turns", LARGEST)
    move(folder, other, one, "in-turns-back", LARGEST)
    assert kernel_has("qp") == few + 2 * 2 * max(LANES)
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
          check_packets_have_the_class_that_was_asked_for, check_an_answer_is_waited_for_as_long_as_was_asked_for,
          check_a_loan_is_registered_where_that_is_asked_for,
          check_objects_are_read_over_as_many_queue_pairs_as_one_asks_for, check_a_kill_ends_every_get, check_it_comes_back,
          check_a_held_node_serves_what_it_had, check_little_locked_memory_is_said)
if "--shared-receives" in FLAGS:
    CHECKS = (check_both_use_rdma, check_what_is_pushed_arrives, check_what_is_sent_at_once_arrives,
              check_a_kill_ends_every_get, check_it_comes_back)


def main():
    print(f"1..{len(CHECKS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        nodes = Node(folder, 0, "--memory", "128M", "--lanes", str(LANES[0]), "--fabric", "verbs", *FLAGS), Node(
            folder, 1, "--memory", "192M", "--lanes", str(LANES[1]), "--fabric", "auto", *FLAGS)
        try:
            return check_all(CHECKS, lambda: [node.fate() for node in nodes], folder, *nodes)
        finally:
            for node in nodes:
                if node.process.poll() is None:
                    node.end(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
