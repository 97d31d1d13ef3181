#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of nighd (docs/page.md): its numbers against those of the verbs, under load; what a browser makes of it; who is
shown what; and who is not answered. NIGH_PICTURES=FOLDER has it leave screenshots there, each of the whole page."""
import contextlib
import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import browser  # noqa: E402
import raw_session as raw  # noqa: E402
from cluster_cli import OK, Cluster, Member  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402
from regions_cli import SOMEBODY, within_reach  # noqa: E402
from replicas import Five  # noqa: E402
from services import end, serve  # noqa: E402

MIB = 1 << 20
SOURCE = os.environ["NIGH_SOURCE"]
PER_SECOND = 100
BLOCKS, BLOCK = 16, 512  # of the space, at each node: what page_load.c uses
COUNTER, LOCKED = 1 << 19, 256  # where its words are that were changed under a lock
DEAD_MS = 20000  # a busy machine is no reason to take a node for dead, and with it what a region has there
WEIGHT = 100 << 10
UNSEEN = "\u202e\u061c\u00ad\u180e\ufff9\ufffb"
HOSTILE = f"<img src=x onerror=alert(1)>\"'&{UNSEEN}%s"
WIDTHS = ((1280, 900, False, 1), (360, 780, True, 4))  # and in how many columns a picture of all of it is


def request(port, path, host=None, method="GET"):
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def page_as_it_is(port):
    status, _, body = request(port, "/page.json")
    assert status == 200, (status, body)
    return json.loads(body)


def page(port):
    """One that is made after it was asked for: it is printed again for a tenth of a second."""
    old, said = page_as_it_is(port)["node"]["asked_us"], {}

    def is_new():
        said.clear()
        said.update(page_as_it_is(port))
        return said["node"]["asked_us"] != old

    wait_for(is_new)
    return said


def metrics(port):
    status, _, body = request(port, "/metrics")
    assert status == 200, (status, body)
    return body.decode()


# ---- what is asked, and by whom


def test_what_a_browser_loads():
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port))
    weight = 0
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript"),
                       ("/page.json", "application/json"), ("/metrics", "text/plain; version=0.0.4")):
        status, headers, body = request(port, path)
        assert status == 200 and headers["Content-Type"].startswith(kind), (path, status, headers)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store" and headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not any(name.lower().startswith("access-control") for name in headers), headers
        assert request(port, path, method="HEAD")[2] == b""
        weight += 0 if path == "/metrics" else len(body)
    assert weight < WEIGHT, weight
    text = b"".join(request(port, path)[2] for path in ("/", "/page.css", "/page.js")).decode()
    outside = [url for url in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text) if "www.w3.org" not in url]
    assert not outside, ("it loads nothing from elsewhere", outside)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick"):
        assert word not in text, word
    assert node.stop()[0] == 0


def test_other_hosts_are_not_answered():
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port))
    for path in ("/", "/page.json", "/metrics"):
        for host in ("localhost", f"localhost:{port}", "LocalHost:9", "127.0.0.1", "127.3.2.1:80", "[::1]", "[::1]:80"):
            assert request(port, path, host)[0] == 200, (path, host)
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1",
                     "localhost:x", "localhost:", "[::1", "[::2]", "127.0.0.1@evil.example", "0.0.0.0", "127.1", "x127.0.0.1"):
            status, headers, body = request(port, path, host)
            assert status == 421 and b"nigh_" not in body and b"stats" not in body, (path, host, status)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(b"GET /page.json HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert sock.recv(12).endswith(b"400")
    assert request(port, "/page.json", "")[0] == 400
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:  # who is no browser, and says so
        sock.sendall(b"GET /page.json HTTP/1.0\r\n\r\n")
        assert sock.recv(12).endswith(b"200")
    assert request(port, "/page.json", method="POST")[0] == 405
    assert request(port, "/page.json", method="OPTIONS")[0] == 405
    assert request(port, "/page.html")[0] == request(port, "/../page.js")[0] == request(port, "/page.js/")[0] == 404
    assert node.stop()[0] == 0


def test_the_other_loopback():
    """Of the other family the kernel says whose socket it is, too."""
    (port,) = free_ports(1)
    node = raw.Node("--http", f"[::1]:{port}")
    if not node.ready:
        raise raw.Skipped("this machine has no ::1")
    connection = http.client.HTTPConnection("::1", port, timeout=60)
    connection.request("GET", "/page.json")
    said = json.loads(connection.getresponse().read())
    connection.close()
    assert said["node"]["sees_all"] and len(said["pools"]) <= 1 and "pools_hidden" not in said
    assert node.stop()[0] == 0


def as_somebody(command, node_path):
    return subprocess.run(command, env={**os.environ, "NIGH_SOCKET": node_path}, user=SOMEBODY, group=SOMEBODY, extra_groups=[],
                          check=True, capture_output=True, timeout=60).stdout


ASK = ("import sys, http.client; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1])); "
       "c.request('GET', sys.argv[2]); sys.stdout.buffer.write(c.getresponse().read())")


def test_each_user_sees_his_own():
    """Root, and another: names of what he may not read are not told, nor who holds it."""
    if os.geteuid() != 0:
        raise raw.Skipped("only root can be somebody else")
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port), "--space-memory", "16M")
    wait_for(lambda: "spaces" in page(port))
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder, within_reach(folder):
        own, nigh = {**os.environ, "NIGH_SOCKET": node.path}, os.environ["NIGH"]
        subprocess.run([nigh, "put", "roots-secret", "-"], input=b"x" * 5000, env=own, check=True, capture_output=True)
        subprocess.run([nigh, "space", "create", "secret-space", "1M"], env=own, check=True, capture_output=True)
        for _ in range(3):
            subprocess.run([nigh, "get", "roots-secret"], env=own, check=True, capture_output=True)
            page(port)
        as_somebody([nigh, "put", "somebodys", "/dev/null"], node.path)
        mine = page(port)
        text = as_somebody(["/usr/bin/python3", "-c", ASK, str(port), "/page.json"], node.path).decode()
        numbers = as_somebody(["/usr/bin/python3", "-c", ASK, str(port), "/metrics"], node.path).decode()
    theirs = json.loads(text)
    assert mine["node"]["sees_all"] and not theirs["node"]["sees_all"]
    assert {pool["name"] for pool in mine["pools"]} == {"uid-0", f"uid-{SOMEBODY}"}
    assert {pool["name"] for pool in theirs["pools"]} == {f"uid-{SOMEBODY}"}
    assert theirs["pools_hidden"]["count"] == 1 and theirs["pools_hidden"]["objects"] == 1
    assert theirs["pools_hidden"]["bytes"] == next(pool["bytes"] for pool in mine["pools"] if pool["name"] == "uid-0")
    assert [space["name"] for space in mine["spaces"]] == ["secret-space"]
    assert theirs["spaces"] == [] and theirs["spaces_hidden"] == 1
    assert any(at["name"] == "roots-secret" for at in mine["hottest"]), mine["hottest"]
    assert theirs["hottest_hidden"] >= 1
    for said in (text, numbers):
        assert "secret" not in said and '"uid-0"' not in said, said
    assert f'nigh_pool_objects{{pool="uid-{SOMEBODY}",state="sealed"}} 1' in numbers
    assert 'nigh_pool_objects{pool="",state="sealed"} 1' in numbers
    assert node.stop()[0] == 0


def test_one_picture_for_all_who_ask():
    """It is made ten times a second at most; what each sees of it is decided when it is printed."""
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port))
    end_at, asked = time.monotonic() + 1, []
    while time.monotonic() < end_at:
        asked.append(page_as_it_is(port)["node"]["asked_us"])
    made = sorted(set(asked))
    assert len(made) > 1 and all(after - before >= 100000 for before, after in zip(made, made[1:])), made

    def is_the_same():
        up = page_as_it_is(port)["stats"]["uptime_us"]
        return f"\nnigh_uptime_seconds {up // 1000000}.{up % 1000000:06}\n" in metrics(port)

    wait_for(is_the_same)
    if os.geteuid() == 0:
        own = {**os.environ, "NIGH_SOCKET": node.path}
        subprocess.run([os.environ["NIGH"], "put", "roots-secret", "-"], input=b"x", env=own, check=True, capture_output=True)

        def is_seen_otherwise():
            mine = page_as_it_is(port)
            os.seteuid(SOMEBODY)
            try:
                theirs = page_as_it_is(port)
            finally:
                os.seteuid(0)
            assert mine["node"]["sees_all"] and not theirs["node"]["sees_all"] and theirs["pools"] == []
            return mine["node"]["asked_us"] == theirs["node"]["asked_us"] and mine["pools"] != []

        wait_for(is_seen_otherwise)
    assert node.stop()[0] == 0


def test_a_node_that_stands_still_is_not_made_up():
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port))
    said = page(port)
    assert said["spaces"] is None and "serves none" in said["spaces_why"]
    assert said["regions"] is None or said["regions"] == []
    assert said["hottest"] == [] and said["links"] == [] and said["transfers"]["now"] == []
    assert said["nodes"][0]["self"] and said["node"]["rank"] == 0
    assert sum(said["calls"]["here"]["buckets"]) == 0
    assert node.stop()[0] == 0


# ---- numbers under load


def allocate(member):
    """Blocks of the space, whose home the node is, as soon as it takes part: the address of the first."""
    said = []

    def is_given():
        code, printed, _ = member.run("space", "alloc", "table", str(BLOCKS * BLOCK))
        said.append(printed.decode().strip())
        return code == OK

    wait_for(is_given, 60)
    return said[-1]


class Loaded:
    """Three nodes that agree, each with a page, a service, and a load; a region that lies on all of them, and a space."""

    def __init__(self):
        self.ports = free_ports(3)
        self.cluster = Five("--space-memory", "16M", "--dead-ms", str(DEAD_MS), nodes=3)
        self.stack = contextlib.ExitStack()
        self.members = self.loads = self.servers = self.blocks = None

    def __enter__(self):
        self.members = self.stack.enter_context(self.cluster)
        for rank, (member, port) in enumerate(zip(self.members, self.ports)):
            assert member.end() == 0
            member.flags += ["--http", str(port), "--state", os.path.join(self.cluster.folder.name, f"state{rank}")]
        for member in self.members:
            member.start()
        self.cluster.wait_met()
        for member in self.members:
            wait_for(lambda: member.numbers()["view_quorum"] == 1, 60)  # noqa: B023
        self.servers = [serve(member, "echo") for member in self.members]
        self.members[0].good("region", "create", "matrix", "3M", "--chunk", "1M", "--spread")
        self.members[0].good("space", "create", "table", "2M")
        self.blocks = [allocate(member) for member in self.members]
        self.loads = [subprocess.Popen([os.environ["PAGE_LOAD"], member.path, str(rank), "3", str(PER_SECOND), *self.blocks],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for rank, member in enumerate(self.members)]
        for load in self.loads:
            assert load.stdout.readline() == b"ready\n"
        return self

    def rest(self):
        """Ends the loads: what each says that it did."""
        said = [json.loads(load.communicate(timeout=60)[0]) for load in self.loads]
        assert all(load.returncode == 0 for load in self.loads)
        self.loads = []
        return said

    def __exit__(self, kind, error, trace):
        for load in self.loads:
            load.kill()
            load.communicate()
        for server in self.servers:
            end(server)
        return self.stack.__exit__(kind, error, trace)


GROW = ("seals", "pulls", "calls_begun", "calls_taken", "pulled_bytes_two_sided", "pulled_bytes_one_sided", "served_bytes",
        "gets_asked", "turns", "uptime_us", "region_operations", "region_parts_here", "region_parts_there",
        "region_bytes_read", "region_bytes_written", "space_client_reads", "space_hits", "space_writes", "space_locks")
SPACE_GROW = ("reads", "hits", "locks", "locks_kept", "writes", "atomics", "asks", "invalidations", "evictions", "block_bytes")


def grows(names, before, now, after):
    """Of two answers of a verb, and one of the page between them: what only grows lies between."""
    for name in names:
        assert before[name] <= now[name] <= after[name], (name, before[name], now[name], after[name])


def space_here(member):
    return member.parsed("space", "stat", "table")["here"]


def compare_under_load(loaded):
    for member, port in zip(loaded.members, loaded.ports):
        before, space_before = member.numbers(), space_here(member)
        said = page(port)
        space_after, after = space_here(member), member.numbers()
        grows(GROW, before, said["stats"], after)
        grows(SPACE_GROW, space_before, said["spaces"][0]["here"], space_after)
        assert said["stats"]["seals"] > 0
        assert sum(sum(said["calls"][kind]["buckets"]) for kind in ("here", "there")) <= after["calls_begun"]
        assert sum(len(request(port, path)[2]) for path in ("/", "/page.css", "/page.js", "/page.json")) < WEIGHT


def all_is_used(loaded):
    """Each node's clients read blocks of the space that lie there and that do not, and bytes of the region here and there."""

    def is_used(port):
        said = page(port)
        here, stats = said["spaces"][0]["here"], said["stats"]
        return 0 < here["hits"] < here["reads"] and here["invalidations"] > 0 and here["locks"] > 0 and \
            stats["region_parts_here"] > 0 and stats["region_parts_there"] > 0 and stats["region_bytes_read"] > 0

    for port in loaded.ports:
        wait_for(lambda: is_used(port), 60)  # noqa: B023


def a_hundred_a_second(loaded):
    """Of all nodes together, by their pages' own numbers and clocks: over as many objects as each load is to put in a second,
    and anew where the machine had other things to do. (Each load is asked for a hundred.)"""
    rates = []

    def is_kept():
        before, after = [page(port) for port in loaded.ports], []

        def have_come():
            after[:] = [page(port) for port in loaded.ports]
            return sum(now["stats"]["seals"] - old["stats"]["seals"] for old, now in zip(before, after)) >= 3 * PER_SECOND

        wait_for(have_come, 60)
        rates.append(sum((now["stats"]["seals"] - old["stats"]["seals"]) * 1e6 / (now["node"]["asked_us"] - old["node"]["asked_us"])
                         for old, now in zip(before, after)))
        return rates[-1] >= PER_SECOND

    wait_for(is_kept, 60)
    print("# puts a second of three nodes together, by their pages:", ", ".join(f"{rate:.0f}" for rate in rates))


def crossover_of(links, rank):
    """As nigh nodes has it of all links to a node: the largest of what is known."""
    of = [link for link in links if link["rank"] == rank]
    known = [link["crossover_bytes"] for link in of if link["crossover"] == "known"]
    if any(link["crossover"] == "none" for link in of):
        return "none", None
    return ("known", max(known)) if known else ("unknown", None)


def points_are_right(link):
    """Of each way one point a class of sizes, in their order; and what was found of both ways comes from points."""
    for way in ("sent", "read"):
        sizes = [point["bytes"] for point in link[way]]
        assert sizes == sorted(set(sizes)) and len(sizes) <= 14, link
        assert all(point["bytes"] > 0 and point["count"] > 0 for point in link[way]), link
    assert link["crossover"] == "unknown" or (link["sent"] and link["read"]), link


def same_nodes(said, verb):
    keys = ("rank", "name", "state", "life", "view", "votes", "incarnation", "self", "address")
    assert [{key: node[key] for key in keys} for node in said["nodes"]] == [{key: node[key] for key in keys} for node in verb]
    for node in verb:
        told = (node["crossover"], node.get("crossover_bytes"))
        assert crossover_of(said["links"], node["rank"]) == told, (said["links"], node)
    assert {link["rank"] for link in said["links"]} == {node["rank"] for node in verb if not node["self"]}
    for link in said["links"]:
        points_are_right(link)


def same_regions_and_spaces(said, member):
    wait_keys = ("name", "home", "size", "chunk_size", "uid", "mappable", "donated", "chunks")
    assert [{key: region[key] for key in wait_keys} for region in said["regions"]] == [
        {key: region[key] for key in wait_keys} for region in member.parsed("region", "ls")]
    (space,) = said["spaces"]
    verb = member.parsed("space", "stat", space["name"])
    assert all(space[key] == verb[key] for key in ("name", "home_size", "cache_size", "used_size", "block_size", "nodes"))
    assert {key: space["here"][key] for key in SPACE_GROW} == {key: verb["here"][key] for key in SPACE_GROW}
    assert 0 < space["here"]["hits"] < space["here"]["reads"] and space["here"]["writes"] > 0, space


def asked_twice(member, port, moving):
    """What the page and the verb say, and what of that is not the same; again while that is something, twenty times at most."""
    for _ in range(20):
        said, verb = page(port), member.numbers()
        different = {name: (said["stats"].get(name), verb[name]) for name in verb
                     if name not in moving and said["stats"].get(name) != verb[name]}
        if not different:
            break
    return said, verb, different


def is_what_was_done(member, port, said, did):
    """Of the region and the space: what the load says that it did, and no more."""
    stats, here = said["stats"], said["spaces"][0]["here"]
    assert (did["failed"], did["why"]) == (0, "")
    assert stats["region_bytes_read"] == did["region_read"] > 0, (stats["region_bytes_read"], did)
    assert stats["region_bytes_written"] == did["region_written"] > 0, (stats["region_bytes_written"], did)
    assert stats["region_parts_here"] > 0 and stats["region_parts_there"] > 0
    assert stats["region_chunks"] == 1 and stats["region_memory_bytes"] >= MIB
    assert here["reads"] == did["space_reads"] == stats["space_client_reads"], (here, did)
    assert here["locks"] == did["space_locks"] > 0, (here, did)
    assert here["hits"] == stats["space_hits"] and here["invalidations"] > 0, (here, stats["space_hits"])
    assert abs(member.parsed("space", "stat", "table")["here"]["hit_percent"] - 100 * here["hits"] / here["reads"]) < .01
    text = metrics(port)
    for name in ("reads", "hits"):
        assert f'\nnigh_one_space_{name}_total{{space="table"}} {here[name]}\n' in text, name


def locks_have_excluded(loaded, did):
    """What each load added to by a read and a write, under a lock, is as much as all of them have added."""
    first = loaded.members[0]
    word = first.good("region", "read", "matrix", "--offset", str(COUNTER), "--size", "8")
    assert int.from_bytes(word, "little") == sum(each["region_locks"] for each in did) > 0
    word = first.good("space", "read", "table", hex(int(loaded.blocks[0], 0) + LOCKED), "8")
    assert int.from_bytes(word, "little") == sum(each["space_locks"] for each in did) > 0


def compare_at_rest(loaded, did):
    """Nothing changes any more: all is equal."""
    for rank, (member, port) in enumerate(zip(loaded.members, loaded.ports)):
        wait_for(lambda: member.numbers()["loans"] == 0)  # noqa: B023
        wait_for(lambda: page(port)["regions_age_us"] < 500000)  # noqa: B023
        moving = {"turns", "sleeps", "wakes", "uptime_us", "region_operations", "device_wakes", "sessions", "hints",
                  "call_frames_sent", "nodes_reached", "region_low_limit_bytes"}
        # What the verb before had, which has ended, may be given back between the two questions.
        said, verb, different = asked_twice(member, port, moving)
        assert set(said["stats"]) >= set(verb) and not different, different
        (pool,) = said["pools"]
        listed = member.parsed("ls")
        assert pool["objects"] == len([item for item in listed if item["state"] == "sealed"]) == said["stats"]["objects"]
        assert pool["objects_unsealed"] == pool["objects_deleting"] == 0
        assert pool["index_used"] == said["stats"]["index_used"]
        assert said["stats"]["used_bytes"] >= pool["bytes"] >= sum(item["data_size"] for item in listed)
        assert said["stats"]["seals"] == did[rank]["puts"], "each put of the load, and no other"
        answered = sum(sum(said["calls"][kind]["buckets"]) for kind in ("here", "there"))
        assert answered <= said["stats"]["calls_begun"], "some were begun before a service was known there"
        assert sum(said["calls"]["there"]["buckets"]) == did[rank]["calls"] > 0, (said["calls"], did[rank])
        assert sum(said["calls"]["served"]["buckets"]) == said["stats"]["calls_taken"] > 0
        same_nodes(said, member.parsed("nodes"))
        same_regions_and_spaces(said, member)
        is_what_was_done(member, port, said, did[rank])
        text = metrics(port)
        for name in ("objects", "links_up", "regions_mapped", "spaces"):
            assert f"\nnigh_{name} {verb[name]}\n" in text, name
        wait_for(lambda: f"\nnigh_used_bytes {member.numbers()['used_bytes']}\n" in metrics(port))  # noqa: B023
        assert f'\nnigh_pool_objects{{pool="{pool["name"]}",state="sealed"}} {pool["objects"]}\n' in text
        assert f'\nnigh_service_seconds_count {said["stats"]["calls_taken"]}\n' in text
        assert 'nigh_call_seconds_bucket{to="there",le="+Inf"} ' in text


def hot_is_hot(loaded):
    """The one that each load reads most, and holds, is the hottest; its holder is the load."""
    for rank, (member, port, load) in enumerate(zip(loaded.members, loaded.ports, loaded.loads)):
        wait_for(lambda: page(port)["hottest"][:1] and page(port)["hottest"][0]["name"] == f"hot-{rank}", 60)  # noqa: B023
        hot = page(port)["hottest"][0]
        assert hot["uses"] > page(port)["uses_seen"] / 4, hot
        who = member.parsed("who", f"hot-{rank}")["holders"]
        assert [holder["pid"] for holder in hot["holders"]] == [load.pid] == [holder["pid"] for holder in who], (hot, who)
        assert hot["holders"][0]["views"] >= 1 and hot["holders"][0]["name"] == "page-load"


def transfers_are_told(loaded):
    for rank, port in enumerate(loaded.ports):
        wait_for(lambda: any(at["way"] == "read" for at in page(port)["transfers"]["past"]) or  # noqa: B023
                 page(port)["stats"]["pulled_bytes_one_sided"] > 0, 60)  # noqa: B023
        past = page(port)["transfers"]["past"]
        assert past == sorted(past, key=lambda at: at["ago_us"]) and past[0]["ago_us"] < 60e6
        for at in past:
            assert at["rank"] != rank and at["direction"] == "in" and at["done_bytes"] == at["bytes"] > 0, at
            assert at["name"].startswith("load-") and at["way"] in ("inline", "sent", "read", "pushed"), at
            if "took_us" in at:
                assert abs(at["bytes_per_second"] - at["bytes"] * 1e6 / at["took_us"]) <= 1, at
                assert at["took_us"] > 1, "a message there and one back within a microsecond"
            else:
                assert "bytes_per_second" not in at, at


def long_names_are_cut(loaded):
    """Between two characters, and it is to be seen."""
    name = "x" + "é" * 40
    loaded.members[1].good("put", name, "/dev/null")
    loaded.members[0].good("get", name)
    wait_for(lambda: page(loaded.ports[0])["transfers"]["past"][0]["name"] == "x" + "é" * 21 + "…")


def test_numbers_are_those_of_the_verbs():
    with Loaded() as loaded:
        hot_is_hot(loaded)
        all_is_used(loaded)
        for _ in range(5):
            compare_under_load(loaded)
        a_hundred_a_second(loaded)
        transfers_are_told(loaded)
        did = loaded.rest()
        compare_at_rest(loaded, did)
        locks_have_excluded(loaded, did)
        long_names_are_cut(loaded)


# ---- transfers under way

LARGE = 64 * MIB
TRIES = 20  # to see one in part: where the machine is slow to stop a node, all of it comes at once
STANDS_S = 2  # at a time, for as long as a look takes: nobody takes the node for lost
COUNTED = {"sent": "pulled_bytes_two_sided", "read": "pulled_bytes_one_sided", "pushed": "pulled_bytes_pushed"}


class Drips:
    """A node that stands still, but for a moment when it is told to: longer ones where many of them brought nothing."""

    def __init__(self, member):
        self.process, self.vain = member.process, 0

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: raw.is_stopped(self.process.pid))

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def drip(self):
        self.go_on()
        time.sleep(.001 * (1 + self.vain // 10))
        self.stop()
        self.vain += 1


class Held:
    """Two nodes with a page each, and a large object that has come in part from the first to the second: the first stands
    still but for drips, and the page is the second's; or, `out`, the other way round."""

    def __init__(self, how, out=False):
        self.ports, self.out = free_ports(2), out
        self.cluster = Cluster("--dead-ms", "60000", "--lanes", "1", "--transfer", how, member=self.member)
        self.stack = contextlib.ExitStack()
        self.holder = self.puller = self.drips = self.port = self.get = self.name = self.id = self.before = self.seen = None
        self.number = 0

    def member(self, folder, rank, join, key, *flags):
        return Member(folder, rank, join, key, *flags, "--http", str(self.ports[rank]))

    def __enter__(self):
        self.holder, self.puller = self.stack.enter_context(self.cluster)
        self.cluster.wait_met()
        self.port = self.ports[0 if self.out else 1]
        self.drips = Drips(self.puller if self.out else self.holder)
        self.hold()
        return self

    def hold(self):
        for _ in range(TRIES):
            self.number += 1
            if self.begin(f"large-{self.number}"):
                return
        raise AssertionError("each time all of it had come at once")

    def begin(self, name):
        """Whether it is seen in part."""
        self.name = name
        self.holder.good("put", name, "-", data=bytes(LARGE))
        self.id = self.holder.parsed("stat", name)[0]["id"]
        wait_for(lambda: self.is_found(name))
        self.before = self.puller.numbers()
        self.drips.stop()
        self.get = subprocess.Popen([os.environ["NIGH"], "--socket", self.puller.path, "get", name, "--timeout", "300s"],
                                    stdout=subprocess.DEVNULL)
        while self.get.poll() is None:
            self.drips.drip()
            self.seen = self.look()
            if self.seen is not None:
                self.drips.vain = 0
                return True
        self.end()
        return False

    def is_found(self, name):
        """Whether the second node knows by now that the first has it."""
        code, printed, _ = self.puller.run("who", name, "--json")
        return code == OK and [node["rank"] for node in json.loads(printed)["nodes"]] == [0]

    def look(self):
        """What the page has of it, when a part has come, and not all."""
        for at in page(self.port)["transfers"]["now"]:
            done = at.get("done_bytes")
            if at["id"] == self.id and at["way"] != "" and (done is None or 0 < done < at["bytes"]):
                return at
        return None

    def look_again(self):
        """When more has come; None: all has."""
        while self.get.poll() is None:
            self.drips.drip()
            at = self.look()
            if at is not None and at["done_bytes"] > self.seen["done_bytes"]:
                return at
        return None

    def end(self):
        self.drips.go_on()
        assert self.get.wait(timeout=240) == 0

    def __exit__(self, kind, error, trace):
        self.drips.go_on()
        if self.get.poll() is None:
            self.get.kill()
            self.get.wait(timeout=30)
        return self.stack.__exit__(kind, error, trace)


def is_told_right(at, way):
    assert at["way"] == way and at["rank"] == 0 and at["direction"] == "in" and at["name"] == "" and "ago_us" not in at, at
    assert LARGE <= at["bytes"] < LARGE + 4096 and 0 < at["done_bytes"] < at["bytes"] and at["took_us"] > 0, at
    assert abs(at["bytes_per_second"] - at["done_bytes"] * 1e6 / at["took_us"]) <= 1, at


def test_what_comes_is_told_while_it_comes():
    """By each way, in part, with its rate; then among those that ended, and in the numbers of the verb."""
    for how, way in (("two-sided", "sent"), ("one-sided", "read"), ("push", "pushed")):
        with Held(how) as held:
            first = held.seen
            is_told_right(first, way)
            second = held.look_again()
            if second is not None:
                is_told_right(second, way)
                assert second["bytes"] == first["bytes"] and second["took_us"] > first["took_us"], (first, second)
            held.end()
            wait_for(lambda: page(held.port)["transfers"]["now"] == [])  # noqa: B023
            ended = page(held.port)["transfers"]["past"][0]
            assert (ended["id"], ended["name"], ended["way"]) == (held.id, held.name, way), ended
            assert ended["bytes"] == ended["done_bytes"] == first["bytes"] and ended["took_us"] > first["took_us"], (first, ended)
            after = held.puller.numbers()
            for each in COUNTED.values():
                assert after[each] - held.before[each] == (first["bytes"] if each == COUNTED[way] else 0), (each, way)
            assert after["pulls"] - held.before["pulls"] == 1


def test_what_goes_out_is_told_while_it_goes():
    """Of what is sent how much has gone; of what is lent nobody knows."""
    for how, way in (("two-sided", "sent"), ("one-sided", "read")):
        with Held(how, out=True) as held:
            at = held.seen
            assert at["way"] == way and at["rank"] == 1 and at["direction"] == "out", at
            assert LARGE <= at["bytes"] < LARGE + 4096 and ("done_bytes" in at) == (way == "sent"), at
            assert way == "sent" or held.holder.numbers()["loans"] > 0
            held.end()
            wait_for(lambda: page(held.port)["transfers"]["now"] == [])  # noqa: B023


# ---- in a browser

# What is wider than the window, and what has no width for its words.
WIDE = """(() => {
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  const out = [...document.querySelectorAll("body *")].filter(e => !e.closest(".table") && !e.closest("svg") && !e.closest("thead") &&
    e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  return wide || out.length > 0 ? out.slice(0, 3).map(e => e.outerHTML.slice(0, 120)).concat(String(wide)) : [];
})()"""
# Contrast of each text with what is behind it; below 4.5 it is said.
PALE = """(() => {
  const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number), lin = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => .2126 * lin(c[0]) + .7152 * lin(c[1]) + .0722 * lin(c[2]);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.tagName === "TITLE" || e.tagName === "NOSCRIPT") continue;
    const style = getComputedStyle(e), ink = rgb(e.closest("svg") ? style.fill : style.color), a = light(ink), b = light(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.add(`${e.tagName} ${e.className.baseVal ?? e.className} ${e.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return [...bad];
})()"""
# What a reader of screens is told: headings, and a name for each picture that is not hidden.
NAMELESS = """[...document.querySelectorAll("svg")].filter(e => !e.closest("[aria-hidden=true]") && !e.getAttribute("aria-label")).length +
  [...document.querySelectorAll("section")].filter(e => !e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby"))).length"""
# Words in pictures that are drawn smaller than they are meant to be.
TINY = """[...document.querySelectorAll("svg[viewBox]")].filter(e => e.querySelector("text") && e.getBoundingClientRect().width < .95 * e.viewBox.baseVal.width).length"""
ANSWERED = "document.documentElement?.className === 'live'"


def need_browser():
    if browser.program() is None:
        raise raw.Skipped("there is no Chromium")


def leave_picture(tab, name, columns):
    """All of the page; of one that is narrow, and long, in columns that begin where parts of it do."""
    folder = os.environ.get("NIGH_PICTURES")
    if folder and columns > 1:
        tab.picture_in_columns(os.path.join(folder, f"{name}.png"), columns, "section")
    elif folder:
        tab.picture(os.path.join(folder, f"{name}.png"))


def looks_right(tab, name, columns=1):
    tab.wait(ANSWERED)
    assert tab.value(WIDE) == [], (name, tab.value(WIDE))
    assert tab.value(PALE) == [], (name, tab.value(PALE))
    assert tab.value(NAMELESS) == 0, name
    assert tab.value(TINY) == 0, name
    leave_picture(tab, name, columns)
    assert not tab.errors, (name, tab.errors)


def shown(tab, label):
    return int(tab.value(f'document.querySelector("[data-key=\'{label}\']").dataset.value'))


# The points of the curve that is drawn: way, size, time, of how many; and where the middle of each is.
DOTS = """[...document.querySelectorAll("#curve .dot")].map(e => {
  const box = e.getBBox();
  return [e.classList.contains("sent") ? "sent" : "read", +e.dataset.bytes, +e.dataset.us, +e.dataset.count, box.x + box.width / 2, box.y + box.height / 2];
})"""
CROSS = "(() => { const e = document.querySelector('#curve .cross'); return e && e.getBBox().x; })()"


def scale(points):
    """Where a number stands, by the least and the largest of those (number, place); None: they are all one number."""
    (from_number, from_place), (to_number, to_place) = min(points), max(points)
    if from_number == to_number:
        return None
    return lambda number: from_place + (to_place - from_place) * (number - from_number) / (to_number - from_number)


def curve_is_drawn(dots, cross, link):
    """Its points are those of the link, where two scales of logarithms have them; and so is what was found of them."""
    assert [tuple(dot[:4]) for dot in dots] == [(way, point["bytes"], point["took_us"], point["count"])
                                               for way in ("sent", "read") for point in link[way]], (dots, link)
    across = [(math.log2(max(4096, size)), x) for _, size, _, _, x, _ in dots]  # the scale begins there
    along = [(math.log10(max(1, took)), y) for _, _, took, _, _, y in dots]
    for places, grows_up in ((across, False), (along, True)):
        place = scale(places)
        assert place is None or all(abs(at - place(number)) < .5 for number, at in places), places
        assert place is None or (place(2) < place(1)) == grows_up, places
    assert (cross is not None) == (link["crossover"] == "known" and bool(dots)), (cross, link)
    place = scale(across) if dots else None
    if cross is not None and place is not None:
        assert abs(cross - place(math.log2(link["crossover_bytes"]))) < 1, (cross, link)


def curves_are_drawn(tab, port):
    """Of each link that may be chosen, when nothing moves any more."""
    links = page(port)["links"]
    assert tab.value("[...document.querySelector('#link').options].map(o => o.value)") == \
        [f"node {link['rank']}, rail {link['rail']}" for link in links]
    assert any(len(link["sent"]) + len(link["read"]) > 2 for link in links), links
    for number, link in enumerate(links):
        tab.value(f"(() => {{ const e = document.querySelector('#link'); e.selectedIndex = {number}; "
                  "e.dispatchEvent(new Event('change')); })()")
        curve_is_drawn(tab.value(DOTS), tab.value(CROSS), link)


CELLS = "[...document.querySelector('#%s tbody tr').cells].map(cell => [cell.textContent, cell.dataset.value ?? null])"


def shows_regions_and_spaces(tab, member):
    """As the verbs have them, when nothing moves any more."""
    numbers, here = member.numbers(), space_here(member)
    name, size, count, where, _ = tab.value(CELLS % "regions")
    assert (name[0], int(size[1]), count[0]) == ("matrix", 3 * MIB, "3")
    assert where[0] == "node 0 (1), node 1 (1), node 2 (1)", where
    assert shown(tab, "Read here") == numbers["region_bytes_read"] > 0
    assert shown(tab, "Written here") == numbers["region_bytes_written"] > 0
    name, hits, reads, writes, _, nodes = tab.value(CELLS % "spaces")
    assert (name[0], int(reads[1]), int(writes[1]), nodes[0]) == ("table", here["reads"], here["writes"], "0, 1, 2"), (here, reads, writes)
    assert abs(float(hits[0].replace("\u00a0%", "")) - here["hit_percent"]) < .06, (hits, here)


def test_a_browser_shows_it_under_load():
    need_browser()
    with Loaded() as loaded, browser.Browser() as tab:
        member, port = loaded.members[0], loaded.ports[0]
        hot_is_hot(loaded)
        all_is_used(loaded)
        for dark in (False, True):
            for width, height, touch, columns in WIDTHS:
                tab.look(width, height, dark, touch)
                tab.go(f"http://127.0.0.1:{port}/")
                tab.wait(ANSWERED)
                tab.wait("document.querySelectorAll('#hottest tbody tr').length > 0 && "
                         "document.querySelectorAll('#past tbody tr').length > 0")
                tab.listen(2.5)
                looks_right(tab, f"page-{width}-{'dark' if dark else 'light'}", columns)
        before = member.numbers()
        asked = int(tab.value("document.body.dataset.asked"))
        tab.wait(f"Number(document.body.dataset.asked) > {asked + 1500000}")
        puts = "document.querySelector(\"[data-key='Puts a second'] span\").textContent"
        # Its part of a hundred a second on three nodes.
        tab.wait(f"parseFloat({puts}) >= {PER_SECOND / 3}", 240)
        told = {label: shown(tab, label) for label in ("Puts a second", "Objects", "Pulls a second")}
        rate = float(tab.value(puts).replace("\u202f", ""))
        after = member.numbers()
        assert before["seals"] <= told["Puts a second"] <= after["seals"], (before["seals"], told, after["seals"])
        assert before["pulls"] <= told["Pulls a second"] <= after["pulls"] and told["Objects"] > 0
        # It is of a second at least, which lies between the two.
        assert rate <= (after["seals"] - before["seals"]) / .9, (rate, before["seals"], after["seals"])
        loaded.rest()
        wait_for(lambda: member.numbers()["loans"] == 0)
        asked = int(tab.value("document.body.dataset.asked"))
        tab.wait(f"Number(document.body.dataset.asked) > {asked + 2000000}")
        numbers = member.numbers()
        assert shown(tab, "Objects") == numbers["objects"] and shown(tab, "Memory in use") == numbers["used_bytes"]
        assert shown(tab, "Nodes up") == 3 and shown(tab, "Calls a second") == numbers["calls_begun"]
        assert tab.value("[...document.querySelectorAll('#nodes tbody tr')].map(r => r.cells[3].dataset.value).join()") == "up,up,up"
        shows_regions_and_spaces(tab, member)
        curves_are_drawn(tab, port)
        assert not tab.errors, tab.errors


# The first of those under way, if it has begun.
UNDER_WAY = """(() => {
  const row = document.querySelector("#now tbody tr");
  return row && row.cells[2].textContent !== "\u2013" ? [...row.cells].map(cell => [cell.textContent, cell.dataset.value ?? null]) : null;
})()"""


def row_under_way(tab, held):
    """What stands there, as the page has asked since it was seen to come in part; None: it has ended. A drip now and then, so
    that the node is not taken for lost."""
    dripped = time.monotonic()
    while held.get.poll() is None:
        row = tab.value(UNDER_WAY)
        if row and int(row[3][1]) >= held.seen["done_bytes"]:
            return row
        tab.listen(.1)
        if time.monotonic() > dripped + STANDS_S:
            held.drips.drip()
            dripped = time.monotonic()
    return None


def shown_under_way(tab, held):
    """What stands there, and what the page's numbers are then; of another object where all of one has come meanwhile."""
    for _ in range(TRIES):
        row, after = row_under_way(tab, held), held.look()
        if row is not None and after is not None:
            return row, after
        held.end()
        tab.wait("document.querySelector('#now .empty') !== null")
        held.hold()
    raise AssertionError("each time it ended meanwhile")


def test_a_browser_shows_what_is_under_way():
    need_browser()
    with browser.Browser() as tab, Held("one-sided") as held:
        for width, height, touch, columns in WIDTHS:
            tab.look(width, height, touch, touch)
            tab.go(f"http://127.0.0.1:{held.port}/")
            tab.wait(ANSWERED)
            row, after = shown_under_way(tab, held)
            name, node, way, done, rate, took = row
            assert (name[0], node[0], way[0]) == (held.id[:12] + "…", "from node 0", "read in place"), row
            assert held.seen["done_bytes"] <= int(done[1]) <= after["done_bytes"], (held.seen, row, after)
            assert 0 < int(took[1]) <= after["took_us"], (row, after)
            assert done[0].endswith("of 64.0\u00a0MiB") and rate[0].endswith("/s"), row
            assert abs(int(rate[1]) - int(done[1]) * 1e6 / int(took[1])) <= 1, row
            held.drips.drip()
            looks_right(tab, f"under-way-{width}", columns)
        held.end()
        tab.wait(f"document.querySelector('#past td')?.textContent === '{held.name}' && document.querySelector('#now .empty') !== null")
        assert not tab.errors, tab.errors


def test_names_are_text():
    need_browser()
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port), "--space-memory", "16M")
    own = {**os.environ, "NIGH_SOCKET": node.path}
    nigh = os.environ["NIGH"]
    subprocess.run([nigh, "put", HOSTILE, "-"], input=b"x" * 100, env=own, check=True, capture_output=True)
    subprocess.run([nigh, "space", "create", "<script>alert(2)</script>", "1M"], env=own, check=True, capture_output=True)
    with browser.Browser() as tab:
        tab.look(360, 780, touch=True)
        tab.go(f"http://localhost:{port}/")
        tab.wait(ANSWERED)
        for _ in range(3):
            subprocess.run([nigh, "get", HOSTILE], env=own, check=True, capture_output=True)
        tab.wait("document.querySelectorAll('#hottest tbody tr').length > 0")
        written = "".join(f"\\u{ord(c):04x}" for c in UNSEEN)
        assert tab.value("document.querySelector('#hottest td').textContent") == HOSTILE.replace(UNSEEN, written)
        for place in ("#hottest td", "#who"):
            assert tab.value(f"getComputedStyle(document.querySelector('{place}')).unicodeBidi") == "isolate", place
        tab.wait("document.querySelectorAll('#spaces tbody tr').length > 0")
        assert tab.value("document.querySelectorAll('td img, td script').length") == 0
        looks_right(tab, "names")
        assert node.stop()[0] == 0
        tab.wait("document.documentElement.className === 'old'")
        assert "does not answer; these numbers are of" in tab.value("document.getElementById('state-text').textContent")
    # The browser says so when nobody listens any more; that is no script's fault.
    assert all("ERR_CONNECTION" in error or "Failed to load" in error for error in tab.errors), tab.errors


# ---- alerts


def test_alerts_speak_of_what_is_told():
    promtool = shutil.which("promtool")
    if promtool is None:
        raise raw.Skipped("there is no promtool")
    folder = os.path.join(SOURCE, "share", "prometheus")
    for arguments in (["check", "rules", "nigh.rules.yml"], ["test", "rules", "nigh.test.yml"]):
        done = subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (port,) = free_ports(1)
    node = raw.Node("--http", str(port), "--space-memory", "16M")
    subprocess.run([os.environ["NIGH"], "space", "create", b"no\nutf-8 \xff\"", "1M"], env={**os.environ, "NIGH_SOCKET": node.path},
                   check=True, capture_output=True)
    text = metrics(port)
    assert 'nigh_one_space_reads_total{space="no\\nutf-8 \\\\xff\\""} 0' in text, text[-2000:]
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(os.path.join(folder, "nigh.rules.yml"), encoding="utf-8") as file:
        rules = file.read()
    with open(os.path.join(folder, "nigh.test.yml"), encoding="utf-8") as file:
        tried = re.findall(r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels:", file.read())
    assert sorted(re.findall(r"- alert: (\w+)", rules)) == sorted(set(tried)), "each is tried, when it is due and with what it says"
    asked = set(re.findall(r"\bnigh_\w+", "\n".join(line for line in rules.splitlines() if "expr:" in line)))
    options = set(re.findall(r"--[a-z][a-z-]*", subprocess.run([os.environ["NIGHD"], "--help"], check=True, capture_output=True, text=True).stdout))
    assert set(re.findall(r"--[a-z][a-z-]*", rules)) <= options, "a remedy names an option that there is not"
    told = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    assert asked and not {name for name in asked if name not in told and name.removesuffix("_bucket") not in told}, asked - told
    assert node.stop()[0] == 0


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
