#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Services of processes: one that serves a name at a node, callers at both, and a server that is killed amid calls."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import FAILED, NOT_FOUND, OK, TIMEOUT, Cluster  # noqa: E402

ECHO = os.environ["ECHO_SERVICE"]


def serve(member, name):
    """A process that serves a name; returns when it does, or has ended."""
    process = subprocess.Popen([ECHO, name], env={**os.environ, "NIGH_SOCKET": member.path}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.said = process.stdout.readline()
    return process


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


def test_calls_of_a_server_that_is_killed_end():
    """It is stopped first: it has one request, others wait for it, here and at the other node."""
    cluster = Cluster()
    with cluster as (a, b):
        cluster.wait_met()
        server = serve(a, "echo")
        assert a.good("call", "echo", "x") == b"x"
        server.send_signal(signal.SIGSTOP)
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
        own.send_signal(signal.SIGSTOP)
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
