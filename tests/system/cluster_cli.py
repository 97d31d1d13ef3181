#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two nodes and what a user does with them: the verbs of nigh on either side, nodes that come, go and come back, and
nodes that are kept out."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402

OK, FAILED, NOT_FOUND, UNREACHABLE, FULL, TIMEOUT, CORRUPT, EXISTS = 0, 1, 3, 4, 6, 7, 8, 9
MIB = 1 << 20


class Member:
    """One node of a cluster, and nigh on its machine."""

    def __init__(self, folder, rank, join, key, *flags):
        self.path, self.log = os.path.join(folder, f"s{rank}"), os.path.join(folder, f"log{rank}")
        self.flags = ["--socket", self.path, "--join", join, "--member", str(rank), "--cluster-key", key, *flags]
        self.process = None
        self.start()

    def start(self):
        """Starts nighd; returns when it serves clients."""
        ready, tell = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["NIGHD"], "--memory", "192M", *self.flags, "--ready-fd", str(tell)], pass_fds=[tell],
                stderr=log)
        raw.Node.running.append(self.process)
        os.close(tell)
        with os.fdopen(ready) as pipe:
            assert pipe.readline() == "ready\n", self.said()

    def end(self, number=signal.SIGTERM):
        """Ends nighd; its exit code."""
        self.process.send_signal(number)
        raw.Node.running.remove(self.process)
        code = self.process.wait(timeout=30)
        self.process = None
        return code

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def begin(self, *arguments):
        return subprocess.Popen([os.environ["NIGH"], "--socket", self.path, *arguments], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments, data=b""):
        """Runs nigh: exit code, what it printed, what it said."""
        process = self.begin(*arguments)
        printed, said = process.communicate(data, timeout=60)
        return process.returncode, printed, said.decode()

    def good(self, *arguments, data=b""):
        code, printed, said = self.run(*arguments, data=data)
        assert code == OK, (arguments, code, said)
        return printed

    def parsed(self, *arguments):
        return json.loads(self.good(*arguments, "--json"))

    def numbers(self):
        return self.parsed("top", "--once")

    def states(self):
        return [item["state"] for item in self.parsed("nodes")]

    def names(self):
        return {item["name"]: item["copy"] for item in self.parsed("ls")}

    def places(self, name):
        """Ranks of the other nodes that have an object."""
        return [item["rank"] for item in self.parsed("who", name)["nodes"]]


class Cluster:
    """Two nodes that know each other; flags are both nodes'."""

    def __init__(self, *flags, keys=("00112233" * 8,) * 2, joins=None, host="127.0.0.1", member=Member):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        shown = f"[{host}]" if ":" in host else host
        self.join = ",".join(f"{shown}:{port}" for port in free_ports(2, host))
        self.members = []
        for rank in range(2):
            key = os.path.join(self.folder.name, f"key{rank}")
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(keys[rank] + "\n")
            join = joins[rank](self.join) if joins else self.join
            self.members.append(member(self.folder.name, rank, join, key, *flags))

    def __enter__(self):
        return self.members

    def __exit__(self, kind, error, trace):
        for member in self.members:
            if member.process is not None:
                code = member.end()
                assert error is not None or code == 0, (code, member.said()[-2000:])
            if error is not None:
                print("# " + "\n# ".join(member.said().splitlines()[-20:]))
        self.folder.cleanup()

    def wait_met(self):
        """Returns when both are up for each other, with links that carry objects, and all is announced."""
        for member in self.members:
            wait_for(lambda: member.states() == ["up", "up"] and member.numbers()["links_up"] > 0)
        return self


def is_known(member, name):
    """Whether a node can say by now where an object is, on others too."""
    return "nodes_status" not in member.parsed("who", name)


def remove(member, members, *names):
    """Removes all that there is; it is gone on all nodes when rm returns. But one that has sent an object may not have
    seen yet that it is out: rm says then that it is in use, and it goes as soon as that is seen."""
    code, _, said = member.run("rm", *names)
    assert code == OK, said
    if "in use" in said:
        print("#", said.strip())
        wait_for(lambda: all(each.names() == {} for each in members))
    for each in members:
        assert each.names() == {}, "gone on both when rm returns"


# ---- objects


def test_nodes_see_each_other():
    with Cluster().wait_met() as (a, b):
        for rank, member in enumerate((a, b)):
            nodes = member.parsed("nodes")
            assert [node["rank"] for node in nodes] == [0, 1]
            assert [node["self"] for node in nodes] == [rank == 0, rank == 1]
            assert [node["address"] for node in nodes] == a.flags[3].split(",")
            assert all(node["incarnation"] > 0 for node in nodes)
        assert a.parsed("nodes")[1]["incarnation"] == b.parsed("nodes")[1]["incarnation"]
        lines = a.good("nodes").decode().splitlines()
        assert len(lines) == 3 and "(this node)" in lines[1] and "up" in lines[2], lines
        findings = {item["subject"]: item for item in json.loads(a.run("doctor", "--json")[1])}
        assert findings["cluster"]["severity"] == "ok" and "2 of 2" in findings["cluster"]["finding"]
        assert findings["fabric"]["finding"].startswith("the node uses tcp; "), findings["fabric"]
        for subject, remedy in (("agreement", "--state DIR at all nodes"), ("lives", "--state DIR")):
            assert findings[subject]["severity"] == "note" and remedy in findings[subject]["remedy"], findings
        for subject in ("clock", "lanes", "reach", "options"):
            assert subject not in findings, findings
        assert a.parsed("top", "--once")["rdma_lanes"] == 0 < a.parsed("top", "--once")["registrations"]
        shown = a.good("top", "--once").decode()
        for words in ("1 links up", "members   ", "others answer datagrams"):
            assert words in shown, shown
        for words in ("views", "servers reached", "replicas  "):
            assert words not in shown, "where there are none"


def test_what_one_puts_the_other_gets():
    sizes = (0, 1, 63, 4096, 8191, 8192, 8193, 32767, 32768, 65537, MIB - 1, MIB, MIB + 1, 9 * MIB + 5, 64 * MIB)
    with Cluster().wait_met() as (a, b):
        for number, size in enumerate(sizes):
            here, there = (a, b) if number % 2 == 0 else (b, a)
            data = os.urandom(size)
            here.good("put", f"o{size}", "-", "--meta", f"meta of {size}", data=data)
            assert there.good("get", f"o{size}") == data, size
            assert there.good("get", f"o{size}", "--meta").decode() == f"meta of {size}"
            assert there.names()[f"o{size}"] is True and here.names()[f"o{size}"] is False
            sums = [member.parsed("stat", f"o{size}", "--checksum")[0] for member in (here, there)]
            assert sums[0]["crc32c"] == sums[1]["crc32c"] and sums[1]["meta_size"] == len(f"meta of {size}")
            assert all(sums[0][word] == sums[1][word] for word in ("incarnation", "birth_counter")), sums
            assert here.places(f"o{size}") == [1 if here is a else 0]
            assert "copy of another" in there.good("stat", f"o{size}").decode()
        for member in (a, b):
            numbers = member.numbers()
            assert numbers["pulls"] >= len(sizes) // 2 and numbers["pulls_failed"] == 0, numbers
            assert numbers["pulled_bytes_two_sided"] > 0 and numbers["pulled_bytes_one_sided"] > 8 * MIB
            assert numbers["served_bytes"] > 8 * MIB and numbers["checksum_failures"] == 0
            wait_for(lambda: member.numbers()["loans"] == 0)
        assert sum(member.numbers()["directory_keys"] for member in (a, b)) == len(sizes)


def warm_up(a, b):
    """Large answers in both directions: the lanes have buffers for them, registered once. What is registered."""
    for name, here, there in (("warm", a, b), ("and back", b, a)):
        here.good("put", name, "-", data=bytes(8192))
        there.good("get", name)
    return [member.numbers()["registrations"] for member in (a, b)]


def move_all(a, b):
    """Objects that come inline, in one message, in many, from several extents; how many."""
    sizes = (0, 1, 8192, 8193, 262143, 262144, 262145, 5 * MIB + 3, 20 * MIB)
    for number, size in enumerate(sizes):
        here, there = (a, b) if number % 2 == 0 else (b, a)
        data = os.urandom(size)
        here.good("put", f"o{size}", "-", "--meta", "meta", data=data)
        assert there.good("get", f"o{size}") == data, size
    for member in (a, b):
        numbers = member.numbers()
        assert numbers["pulls_failed"] == 0 == numbers["checksum_failures"], numbers
        wait_for(lambda: member.numbers()["loans"] == 0)
    return len(sizes)


def test_links_are_measured_when_they_are_up_and_when_asked_for():
    with Cluster("--lanes", "2").wait_met() as (a, b):
        for here, there in ((a, 1), (b, 0)):
            wait_for(lambda: here.parsed("nodes")[there]["crossover"] == "known", 60)
            assert here.parsed("nodes")[1 - there]["crossover"] == "unknown", "of oneself there is nothing to know"
            assert [node["calls"] for node in here.parsed("nodes")][there] == "sent", "over TCP"
        pulls = b.numbers()["pulls"]
        nodes = b.parsed("nodes", "--measure", "--timeout", "60s")
        assert nodes[0]["crossover"] == "known" and 32 * 1024 <= nodes[0]["crossover_bytes"] <= MIB, nodes
        assert b.numbers()["pulls"] == pulls, "no object went"
        lines = b.good("nodes", "-m", "-t", "60s").decode().splitlines()
        assert "CROSSOVER" in lines[0] and "KiB" in lines[1] and " - " in lines[2], lines
    with Cluster("--transfer", "two-sided").wait_met() as (a, b):
        code, _, said = a.run("nodes", "--measure")
        assert code == FAILED and "does not measure" in said, (code, said)
        assert a.parsed("nodes")[1]["crossover"] == "unknown"


def connections(*members):
    """Established connections of TCP of each."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file]
    up = {f"socket:[{row[9]}]" for row in rows if row[3] == "01"}
    found = []
    for member in members:
        folder = f"/proc/{member.process.pid}/fd"
        links = []
        for number in os.listdir(folder):
            try:
                links.append(os.readlink(os.path.join(folder, number)))
            except FileNotFoundError:
                pass
        found.append(len(up.intersection(links)))
    return found


def test_objects_are_read_over_as_many_connections_as_one_asks_for():
    cluster = Cluster("--lanes", "1", "--transfer", "one-sided")
    with cluster.wait_met() as (a, b):
        few = connections(a, b)
        assert few[0] == few[1] > 0, few
        for pairs in (3, 4):
            a.end()
            a.flags = [*a.flags, "--fabric-queue-pairs", str(pairs)]
            a.start()
            cluster.wait_met()
            assert connections(a, b) == [few[0] + pairs - 1] * 2
        count = move_all(a, b)
        assert b.numbers()["links_up"] == 1 and count > 0
        data = os.urandom(64 * MIB)
        a.good("put", "many pieces", "-", data=data)
        assert b.good("get", "many pieces") == data
        assert connections(a, b) == [few[0] + 3] * 2


def test_members_that_speak_ipv6():
    try:
        free_ports(1, "::1")
    except OSError as error:
        print("# skipped: this machine has no ::1:", error)
        return
    with Cluster(host="::1").wait_met() as (a, b):
        assert all(node["address"].startswith("[::1]:") for node in a.parsed("nodes"))
        for size in (5, 100000, 9 * MIB):
            data = os.urandom(size)
            a.good("put", f"of-{size}", "-", data=data)
            assert b.good("get", f"of-{size}") == data
        ports = [node["address"].rsplit(":", 1)[1] for node in a.parsed("nodes")]
        with open("/proc/net/tcp6", encoding="ascii") as file:
            listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
        assert all(f"{'0' * 24}01000000:{int(port):04X}" in listening for port in ports), listening


def test_what_is_pushed_is_what_was_put():
    with Cluster("--transfer", "push").wait_met() as (a, b):
        before = warm_up(a, b)
        move_all(a, b)
        assert before == [member.numbers()["registrations"] for member in (a, b)]
        for member in (a, b):
            numbers = member.numbers()
            assert numbers["pulled_bytes_pushed"] > 5 * MIB and numbers["pulled_bytes_one_sided"] == 0, numbers
            assert numbers["pulled_bytes_two_sided"] < 20000, numbers  # what came inline


def test_a_registration_for_each_loan_where_that_is_asked_for():
    with Cluster("--transfer", "register").wait_met() as (a, b):
        before = sum(warm_up(a, b))
        count = move_all(a, b)
        after = sum(member.numbers()["registrations"] for member in (a, b))
        assert after - before == count, (before, after)


def test_names_ids_and_metadata_of_any_kind():
    names = ["two words", "größe/μ", "new\nline", "\x1b[31mred", "-dash", "n" * 255]
    with Cluster().wait_met() as (a, b):
        for number, name in enumerate(names):
            a.good("put", "--meta", "m" * (number * 13000), "--", name, "-", data=name.encode() * number)
            assert b.good("get", "--", name) == name.encode() * number
            assert b.good("get", "--meta", "--", name) == b"m" * (number * 13000)
        assert sorted(b.names()) == sorted(names)
        digits = "0123456789abcdef" * 2 + "01234567"
        b.good("put", "id:" + digits, "-", data=b"by id")
        assert a.good("get", "id:" + digits) == b"by id" and "" in a.names()


def test_get_waits_for_what_the_other_will_put():
    with Cluster().wait_met() as (a, b):
        for number in range(20):
            here, there = (a, b) if number % 2 == 0 else (b, a)
            get = there.begin("get", f"late{number}", "--timeout", "30s")
            wait_for(lambda: there.numbers()["waiting"] == 1)
            here.good("put", f"late{number}", "-", data=b"here")
            printed, said = get.communicate(timeout=30)
            assert get.returncode == OK and printed == b"here", said
        # Without --timeout it waits too, for there are others; with one it waits so long and no longer.
        get = a.begin("get", "later")
        wait_for(lambda: a.numbers()["waiting"] == 1)
        b.good("put", "later", "-", data=b"and here")
        assert get.communicate(timeout=30)[0] == b"and here" and get.returncode == OK
        began = time.monotonic()
        code, _, said = a.run("get", "nothing")
        assert code == NOT_FOUND and said == ("nigh get: nothing: no such object in 5 seconds, on this node or "
                                              "another (nigh nodes)\n"), said
        assert 4.9 < time.monotonic() - began < 20
        assert a.run("get", "nothing", "--timeout", "50ms")[0] == TIMEOUT
        assert a.run("get", "nothing", "--timeout", "0")[0] == NOT_FOUND
        assert a.numbers()["waiting"] == 0


def test_rm_removes_everywhere():
    with Cluster().wait_met() as (a, b):
        for number in range(20):
            here, there = (a, b) if number % 2 == 0 else (b, a)
            here.good("put", "x", "-", data=b"x" * 70000)
            there.good("get", "x")
            remove(there, (a, b), "x")
            for member in (a, b):
                assert member.run("get", "x", "--timeout", "0")[0] == NOT_FOUND
            code, _, said = here.run("rm", "x")
            assert code == NOT_FOUND and "x: no such object in your pool, on this node or another" in said, said
        # What is held there is deleted all the same, and says so.
        a.good("put", "held", "-", data=bytes(8 * MIB))
        reader = b.begin("get", "held")
        wait_for(lambda: b.run("who", "held")[0] == OK and b.parsed("who", "held")["holders"])
        code, _, said = a.run("rm", "held")
        assert code == OK and "held: in use on another node" in said, (code, said)
        assert a.run("get", "held", "--timeout", "0")[0] == NOT_FOUND
        assert reader.communicate(timeout=30)[0] == bytes(8 * MIB) and reader.returncode == OK
        wait_for(lambda: b.names() == {})


def test_who_has_it():
    with Cluster().wait_met() as (a, b):
        assert a.run("who", "x")[0] == NOT_FOUND
        a.good("put", "x", "-", data=b"1")
        assert a.places("x") == []
        assert a.good("who", "x").decode().splitlines() == ["x: nobody holds it: it may be evicted"]
        wait_for(lambda: b.run("who", "x")[0] == OK)
        who = b.parsed("who", "x")
        assert who["state"] == "elsewhere" and [node["rank"] for node in who["nodes"]] == [0]
        assert who["nodes"][0]["address"] == a.flags[3].split(",")[0]
        text = b.good("who", "x").decode()
        assert "not on this node" in text and "on node 0 (127.0.0.1:" in text
        b.good("get", "x")
        assert b.places("x") == [0]
        wait_for(lambda: a.places("x") == [1])
        remove(b, (a, b), "x")
        assert a.run("who", "x")[0] == NOT_FOUND and b.run("who", "x")[0] == NOT_FOUND


def holds_without_copy(member, name):
    """A process that holds what its node is to keep no copy of, once it does."""
    reader = member.begin("get", name, "--no-copy")
    wait_for(lambda: member.run("who", name)[0] == OK and member.parsed("who", name)["holders"])
    assert [item["state"] for item in member.parsed("stat", name)] == ["deleting"]
    return reader


def read_all(reader):
    printed, said = reader.communicate(timeout=30)
    assert reader.returncode == OK, said
    return printed


def test_a_get_that_leaves_no_copy():
    big = os.urandom(8 * MIB)
    with Cluster().wait_met() as (a, b):
        used = {member: member.numbers()["used_bytes"] for member in (a, b)}
        for number, size in enumerate((0, 1, 4096, 4097, 70000, 70001, 9 * MIB)):
            here, there = (a, b) if number % 2 == 0 else (b, a)
            for name in ("x", "y", "z"):  # of different homes
                data = os.urandom(size)
                here.good("put", name, "-", data=data)
                assert there.good("get", "--no-copy", name) == data
                wait_for(lambda: there.numbers()["used_bytes"] == used[there])
                assert there.names() == {} and here.places(name) == []
                assert there.parsed("who", name)["state"] == "elsewhere"
                # What is here is used, and stays: the holder's own, and an earlier copy.
                assert here.good("get", "--no-copy", name) == data and here.names()[name] is False
                assert there.good("get", name) == data and there.good("get", "--no-copy", name) == data
                assert there.names()[name] is True
                wait_for(lambda: here.places(name) == [1 if here is a else 0])
                here.good("rm", name)
        # Who dies with a view leaves nothing behind.
        a.good("put", "big", "-", data=big)
        reader = holds_without_copy(b, "big")
        assert b.run("get", "big", "--timeout", "0")[0] == NOT_FOUND and a.places("big") == []
        assert b.numbers()["used_bytes"] >= used[b] + len(big) and b.numbers()["sessions"] >= 1
        reader.kill()
        reader.communicate()
        wait_for(lambda: b.numbers()["used_bytes"] == used[b] and b.numbers()["objects_deleting"] == 0)
        # Who wants a copy meanwhile gets what is there, without a byte from the other, and it stays.
        reader = holds_without_copy(b, "big")
        served = a.numbers()["served_bytes"]
        assert b.good("get", "big") == big and b.names() == {"big": True}
        wait_for(lambda: a.places("big") == [1])
        assert a.numbers()["served_bytes"] == served
        assert read_all(reader) == big and b.names() == {"big": True}
        b.good("rm", "big")


def test_a_delete_passes_by_what_leaves_no_copy():
    old, new = os.urandom(8 * MIB), os.urandom(8 * MIB)
    with Cluster().wait_met() as (a, b):
        used = b.numbers()["used_bytes"]
        for name in ("x", "y", "z"):
            a.good("put", name, "-", data=old)
            reader = holds_without_copy(b, name)
            code, _, said = a.run("rm", name)
            assert code == OK and "in use" not in said, (code, said)
            assert b.run("get", name, "--timeout", "200ms")[0] == TIMEOUT
            a.good("put", name, "-", data=new)
            assert b.good("get", "--no-copy", name) == new and b.good("get", name) == new
            assert read_all(reader) == old
            # Deleted where it is held, it is in use.
            a.good("rm", name)
            a.good("put", name, "-", data=old)
            reader = holds_without_copy(b, name)
            code, _, said = b.run("rm", name)
            assert code == OK and "in use" in said, (code, said)
            assert a.run("get", name, "--timeout", "0")[0] == NOT_FOUND
            assert read_all(reader) == old
            wait_for(lambda: b.numbers()["used_bytes"] == used)


def test_a_delete_while_a_member_is_away():
    """What may lie on a member that is not there is deleted here, and rm says that it was not everywhere."""
    with Cluster("--dead-ms", "600000").wait_met() as (a, b):
        a.good("put", "x", "-", data=b"bytes")
        assert b.good("get", "x") == b"bytes"
        b.end(signal.SIGKILL)
        wait_for(lambda: a.states() == ["up", "lost"])
        assert 'level=warn module=peers msg="a member is lost" rank=1' in a.said()
        code, _, said = a.run("rm", "x")
        lost = f"node 1 ({a.flags[3].split(',')[1]}) is lost"
        assert code in (1, TIMEOUT) and "deleted on this node" in said and f"({lost})" in said, (code, said)
        assert a.names() == {}
        # Of what was not here that is not said, nor that it is nowhere; and what only looks here says where it looked.
        for name in ("x", "y", "z", "w"):
            code, _, said = a.run("rm", name)
            # Of either home: its news may have been under way.
            assert code in (FAILED, TIMEOUT), code
            assert said == (f"nigh rm: {name}: not there on this node, but not every other node that may have it said so "
                            f"in time ({lost})\n"), said
            for verb in ("stat", "pin", "unpin"):
                code, _, said = a.run(verb, name)
                assert code == NOT_FOUND and "no such object in your pool on this node (nigh who" in said, (code, said)


def test_many_deletes_wait_no_longer_than_one():
    with Cluster("--dead-ms", "60000").wait_met() as (a, b):
        names = [f"x{n}" for n in range(40)]
        for name in names:
            a.good("put", name, "-", data=b"x")
        raw.halt(b.process)
        begun = time.monotonic()
        try:
            code, _, said = a.run("rm", *names)
        finally:
            b.process.send_signal(signal.SIGCONT)
        assert time.monotonic() - begun < 20, time.monotonic() - begun  # 5 s, as one would
        # About half have their home here.
        assert code in (1, TIMEOUT) and 5 < said.count("deleted on this node, but") < 35, (code, said)
        assert a.names() == {}


def test_a_node_that_is_too_small_says_so():
    with Cluster().wait_met() as (a, b):
        b.end()
        b.flags += ["--memory", "16M", "--lanes", "1"]
        b.start()
        wait_for(lambda: b.states() == ["up", "up"])
        a.good("put", "big", "-", data=bytes(20 * MIB))
        for arguments in (("get", "big"), ("get", "--no-copy", "big")):
            code, _, said = b.run(*arguments)
            assert code == FULL and "larger than the 16.0 MiB" in said, (code, said)


def test_what_the_holder_cannot_read_back():
    """It says so, and the other node does not look for it until its time is up."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder, Cluster() as (one, two):
        one.end()
        one.flags += ["--memory", "32M", "--lanes", "1", "--spill", folder]
        one.start()
        wait_for(lambda: two.states() == ["up", "up"] and two.numbers()["links_up"] > 0)
        data = os.urandom(1 << 20)
        for number in range(50):
            one.good("put", f"o{number}", "-", data=data)
        wait_for(lambda: not [name for name in os.listdir(folder) if name.endswith(".writing")])
        spilled = [item["name"] for item in one.parsed("ls") if item["state"] == "spilled"]
        for name in os.listdir(folder):
            if name.endswith(".object"):
                with open(os.path.join(folder, name), "r+b") as file:
                    file.seek(700000)
                    file.write(b"other bytes")
        code, printed, said = two.run("get", "--timeout", "30s", spilled[0])
        assert code == CORRUPT and "checksum" in said and printed == b"", (code, said)
        for name in os.listdir(folder):
            if name.endswith(".object"):
                os.unlink(os.path.join(folder, name))
        code, printed, said = two.run("get", "--timeout", "30s", spilled[1])
        assert code == FULL and "failed" in said and printed == b"", (code, said)
        assert all(item["loans"] == 0 for item in (one.numbers(), two.numbers()))


def test_two_births_of_one_name():
    with Cluster().wait_met() as (a, b):
        a.good("put", "x", "-", data=b"first")
        assert b.good("get", "x") == b"first"
        code, _, said = b.run("put", "x", "-", data=b"second")
        assert code == EXISTS and "exists" in said, (code, said)
        assert b.good("get", "x") == b"first"


def test_a_second_put_on_another_node_is_told():
    """As one on the same node is: nothing is taken and dropped."""
    with Cluster().wait_met() as (a, b):
        names = [f"n{number}" for number in range(12)]  # of either home
        for name in names:
            a.good("put", name, "-", data=b"first")
        for name in names:
            code, _, said = b.run("put", name, "-", data=b"second")
            assert code == EXISTS and f"{name} exists already on node 0" in said, (code, said)
            assert name not in b.names()
            assert b.good("get", name) == b"first"
            b.good("rm", name)
            b.good("put", name, "-", data=b"third")
            assert a.good("get", name) == b"third"
        assert b.numbers()["conflicts"] == 0
        # Both at once: one, and one only.
        for number in range(10):
            both = [member.begin("put", f"both{number}", "-") for member in (a, b)]
            said = [process.communicate(str(rank).encode(), timeout=60)[1].decode()
                    for rank, process in enumerate(both)]
            codes = [process.returncode for process in both]
            assert sorted(codes) == [OK, EXISTS], (codes, said)
            won = str(codes.index(OK)).encode()
            assert [member.good("get", f"both{number}") for member in (a, b)] == [won, won]
        # Who does not ask may lose what was put.
        a.good("put", "loud", "-", data=b"first")
        b.good("put", "--no-claim", "loud", "-", data=b"second")
        wait_for(lambda: b.numbers()["conflicts"] == 1)
        assert "another node had their ids first" in b.said()
        assert b.good("get", "loud") == b"first"


def test_a_put_without_the_home_says_so():
    with Cluster("--dead-ms", "600000").wait_met() as (a, b):
        b.end(signal.SIGKILL)
        wait_for(lambda: a.states() == ["up", "lost"])
        done = [a.run("put", f"x{number}", "-", "--timeout", "300ms") for number in range(12)]
        codes = {code for code, _, _ in done}
        assert codes <= {1, TIMEOUT, OK} and codes != {OK}, done
        for number, (code, _, said) in enumerate(done):
            assert code == OK or "cannot be said now" in said and "--no-claim" in said, (code, said)
            assert code == OK or f"node 1 ({a.flags[3].split(',')[1]}) is lost" in said, (code, said)
            assert (f"x{number}" in a.names()) == (code == OK)
            if code != OK:
                a.good("put", f"x{number}", "-", "--no-claim", "--timeout", "20s")


def test_what_a_member_that_is_not_up_may_have():
    """That there is no such object cannot be said, and who may have it is named."""
    with Cluster("--dead-ms", "600000").wait_met() as (a, b):
        names = ["x", "y", "z", "w"]  # of either home
        digits = "0123456789abcdef" * 2 + "01234567"
        for name in [*names, "id:" + digits]:
            a.good("put", name, "-", data=b"only here")
        address = a.flags[3].split(",")[0]
        for state, end in (("lost", signal.SIGKILL), ("dead", signal.SIGTERM)):
            a.end(end)
            wait_for(lambda state=state: b.states() == [state, "up"])
            words = f"node 0 ({address}) is {state}, and may have it"
            gets = [(name, b.begin("get", name)) for name in [*names, "id:" + digits]]
            as_json = b.begin("get", "x", "--json", "-o", os.path.join(os.path.dirname(b.path), "out"))
            for name, get in gets:
                said = get.communicate(timeout=60)[1].decode()
                assert get.returncode == FAILED and said == (
                    f"nigh get: {name}: not found in 5 seconds on this node or another that is up; {words}\n"), said
            # A time that was given and is up is told as that; it says who is away all the same.
            code, _, said = b.run("get", "x", "--timeout", "10ms")
            assert code == TIMEOUT and said.endswith(words + "\n"), (code, said)
            item = json.loads(as_json.communicate(timeout=60)[0])
            assert as_json.returncode == FAILED == item["exit_code"] and words in item["error"], item
            # The node that knows may be up, or the one that is away.
            for name in names:
                code, printed, said = b.run("who", name)
                if code == OK:
                    assert state == "lost" and f"node 0 ({address}), which is lost" in printed.decode(), printed
                else:
                    assert code in (FAILED, TIMEOUT) and said.endswith(words + "\n"), (code, said)
            if state == "lost":
                os.unlink(a.path)
                a.start()
                wait_for(lambda: b.states() == ["up", "up"] and a.states() == ["up", "up"])


# ---- nigh bench transfer


BENCH = ("--memory", "256M", "--lanes", "1")
OFFERED = 64 + 64 + 32 + 16 + 8 + 2


def offered(member):
    return [name for name in member.names() if name.startswith("nigh-bench-")]


def test_an_offer_is_told_as_json():
    with Cluster(*BENCH).wait_met() as (a, _):
        told = a.parsed("bench", "transfer", "--offer")
        assert told["objects"] == OFFERED == sum(size["count"] for size in told["sizes"]), told
        assert told["bytes"] == sum(size["count"] * size["size_bytes"] for size in told["sizes"]), told
        names = offered(a)
        assert len(names) == OFFERED and all(size[end] in names for size in told["sizes"] for end in ("first", "last"))


def test_an_offer_is_withdrawn():
    """By who asks for it, on either node; and by whoever cannot go on with it."""
    with Cluster(*BENCH).wait_met() as (a, b):
        a.good("bench", "transfer", "--offer")
        assert b.parsed("bench", "transfer", "--withdraw") == {"deleted": OFFERED} and offered(a) == []
        a.good("bench", "transfer", "--offer")
        a.good("rm", "nigh-bench-1024-40")
        assert b.run("bench", "transfer", "--timeout", "100ms")[0] == TIMEOUT and offered(a) + offered(b) == []
        a.good("bench", "transfer", "--offer")
        a.good("rm", "nigh-bench-1024-0")
        assert b.run("bench", "transfer", "--timeout", "100ms")[0] == TIMEOUT
        assert len(offered(a)) == OFFERED - 1, "of an offer that may be in the making nothing is deleted"
        a.good("bench", "transfer", "--withdraw")
        a.good("bench", "transfer", "--offer")
        a.good("rm", "nigh-bench-1024-40")
        taker = b.begin("bench", "transfer", "--timeout", "30s")
        wait_for(lambda: len(offered(a)) == OFFERED - 1 - 40)
        taker.send_signal(signal.SIGINT)
        taker.communicate(timeout=60)
        assert taker.returncode != OK and offered(a) + offered(b) == []


def test_an_offer_is_not_measured_where_it_lies():
    """It says so, and leaves the offer to another node."""
    with Cluster(*BENCH).wait_met() as (a, b):
        a.good("bench", "transfer", "--offer")
        code, printed, said = a.run("bench", "transfer")
        assert code == FAILED and printed == b"", (code, printed)
        assert "lies on this node itself" in said and "at another node" in said, said
        assert len(offered(a)) == OFFERED
        assert len(b.parsed("bench", "transfer")) == 6 and offered(a) + offered(b) == []


def test_an_offer_that_cannot_fit_is_refused():
    with Cluster("--memory", "64M", "--lanes", "1").wait_met() as (a, b):
        for flags in (["--offer"], []):
            code, _, said = a.run("bench", "transfer", *flags)
            assert code == FULL and "the node has 64.0 MiB" in said and offered(a) == [], (code, said)


def test_calls_of_a_server_elsewhere_are_measured():
    with Cluster().wait_met() as (a, b):
        assert b.run("bench", "rpc", "--node", "0")[0] == NOT_FOUND
        server = a.begin("bench", "rpc", "--serve", "--json")
        wait_for(lambda: a.parsed("top", "--once")["services"] == 1)
        assert a.run("bench", "rpc", "--serve")[0] == EXISTS
        (row,) = b.parsed("bench", "rpc", "--node", "0", "--at-once", "8")
        assert row["way"] == "remote" and row["at_once"] == 8 and 0 < row["median_us"] <= row["p99_us"], row
        begun = b.parsed("top", "--once")["calls_begun"]
        assert begun > row["calls"] and a.parsed("top", "--once")["calls_taken"] >= row["calls"]
        server.send_signal(signal.SIGINT)
        printed, _ = server.communicate(timeout=60)
        assert server.returncode == OK and row["calls"] <= json.loads(printed)["served"] <= begun, printed
        assert b.run("bench", "rpc", "--node", "0")[0] == NOT_FOUND


def test_a_server_that_ends_while_it_is_measured():
    with Cluster().wait_met() as (a, b):
        server = a.begin("bench", "rpc", "--serve", "--timeout", "60s")
        wait_for(lambda: a.numbers()["services"] == 1)
        bench = b.begin("bench", "rpc", "--node", "0", "--at-once", "1")
        wait_for(lambda: b.numbers()["calls_begun"] > 10)
        raw.halt(bench)
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
        bench.send_signal(signal.SIGCONT)
        printed, said = bench.communicate(timeout=60)
        assert bench.returncode == FAILED and printed == b"", (bench.returncode, printed)
        assert "the server at node 0 ended during the measurement" in said.decode(), said


# ---- nodes that go and come


def test_a_goodbye_is_a_death_at_once():
    with Cluster("--dead-ms", "600000").wait_met() as (a, b):
        a.good("put", "x", "-", data=b"x")
        assert b.good("get", "x") == b"x"
        assert b.numbers()["node_deaths"] == 0
        assert a.end() == 0
        wait_for(lambda: b.states() == ["dead", "up"])
        assert b.numbers()["node_deaths"] == 1 and b.numbers()["links_up"] == 0
        assert b.good("get", "x") == b"x", "what is here is here"
        code, printed, _ = b.run("doctor", "--json")
        finding = {item["subject"]: item for item in json.loads(printed)}["cluster"]
        assert code == FAILED and finding["severity"] == "bad" and "nigh nodes" in finding["remedy"], finding
        assert "1 of 2" in finding["finding"] and f"node 0 ({a.flags[3].split(',')[0]}) is dead" in finding["finding"]
        reach = {item["subject"]: item for item in json.loads(printed)}["reach"]
        assert "nobody listens at the port of node 0" in reach["finding"] and "start nighd" in reach["remedy"], reach
        a.start()
        wait_for(lambda: b.states() == ["up", "up"] and a.states() == ["up", "up"])
        assert a.good("get", "x", "--timeout", "20s") == b"x", "the copy serves"


def test_a_node_that_never_came_is_told_from_one_that_died():
    with Cluster("--dead-ms", "1000") as (a, b):
        b.end()
        a.end()
        a.start()
        wait_for(lambda: a.states() == ["up", "dead"])
        assert a.good("nodes").decode().splitlines()[2].endswith("  not seen yet")
        finding = {item["subject"]: item for item in json.loads(a.run("doctor", "--json")[1])}["cluster"]
        assert "was not seen yet" in finding["finding"], finding
        b.start()
        wait_for(lambda: a.states() == ["up", "up"])
        b.end()
        wait_for(lambda: a.states() == ["up", "dead"])
        assert "not seen yet" not in a.good("nodes").decode()


class First(Member):
    """One that is told that it is the first of its list, whatever its place."""

    def __init__(self, folder, rank, join, key, *flags):
        super().__init__(folder, rank, join, key, *flags, "--member", "0")


def test_two_firsts_are_told_what_may_differ():
    """Neither dials the other, so no handshake says it: where each looks, the list is named."""
    swapped = (lambda join: join, lambda join: ",".join(reversed(join.split(","))))
    with Cluster("--dead-ms", "1000", joins=swapped, member=First) as members:
        for member in members:
            found = lambda: {item["subject"]: item for item in json.loads(member.run("doctor", "--json")[1])}  # noqa: E731,B023
            wait_for(lambda: member.states() == ["up", "dead"])  # noqa: B023
            for subject in ("reach", "strangers"):  # a port that takes connections late has another remedy
                wait_for(lambda: "the same --join, in the same order, each its own --member" in found().get(  # noqa: B023
                    subject, {}).get("remedy", ""))  # noqa: B023
            assert any("a member is dead" in line and "--join or --member differ" in line
                       for line in member.said().splitlines()), member.said()


def test_a_silent_end_is_a_loss_first():
    with Cluster("--dead-ms", "3000").wait_met() as (a, b):
        before = len(b.said())
        a.end(signal.SIGKILL)
        wait_for(lambda: b.states()[0] == "dead")
        # Not by nigh nodes, which a busy machine may start too late to see it lost.
        said = b.said()[before:]
        assert 0 <= said.find("a member is lost") < said.find("a member is dead"), said
        b.good("put", "y", "-", "--no-claim", data=b"y")
        assert b.good("get", "y") == b"y", "a node goes on alone"
        os.unlink(a.path)
        a.start()
        assert a.good("get", "y", "--timeout", "20s") == b"y"


def test_a_node_that_restarts_brings_its_objects():
    with Cluster("--hold").wait_met() as (a, b):
        data = {f"o{number}": os.urandom(1 + number * 20011) for number in range(40)}
        for name, content in data.items():
            a.good("put", name, "-", data=content)
        b.good("get", "o1")
        before = b.parsed("nodes")[0]["incarnation"]
        with open(f"/proc/{a.process.pid}/task/{a.process.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        wait_for(lambda: b.states()[0] == "up" and b.parsed("nodes")[0]["incarnation"] > before)
        for name, content in data.items():
            assert b.good("get", name, "--timeout", "20s") == content, name
            assert a.good("get", name, "--timeout", "0") == content, name
        wait_for(lambda: a.run("who", "o2")[0] == OK and is_known(a, "o2") and a.places("o2") == [1])
        remove(b, (a, b), *data)
        # And the other way about: who restarts is the one that has copies and keeps places.
        b.good("put", "z", "-", data=b"z")
        assert a.good("get", "z") == b"z"
        with open(f"/proc/{b.process.pid}/task/{b.process.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        wait_for(lambda: a.numbers()["node_deaths"] >= 1 and a.states() == ["up", "up"])
        wait_for(lambda: b.run("get", "z", "--timeout", "0")[0] == OK)
        a.good("rm", "z")
        wait_for(lambda: b.names() == {} and a.names() == {})


# ---- who is kept out


def never_met(a, b, word):
    """Two nodes that refuse each other say why, count it, and serve their own machine."""
    wait_for(lambda: any(member.numbers()["handshakes_refused"] > 0 for member in (a, b)))
    for member in (a, b):
        assert member.numbers()["links_up"] == 0 and "up" not in (
            item["state"] for item in member.parsed("nodes") if not item["self"])
        member.good("put", "own", "-", "--no-claim", data=b"own")
        assert member.good("get", "own") == b"own"
    logs = a.said() + b.said()
    assert "a handshake with another node failed" in logs and word in logs, logs
    return logs


def says_why(member, rank, status, words):
    """nigh nodes has the reason why a node is missing, and nigh doctor calls it bad."""
    wait_for(lambda: member.parsed("nodes")[rank]["refused"] == status)
    assert words in member.parsed("nodes")[rank]["reason"]
    assert words in member.good("nodes").decode().splitlines()[1 + rank]
    code, printed, _ = member.run("doctor", "--json")
    finding = {item["subject"]: item for item in json.loads(printed)}["cluster"]
    assert code == 1 and finding["severity"] == "bad" and words in finding["finding"], finding
    return True


def test_a_wrong_key_is_refused():
    with Cluster("--log-level", "error", keys=("00" * 32, "11" * 32)) as (a, b):
        logs = never_met(a, b, "key")
        assert says_why(a, 1, "NIGH_DENIED", "another cluster key")
        assert says_why(b, 0, "NIGH_DENIED", "another cluster key")
        for member in (a, b):
            assert member.said().count("a handshake with another node failed") >= 1, "an error at each of them"
        assert "00000000" not in logs and "11111111" not in logs, "no key is ever written down"
        # Whoever has no key at all gets nowhere either, and costs nothing.
        before = a.numbers()["handshakes_refused"]
        with socket.create_connection(("127.0.0.1", int(a.flags[3].split(",")[0].split(":")[1]))) as stranger:
            stranger.sendall(os.urandom(512))
            stranger.settimeout(10)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        wait_for(lambda: a.numbers()["handshakes_refused"] > before)


def test_another_list_is_refused():
    with Cluster(joins=(lambda join: join, lambda join: join + ",127.0.0.1:9")) as (a, b):
        never_met(a, b, "list")
        assert says_why(a, 1, "NIGH_INVALID", "another list")
        assert says_why(b, 0, "NIGH_INVALID", "another list")


def test_a_reason_goes_when_the_node_comes():
    with Cluster(keys=("00" * 32, "11" * 32)) as (a, b):
        says_why(a, 1, "NIGH_DENIED", "another cluster key")
        assert b.end() == 0
        b.flags[b.flags.index("--cluster-key") + 1] = a.flags[a.flags.index("--cluster-key") + 1]
        b.start()
        wait_for(lambda: a.states() == ["up", "up"] and b.states() == ["up", "up"])
        for member in (a, b):
            assert [item["refused"] for item in member.parsed("nodes")] == ["", ""]
            assert {item["subject"]: item["severity"] for item in json.loads(member.run("doctor", "--json")[1])}[
                "cluster"] == "ok"


def test_a_stranger_says_nothing_of_a_member_that_is_up():
    with Cluster().wait_met() as (a, b):
        key = a.flags[a.flags.index("--cluster-key") + 1] + "-other"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("22" * 32)
        before = a.numbers()["handshakes_refused"]
        other = os.path.join(os.path.dirname(key), "other")
        os.mkdir(other)
        member = Member(other, 1, a.flags[3], key, "--listen", f"127.0.0.1:{free_ports(1)[0]}")
        try:
            wait_for(lambda: a.numbers()["handshakes_refused"] > before)
            assert [item["refused"] for item in a.parsed("nodes")] == ["", ""]
            assert a.states() == ["up", "up"]
        finally:
            member.end()


def test_what_makes_no_cluster_is_refused_at_start():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        key = os.path.join(folder, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00" * 32)
        ports = free_ports(2)
        join = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        cases = [
            (["--join", join, "--member", "0"], "key"),
            (["--join", join, "--cluster-key", key, "--member", "2"], "member"),
            (["--join", join + "," + join, "--cluster-key", key, "--member", "0"], "twice"),
            (["--join", join, "--cluster-key", folder + "/none", "--member", "0"], "No such file"),
        ]
        for flags, word in cases:
            result = subprocess.run([os.environ["NIGHD"], "--memory", "32M", "--socket", folder + "/s", *flags],
                                    capture_output=True, check=False, timeout=30)
            assert result.returncode == 2 and word in result.stderr.decode(), (flags, result.returncode, result.stderr)
        os.chmod(key, 0o644)
        result = subprocess.run([os.environ["NIGHD"], "--memory", "32M", "--socket", folder + "/s", "--join", join,
                                 "--member", "0", "--cluster-key", key], capture_output=True, check=False, timeout=30)
        assert result.returncode == 2 and "chmod 600" in result.stderr.decode(), result.stderr


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
