#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Services of processes: one that serves a name at a node, callers at both, and a server that is killed amid calls."""
import json
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import FAILED, NOT_FOUND, OK, TIMEOUT, Cluster  # noqa: E402

USAGE = 2
ECHO = os.environ["ECHO_SERVICE"]
COUNTER = os.environ["COUNTER_SERVICE"]
ODD = os.environ["ODD_SERVICE"]
ANSWERED = 10
STATUSES = {"NIGH_NOT_FOUND": -2, "NIGH_DENIED": -9, "NIGH_TIMEOUT": -7, "NIGH_LIMIT": -11}
PLACES, BESIDE = 64, 8  # calls under way between two nodes of a small cluster; and urgent ones beside them


def serve(member, name):
    """A process that serves a name; returns when it does, or has ended."""
    process = subprocess.Popen([ECHO, name], env={**os.environ, "NIGH_SOCKET": member.path}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.said = process.stdout.readline()
    return process


def odd(member, *words):
    return subprocess.Popen([ODD, *words], env={**os.environ, "NIGH_SOCKET": member.path}, stdout=subprocess.PIPE,
                            bufsize=0)


def line_of(process):
    assert select.select([process.stdout], [], [], 60)[0], "it says nothing"
    return process.stdout.readline().decode()


def served_by(member, request):
    return json.loads(member.good("call", "echo", request, "--json"))["node"]


def end(process):
    process.kill()
    process.communicate(timeout=30)


def test_a_process_serves_callers_of_both_nodes():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        server = serve(a, "echo")
        assert server.said == b"serving echo\n"
        assert a.good("call", "echo", "here") == b"here"
        assert b.good("call", "echo", "--node", "0", data=b"from there\0") == b"from there\0"
        assert len(b.good("call", "echo", "-n0", data=bytes(8192))) == 8192
        assert "no node 7" in b.run("call", "echo", "-n7", "x")[2]
        said = json.loads(b.good("call", "echo", "--node", "0", "x", "--json"))
        assert said == {"service": "echo", "node": 0, "reply_bytes": 1, "reply": "x"}
        assert a.run("call", "echo", "--node", "1", "x")[0] == NOT_FOUND, "each node has its own"

        second = serve(a, "echo")
        assert second.wait(timeout=30) == 1 and b"already" in second.stderr.read()
        end(second)
        other = serve(b, "echo")
        assert other.said != b"" and served_by(b, "x") == 1, "its own"
        end(other)

        end(server)
        raw.wait_for(lambda: b.run("call", "echo", "--node", "0", "x")[0] == NOT_FOUND)
        server = serve(a, "echo")
        assert b.good("call", "echo", "--node", "0", "again") == b"again"
        end(server)


def add(member, name, number):
    done = subprocess.run([COUNTER, "add", name, str(number)], env={**os.environ, "NIGH_SOCKET": member.path},
                          capture_output=True, timeout=60)
    return done.stdout or done.stderr


def test_a_process_serves_structs():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        server = subprocess.Popen([COUNTER, "serve"], env={**os.environ, "NIGH_SOCKET": a.path}, stdout=subprocess.PIPE)
        assert server.stdout.readline() == b"serving counter.add\n"
        raw.wait_for(lambda: add(b, "seen", 1) == b"1\n")
        assert [add(member, "both", 2 ** 40 + 1) for member in (a, b, a)] == [b"%d\n" % (n * (2 ** 40 + 1)) for n in (1, 2, 3)]
        assert b"NIGH_INVALID" in add(b, "", 1), "the service looks at what it is sent"
        code, _, words = b.run("call", "counter.add", "these are bytes")
        assert code == ANSWERED and "the service answered: NIGH_VERSION" in words
        assert add(b, "both", 0) == b"%d\n" % (3 * (2 ** 40 + 1)), "it goes on"
        end(server)


def test_all_nodes_are_called_at_once():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        servers = [serve(a, "echo"), serve(b, "echo")]
        assert a.good("call", "echo", "--all", "hello") == b"0: hello\n1: hello\n"
        assert b.good("call", "echo", "-a", data=b"hello\0") == b"0: hello\0\n1: hello\0\n"
        assert a.good("call", "echo", "--ranks", "1", "hello") == b"1: hello\n"
        said = json.loads(b.good("call", "echo", "--ranks", "1,0", "x", "--json"))
        version = said.pop("version")
        assert said == {"service": "echo", "answered": 2, "failed": 0, "unknown": 0, "unasked": 0, "errors": [],
                        "replies": [{"node": rank, "reply_bytes": 1, "reply": "x"} for rank in range(2)]}
        assert version > 0 and version == json.loads(a.good("call", "echo", "--all", "x", "--json"))["version"]
        for wrong in ("", "1,", ",1", "1,,2", "-x", "1-2", "256", "x" * 32):
            assert a.run("call", "echo", "--ranks", wrong, "x")[0] == USAGE, wrong
        for option in ("--ranks", "--node"):
            code, _, said = a.run("call", "echo", option, "nobody", "x")
            assert code == NOT_FOUND and "no node is called nobody" in said, said
        code, out, said = a.run("call", "echo", "--all", "x" * 4000)
        assert code != 0 and len(out.splitlines()) == 1, (code, out)
        assert "its reply was larger than the room left" in said and "7680 bytes" in said, said
        assert a.run("call", "echo", "--all", "--node", "1", "x")[0] == USAGE
        assert "not valid" in a.run("call", "echo", "--ranks", "0,2", "x")[2], "there is no node 2"

        end(servers[1])
        raw.wait_for(lambda: a.run("call", "echo", "--ranks", "1", "x")[0] == NOT_FOUND)
        code, out, said = a.run("call", "echo", "--all", "x")
        assert (code, out) == (NOT_FOUND, b"0: x\n") and "node 1: " in said and "was not carried out" in said, said
        b.end()
        code, out, said = a.run("call", "echo", "--all", "x")
        assert (code, out) == (FAILED, b"0: x\n") and "node 1: " in said, (code, said)
        end(servers[0])


def test_what_a_service_answers_is_not_said_as_the_nodes_own():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        for name, value in STATUSES.items():
            server = odd(a, "answer", name, str(value))
            assert line_of(server) == "serving\n"
            for member in (a, b):
                code, printed, said = member.run("call", name, "-n0", "x")
                assert (code, printed) == (ANSWERED, b"") and f"the service answered: {name} (node 0)" in said, said
                code, printed, _ = member.run("call", name, "-n0", "x", "--json")
                assert code == json.loads(printed)["exit_code"] == ANSWERED and name in json.loads(printed)["error"]
                if name in ("NIGH_NOT_FOUND", "NIGH_DENIED"):  # of many nodes the others may be nigh's
                    code, _, said = member.run("call", name, "--ranks", "0", "x")
                    assert code == ANSWERED and f"node 0: the service answered: {name}" in said, said
            end(server)
        assert a.run("call", "nobody", "x")[0] == NOT_FOUND
        assert a.run("call", "nobody", "--all", "x")[0] == NOT_FOUND


def test_one_way_ends_at_once():
    """Of a service that never answers: the call ends, and it had the message."""
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        server = odd(a, "hold", "held")
        assert line_of(server) == "serving\n"
        for n, member in enumerate((a, b)):
            assert member.good("call", "held", "-n0", "--one-way", f"note {n}") == b""
            assert line_of(server) == f"had note {n}, one-way\n"
            said = json.loads(member.good("call", "held", "-n0", "--one-way", f"again {n}", "--json"))
            assert said == {"service": "held", "node": 0}, said
            assert line_of(server) == f"had again {n}, one-way\n"
        for option in ("--one-way", "--urgent"):
            assert a.run("call", "held", "--all", option, "x")[0] == USAGE
        end(server)


def test_urgent_goes_before_what_waits():
    cluster = Cluster("--lanes", "1")
    with cluster as (a, b):
        cluster.wait_met()
        server = odd(a, "hold", "held")
        assert line_of(server) == "serving\n"
        many = odd(b, "flood", "held", "0", str(PLACES + BESIDE))
        assert [line_of(server) for _ in range(PLACES)] == ["had flood\n"] * PLACES
        assert b.run("call", "held", "-n0", "waits", "--timeout", "100ms")[0] == TIMEOUT
        urgent = b.begin("call", "held", "-n0", "--urgent", "goes", "--timeout", "60s")
        assert line_of(server) == "had goes\n"
        end(server)
        urgent.communicate(timeout=30)
        many.communicate(timeout=30)
        assert urgent.returncode != OK


def test_calls_of_a_server_that_is_killed_end():
    """It is stopped first: it has one request, others wait for it, here and at the other node."""
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        server = serve(a, "echo")
        assert a.good("call", "echo", "x") == b"x"
        raw.halt(server)
        assert b.run("call", "echo", "--node", "0", "x", "--timeout", "200ms")[0] == TIMEOUT, "its deadline alone"
        calls = [member.begin("call", "echo", "--node", "0", "x", "--timeout", "50s") for member in (a, b) * 3]
        raw.wait_for(lambda: a.numbers()["sessions"] >= 5)
        end(server)
        for call in calls:
            _, said = call.communicate(timeout=30)
            assert call.returncode in (FAILED, NOT_FOUND), (call.returncode, said)


def test_any_server_of_a_name_is_called():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        assert b.run("call", "echo", "x")[0] == NOT_FOUND
        assert "no node" in b.run("call", "echo", "x")[2]
        server = serve(a, "echo")
        raw.wait_for(lambda: b.run("call", "echo", "x")[0] == OK)
        assert served_by(b, "x") == 0
        own = serve(b, "echo")
        assert served_by(b, "x") == 1, "its own first"
        assert served_by(a, "x") == 0

        # It is stopped, with calls that wait for it; killed, those that may be carried out twice go on.
        raw.halt(own)
        twice = [b.begin("call", "echo", "x", "--idempotent", "--timeout", "50s", "--json") for _ in range(3)]
        once = b.begin("call", "echo", "x", "--timeout", "50s")
        raw.wait_for(lambda: b.numbers()["sessions"] >= 5)
        end(own)
        for call in twice:
            said, _ = call.communicate(timeout=60)
            assert call.returncode == OK and json.loads(said)["node"] == 0, said
        once.communicate(timeout=60)
        # One that came after its server had ended was taken by nobody, and went on; else it ends.
        assert once.returncode in (OK, FAILED)

        # Nobody is left, until the node is there again.
        end(server)
        assert a.end(signal.SIGKILL) != OK
        call = b.begin("call", "echo", "--node", "0", "x", "--idempotent", "--timeout", "60s", "--json")
        a.start()
        server = serve(a, "echo")
        said, _ = call.communicate(timeout=60)
        assert call.returncode in (OK, NOT_FOUND), said
        raw.wait_for(lambda: b.run("call", "echo", "x")[0] == OK)
        end(server)


def test_a_call_goes_where_its_bytes_are():
    """Of two nodes that serve the name, the one that holds most of what the call is about; an older choice else."""
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        a.good("put", "small", "-", data=bytes(1000))
        b.good("put", "large", "-", data=bytes(5000))
        for member, own in ((a, 0), (b, 1)):
            said = member.parsed("locate", "small", "large", "nowhere")
            assert (said["asked"], said["missing"]) == (3, 1)
            assert [(item["rank"], item["objects"], item["size_bytes"], item["is_self"]) for item in said["nodes"]] == \
                [(1, 1, 5000, own == 1), (0, 1, 1000, own == 0)]
        code, _, said = a.run("locate", "nowhere")
        assert code == NOT_FOUND and "nowhere: no such object in your pool, on this node or another" in said, (code, said)
        servers = [serve(a, "echo"), serve(b, "echo")]
        raw.wait_for(lambda: b.run("call", "echo", "-n0", "x")[0] == a.run("call", "echo", "-n1", "x")[0] == OK)

        def near(member, *names):
            options = [word for name in names for word in ("--near", name)]
            return json.loads(member.good("call", "echo", *options, "x", "--json"))["node"]

        def knows(member, other):
            """It has heard that the other serves the name."""
            return near(member, ("small", "large")[other]) == other

        raw.wait_for(lambda: knows(a, 1) and knows(b, 0))
        assert [near(member, name) for member in (a, b) for name in ("small", "large")] == [0, 1] * 2
        assert near(a, "small", "large") == near(b, "small", "large") == 1, "most bytes, not most objects"
        assert (near(a, "nowhere"), near(b, "nowhere")) == (0, 1), "its own"
        end(servers[1])
        raw.wait_for(lambda: near(a, "large") == 0)
        end(servers[0])


def test_a_node_that_does_not_say_where_things_are_is_not_waited_for():
    """Half of what a call is about has its home at a node that stands still: it goes to a server all the same, after a
    part of its time, and a fifth of a second at most for all of them, of which some are asked for after others."""
    cluster = Cluster("--dead-ms", "60000")
    with cluster as (a, b):
        cluster.wait_met()
        server = serve(a, "echo")
        near = [word for n in range(100) for word in ("--near", f"nowhere{n}")]
        assert a.good("call", "echo", *near, "x") == b"x"
        b.process.send_signal(signal.SIGSTOP)
        raw.wait_for(lambda: raw.is_stopped(b.process.pid))
        try:
            at = time.monotonic()
            assert a.good("call", "echo", *near, "x", "--timeout", "20s") == b"x"
            assert time.monotonic() - at < 1.5, time.monotonic() - at
            assert a.good("call", "echo", *near, "x", "--timeout", "1s") == b"x"
        finally:
            b.process.send_signal(signal.SIGCONT)  # or nothing ends it
            end(server)


def test_a_node_that_has_not_come_yet_is_waited_for():
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        b.end()
        code, _, said = a.run("call", "echo", "--node", "1", "x", "--timeout", "50s")
        assert code == FAILED and "was not carried out" in said, "it is gone, and said so"
        a.end()
        a.start()
        code, _, said = a.run("call", "echo", "--node", "1", "x", "--timeout", "100ms")
        assert code == TIMEOUT, said
        call = a.begin("call", "echo", "--node", "1", "x", "--timeout", "50s")
        raw.wait_for(lambda: a.numbers()["sessions"] >= 1)
        b.start()
        _, said = call.communicate(timeout=60)
        assert call.returncode == NOT_FOUND and b"node 1 has no service" in said, said


def test_a_node_that_begins_anew_ends_its_services():
    with Cluster() as (a, _):
        server = serve(a, "echo")
        assert a.good("call", "echo", "x") == b"x"
        assert a.end(signal.SIGKILL) != OK
        a.start()
        assert server.wait(timeout=60) == 1
        assert a.run("call", "echo", "x")[0] == NOT_FOUND
        end(server)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
