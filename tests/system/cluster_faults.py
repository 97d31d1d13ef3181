#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Several real nodes, and what goes wrong between them: holders, pullers and homes that are killed or stopped, links
that are cut, healed and slow, objects deleted and made anew under readers. Every get must end with the right bytes of
one birth, or a status, by its deadline; nothing may be held afterwards. Also: a thousand pulls between eight nodes."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402

LOAD = os.environ["CLUSTER_LOAD"]
KEY = "00112233445566778899aabbccddeeff" * 2
# A sanitizer keeps what was freed, up to 256 MiB, and shadows what was touched: its builds show other faults than leaks
# of memory, and find those at exit.
GROWTH_TIMES = 24 if "NIGH_SANITIZED" in os.environ else 1
# Eight nodes on a busy machine may be longer about an answer than a call waits, two seconds: another is asked then,
# and both have sent it. Under a sanitizer most may be.
SERVED_TIMES = 3 if "NIGH_SANITIZED" in os.environ else 1.25


# In a guest that has them (tools/rdma-guest) each node is at one, with a device of its own.
RDMA_HOSTS = os.environ.get("RDMA_GUEST_HOSTS", "").split()


class Cluster:
    """Nodes that know each other. prefix(rank): the command that each is started by."""

    def __init__(self, count, memory="64M", flags=(), hosts=None, prefix=None, lanes=None, dead_ms=1500):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        self.dead_ms = str(dead_ms)
        self.memory, self.flags = memory, list(flags)
        self.prefix = prefix or (lambda rank: [])
        self.lanes = lanes or [1] * count
        if hosts is None and RDMA_HOSTS:
            hosts, self.flags = RDMA_HOSTS[:count], [*self.flags, "--fabric", "verbs"]
        hosts = hosts or ["127.0.0.1"] * count
        self.join = ",".join(f"{host}:{port}" for host, port in zip(hosts, free_ports(count)))
        self.key = os.path.join(self.folder.name, "key")
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(KEY)
        self.processes = [None] * count
        for rank in range(count):
            self.start(rank)
        for rank in range(count):
            self.wait_ready(rank)
        self.wait_met()

    def socket(self, rank):
        return os.path.join(self.folder.name, f"s{rank}")

    def log(self, rank):
        with open(os.path.join(self.folder.name, f"log{rank}"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def start(self, rank):
        with open(os.path.join(self.folder.name, f"log{rank}"), "ab") as log:
            process = subprocess.Popen(
                [*self.prefix(rank), os.environ["NIGHD"], "--memory", self.memory, "--socket", self.socket(rank),
                 "--join", self.join, "--member", str(rank), "--cluster-key", self.key, "--dead-ms", self.dead_ms,
                 "--spin-us", "0", "--lanes", str(self.lanes[rank]), *self.flags], stderr=log)
        self.processes[rank] = process
        raw.Node.running.append(process)

    def wait_ready(self, rank):
        def ready():
            assert self.processes[rank].poll() is None, self.log(rank)
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
                    one.connect(self.socket(rank))
                return self.log(rank).count("node started") > 0
            except OSError:
                return False

        wait_for(ready, 20)

    def nodes(self, rank):
        """What a node thinks of the others: states by rank."""
        result = subprocess.run([os.environ["NIGH"], "nodes", "--json", "--socket", self.socket(rank)],
                                stdout=subprocess.PIPE, check=True, timeout=20)
        return {item["rank"]: item["state"] for item in json.loads(result.stdout)}

    def stats(self, rank):
        result = subprocess.run([os.environ["NIGH"], "top", "--once", "--json", "--socket", self.socket(rank)],
                                stdout=subprocess.PIPE, check=True, timeout=20)
        return json.loads(result.stdout)

    def wait_met(self, states=None):
        """Until every running node sees the others as `states` says (up, if it says nothing)."""
        running = [rank for rank, process in enumerate(self.processes) if process is not None]
        for rank in running:
            wait_for(lambda: all(state == (states or {}).get(other, "up")
                                 for other, state in self.nodes(rank).items() if other != rank), 20)

    def kill(self, rank):
        process = self.processes[rank]
        process.kill()
        process.wait()
        raw.Node.running.remove(process)
        self.processes[rank] = None

    def stop(self, rank, stopped=True):
        self.processes[rank].send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)

    def begin(self, rank, *arguments, prefix=()):
        return subprocess.Popen([*prefix, LOAD, self.socket(rank), *map(str, arguments)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)

    @staticmethod
    def end(process, timeout=60):
        """What a load printed last; it fails on a wrong byte or a late get."""
        printed = process.communicate(timeout=timeout)[0].decode().splitlines()
        assert process.returncode == 0, (process.returncode, printed)
        return json.loads(printed[-1])

    def load(self, rank, *arguments, timeout=60):
        return self.end(self.begin(rank, *arguments), timeout)

    def put(self, rank, first, count, size, life=1):
        result = self.load(rank, "put", first, count, size, life)
        assert result["statuses"] == {"NIGH_OK": count}, result

    def get_all(self, rank, first, count, size, timeout_ms=10000):
        result = self.load(rank, "get", first, count, size, timeout_ms)
        assert result["statuses"] == {"NIGH_OK": count}, result
        return result

    def resident_kib(self, rank):
        """Anonymous memory of a node: its books, without the shared memory of objects."""
        with open(f"/proc/{self.processes[rank].pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))

    def close(self):
        """Stops the nodes, once nothing is lent or pulled any more."""
        for rank, process in enumerate(self.processes):
            if process is not None:
                wait_for(lambda: self.stats(rank)["loans"] == 0, 20)
        for rank, process in enumerate(self.processes):
            if process is None:
                continue
            process.terminate()
            assert process.wait(30) == 0, (rank, self.log(rank)[-2000:])
            raw.Node.running.remove(process)
        self.folder.cleanup()


def pulled_bytes(stats):
    return stats["pulled_bytes_two_sided"] + stats["pulled_bytes_one_sided"] + stats["pulled_bytes_pushed"]


def only(result, *statuses):
    """Whether nothing but these came."""
    assert set(result["statuses"]) <= set(statuses), result
    return sum(result["statuses"].values())


# ---- a thousand pulls


def test_a_thousand_pulls_between_eight_nodes():
    cluster = Cluster(8, dead_ms=20000)  # a machine that is too busy for eight makes none of them dead
    for rank in range(8):
        cluster.put(rank, rank * 125, 125, 16384)
    before = [cluster.resident_kib(rank) for rank in range(8)]
    # Two on each node want all of it, at once.
    loads = [cluster.begin(rank, "get", 0, 1000, 16384, 50000) for rank in range(8) for _ in range(2)]
    for load in loads:
        result = cluster.end(load, 90)
        assert result["statuses"] == {"NIGH_OK": 1000}, result
    grown = [cluster.resident_kib(rank) - before[rank] for rank in range(8)]
    print("# anonymous memory before, KiB:", before, "grown by", grown)
    assert max(grown) < 32768 * GROWTH_TIMES, grown
    # Nobody pulled anything twice, or what it had itself, and nobody sent what was not wanted. What was lent is
    # counted when the word comes that it was taken, which may be after those that wanted it have it.
    wanted = 8 * 875 * 16384
    wait_for(lambda: sum(cluster.stats(rank)["served_bytes"] for rank in range(8)) >= wanted, 20)
    stats = [cluster.stats(rank) for rank in range(8)]
    assert [one["pulls"] for one in stats] == [875] * 8, stats
    assert [pulled_bytes(one) for one in stats] == [875 * 16384] * 8, stats
    served = sum(one["served_bytes"] for one in stats)
    assert wanted <= served <= wanted * SERVED_TIMES, (served, wanted)
    # Everything is everywhere now, and nothing is asked for again.
    for rank in range(8):
        cluster.get_all(rank, 0, 1000, 16384, 0)
    cluster.close()


def test_nodes_of_one_two_and_four_lanes():
    cluster = Cluster(3, memory="256M", lanes=[1, 4, 2])
    for rank in range(3):
        cluster.put(rank, rank * 100, 100, 9000)
        cluster.put(rank, 10000 + rank * 5, 5, 3 << 20)
    for rank in range(3):
        cluster.get_all(rank, 0, 300, 9000)
        cluster.get_all(rank, 10000, 15, 3 << 20)
    # In use: a holder has not seen yet that what it sent is out.
    assert only(cluster.load(1, "rm", 0, 300), "NIGH_OK", "NIGH_IN_USE") == 300
    for rank in range(3):
        assert cluster.load(rank, "get", 0, 300, 9000, 100)["statuses"] == {"NIGH_TIMEOUT": 300}
    cluster.kill(1)
    cluster.wait_met({1: "dead"})
    cluster.start(1)
    cluster.wait_ready(1)
    cluster.wait_met()
    cluster.get_all(1, 10000, 5, 3 << 20)
    cluster.close()


def test_bench_transfer():
    cluster = Cluster(2, memory="512M")
    for rank, flags in ((0, ["--offer"]), (1, [])):
        result = subprocess.run([os.environ["NIGH"], "bench", "transfer", *flags, "--json", "--timeout", "60s", "--socket",
                                 cluster.socket(rank)], stdout=subprocess.PIPE, check=True, timeout=300)
    rows = json.loads(result.stdout)
    assert [row["size_bytes"] for row in rows] == [1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20]
    assert all(row["get_us"] > 0 for row in rows)
    assert cluster.stats(0)["objects"] == 0, "it uses up what was offered"
    cluster.close()


# ---- deaths


STEP_S = 0.002  # in which nobody moves 32 MiB


# A busy machine may be long about the steps, between which the node stands still: that is not to make it dead to the
# others, nor the end of a get.
STEPS_S = 60
PATIENT_MS = 2 * STEPS_S * 1000


class Watcher:
    """Counters of a node by a session of its own: no program is begun for each look, so that between two steps there is
    less time than a call waits. Of what the node does in a step it may say the count in the next one."""

    def __init__(self, cluster, rank):
        self.session = raw.Session(cluster.socket(rank))
        with open(os.path.join(os.environ["NIGH_SOURCE"], "include/nigh/object.h"), encoding="utf-8") as header:
            table = header.read().partition("#define NIGH_NODE_STATS_TABLE(X)")[2]
        self.names = re.findall(r"X\((\w+), \"", table)
        self.asked = 0

    def last(self, name):
        """As it was when it answered last; it is asked anew."""
        at = self.session.base(0) + raw.REPLY + 8 * self.names.index(name)
        count = struct.unpack("<Q", self.session.memory[at:at + 8])[0]
        if self.session.completions() == self.asked:
            self.session.put(self.session.base(0) + raw.CQ_HEAD, self.asked)
            self.session.submit(raw.OP_STATS)
            self.asked += 1
        return count

    def now(self, name):
        """Of a node that runs."""
        self.last(name)
        wait_for(lambda: self.session.completions() == self.asked)
        return self.last(name)


def go_in_steps(cluster, rank, load, condition):
    """A node that stands still goes on a step at a time until a condition holds, and stands still again."""
    def holds():
        assert load.poll() is None, "no load was faster than its steps"
        cluster.stop(rank, False)
        time.sleep(STEP_S)
        cluster.stop(rank)
        return condition()

    wait_for(holds, STEPS_S)


def test_holder_killed_amid_a_thousand_transfers():
    cluster = Cluster(3, memory="128M", dead_ms=PATIENT_MS)
    cluster.put(0, 0, 1000, 65536)
    watcher = Watcher(cluster, 1)
    cluster.stop(1)
    loads = [cluster.begin(1, "get", 0, 1000, 65536, PATIENT_MS)]
    # What the holder has served need not have come: who stood still for longer than a call waits asks once more.
    go_in_steps(cluster, 1, loads[0], lambda: watcher.last("objects") > 0)
    cluster.kill(0)
    cluster.stop(1, False)
    watcher.session.close()
    # What came is there for the third, from the second, and no more than that.
    wait_for(lambda: cluster.nodes(1)[0] != "up" and cluster.stats(1)["pulls"] == cluster.stats(1)["objects"], 20)
    came = cluster.stats(1)["objects"]
    assert 0 < came < 1000, "it was killed in the middle"
    result = cluster.load(2, "get", 0, 1000, 65536, 1000)
    assert only(result, "NIGH_OK", "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 1000
    print("# came before the holder was killed:", came, "the third node got", result["statuses"].get("NIGH_OK"))
    assert result["statuses"].get("NIGH_OK", 0) <= came, result
    # The holder comes back without them: their ids may be used again, but for those that came (their homes refuse
    # another birth, which is dropped then), and the gets go on.
    cluster.start(0)
    cluster.wait_ready(0)
    cluster.wait_met()
    loads.append(cluster.begin(2, "get", 0, 1000, 65536, PATIENT_MS))
    assert only(cluster.load(0, "put", 0, 1000, 65536, 2), "NIGH_OK", "NIGH_EXISTS") == 1000
    for load in loads:
        result = cluster.end(load)
        assert result["statuses"] == {"NIGH_OK": 1000}, result
        assert result["lives"] == {"1": came, "2": 1000 - came}, result
    cluster.close()


def test_another_holder_takes_over():
    cluster = Cluster(3, memory="128M", dead_ms=PATIENT_MS)
    cluster.put(0, 0, 500, 65536)
    cluster.get_all(1, 0, 500, 65536)
    watcher = Watcher(cluster, 0)
    served = watcher.now("served_bytes")
    cluster.stop(2)
    load = cluster.begin(2, "get", 0, 500, 65536, PATIENT_MS)
    go_in_steps(cluster, 2, load, lambda: watcher.now("served_bytes") > served + 20 * 65536)
    came = watcher.now("served_bytes") - served
    print("# had come of it before the holder was killed:", came // 65536)
    assert came < 500 * 65536, "it was killed in the middle"
    cluster.kill(0)
    cluster.stop(2, False)
    # Those whose home died with it are out of reach, as homes do not move; all others come.
    wait_for(lambda: cluster.stats(2)["pulls"] > 200, 30)
    cluster.start(0)
    cluster.wait_ready(0)
    # Now its directory is built anew from those who have them.
    result = cluster.end(load)
    assert result["statuses"] == {"NIGH_OK": 500}, result
    cluster.close()


def stop_amid_a_loan(cluster, number, size):
    """A get of an object of node 0 by node 1, which is stopped when it has a loan: with what it is stopped at it stays.
    The puller runs in steps that are too short for the object, so that the look between two of them cannot miss it."""
    watcher = Watcher(cluster, 0)
    cluster.stop(1)
    load = cluster.begin(1, "get", number, 1, size, 30000)
    go_in_steps(cluster, 1, load, lambda: watcher.now("loans") > 0)
    watcher.session.close()
    return load


def test_puller_killed_with_loans():
    cluster = Cluster(2, memory="96M", dead_ms=PATIENT_MS)
    cluster.put(0, 0, 1, 32 << 20)
    for _ in range(5):
        load = stop_amid_a_loan(cluster, 0, 32 << 20)
        cluster.kill(1)
        load.kill()
        load.communicate()
        cluster.start(1)
        cluster.wait_ready(1)
        cluster.wait_met()
    # Nothing is lent any more: all of the holder's memory can be had for others.
    wait_for(lambda: cluster.stats(0)["loans"] == 0, 20)
    assert cluster.load(0, "rm", 0, 1)["statuses"] == {"NIGH_OK": 1}
    cluster.put(0, 100, 23, 4 << 20)
    cluster.get_all(1, 110, 5, 4 << 20)
    cluster.close()


def test_puller_stopped_with_loans():
    cluster = Cluster(2, memory="160M")
    cluster.put(0, 0, 1, 64 << 20)
    load = stop_amid_a_loan(cluster, 0, 64 << 20)
    # It is lost for the holder, whose loan ends with the link: its memory can be had, and is needed.
    wait_for(lambda: cluster.nodes(0)[1] == "dead", 30)
    cluster.put(0, 100, 1, 120 << 20, 3)
    cluster.put(0, 120, 8, 4 << 20, 3)
    cluster.stop(1, False)
    result = cluster.end(load, 90)
    assert only(result, "NIGH_OK", "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 1
    cluster.wait_met()
    cluster.get_all(1, 120, 8, 4 << 20)
    cluster.close()


def test_home_killed_and_back():
    cluster = Cluster(3)
    cluster.put(0, 0, 300, 4096)
    cluster.kill(2)
    cluster.wait_met({2: "dead"})
    start = time.monotonic()
    result = cluster.load(1, "get", 0, 300, 4096, 1500)
    assert only(result, "NIGH_OK", "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 300
    assert result["statuses"]["NIGH_OK"] >= 100, result
    assert time.monotonic() - start < 20
    cluster.start(2)
    cluster.wait_ready(2)
    # Its directory is built anew by those who hold.
    cluster.get_all(1, 0, 300, 4096, 20000)
    cluster.get_all(2, 0, 300, 4096, 20000)
    cluster.close()


# ---- births


def test_deleted_and_made_anew_under_readers():
    cluster = Cluster(3)
    size, lives = 100000, 12
    for life in range(1, lives + 1):
        maker = life % 3
        cluster.put(maker, 0, 20, size, life)
        readers = [cluster.begin(rank, "hold", 0, 20, size, 5000) for rank in range(3)]
        for reader in readers:
            assert reader.stdout.readline() == b"held\n"
        result = cluster.load((life + 1) % 3, "rm", 0, 20)
        assert only(result, "NIGH_OK", "NIGH_IN_USE") == 20, result
        for reader in readers:
            # Its bytes are still those of one birth, of this life.
            assert cluster.end(reader)["lives"] == {str(life): 40}
    # What is deleted is nowhere.
    for rank in range(3):
        result = cluster.load(rank, "get", 0, 20, size, 200)
        assert result["statuses"] == {"NIGH_TIMEOUT": 20}, result
    cluster.close()


def test_waits_for_a_seal_on_another_node():
    cluster = Cluster(3)
    waiting = [cluster.begin(rank, "get", 0, 50, 5000, 20000) for rank in range(3)]
    cluster.put(0, 25, 25, 5000)
    cluster.put(2, 0, 25, 5000)
    for load in waiting:
        assert cluster.end(load)["statuses"] == {"NIGH_OK": 50}
    cluster.close()


# ---- links


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Links:
    """Two network name spaces and a link between them."""

    def __init__(self):
        self.names = [f"nigh{os.getpid()}-{n}" for n in range(2)]
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "to1", "netns", self.names[0], "type", "veth", "peer", "name", "to0", "netns", self.names[1])
        for n, device in enumerate(("to1", "to0")):
            ip("-n", self.names[n], "addr", "add", f"10.77.0.{n + 1}/24", "dev", device)
            ip("-n", self.names[n], "link", "set", device, "up")
            ip("-n", self.names[n], "link", "set", "lo", "up")

    def cut(self, is_cut):
        ip("-n", self.names[0], "link", "set", "to1", "down" if is_cut else "up")

    def slow(self, rate):
        """Limits what the first may send; None: as it was."""
        command = ["ip", "netns", "exec", self.names[0], "tc", "qdisc"]
        if rate is None:
            subprocess.run([*command, "del", "dev", "to1", "root"], check=True)
        else:
            subprocess.run([*command, "add", "dev", "to1", "root", "tbf", "rate", rate, "burst", "64k", "latency",
                            "100ms"], check=True)

    def close(self):
        for name in self.names:
            ip("netns", "del", name)


def test_a_link_cut_healed_and_slow():
    if os.geteuid() != 0:
        print("# skipped: name spaces need root")
        return
    links = Links()
    try:
        cluster = Cluster(2, memory="128M", hosts=["10.77.0.1", "10.77.0.2"],
                          prefix=lambda rank: ["ip", "netns", "exec", links.names[rank]])
        cluster.put(0, 0, 10, 4 << 20)
        cluster.get_all(1, 0, 2, 4 << 20)
        # Slow: the transfer takes its time, and comes.
        links.slow("80mbit")
        load = cluster.begin(1, "get", 2, 4, 4 << 20, 30000)
        assert cluster.end(load)["statuses"] == {"NIGH_OK": 4}
        # Cut in the middle, and healed before anybody is dead or after: it comes all the same. Slower, as cutting takes a
        # busy machine its time, too.
        links.slow(None)
        links.slow("20mbit")
        for first, is_long in ((6, False), (8, True)):
            pulls = cluster.stats(1)["pulls"]
            load = cluster.begin(1, "get", first, 2, 4 << 20, 40000)
            wait_for(lambda: cluster.stats(0)["loans"] > 0, 20)
            links.cut(True)
            healed = time.monotonic() + 0.5
            assert cluster.stats(0)["loans"] > 0 and cluster.stats(1)["pulls"] < pulls + 2, "cut in the middle"
            if is_long:
                wait_for(lambda: cluster.nodes(0)[1] == "dead" and cluster.nodes(1)[0] == "dead", 30)
                assert cluster.stats(0)["loans"] == 0, "the end of a link is the end of its loans"
            else:
                wait_for(lambda: time.monotonic() >= healed, 20)
            links.cut(False)
            assert cluster.end(load, 90)["statuses"] == {"NIGH_OK": 2}
        # Cut for good: a status, by the deadline.
        links.slow(None)
        cluster.put(0, 100, 1, 1 << 20)
        links.cut(True)
        result = cluster.load(1, "get", 100, 1, 1 << 20, 1000)
        assert only(result, "NIGH_TIMEOUT", "NIGH_PEER_LOST") == 1
        cluster.close()
    finally:
        links.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
