#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What nighd tells over HTTP: numbers that move, and strangers who connect and never ask."""
import ctypes
import http.client
import os
import re
import resource
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import Cluster  # noqa: E402
from replicas import Five, kill  # noqa: E402
from services import end, serve  # noqa: E402

PLACES = 16  # HTTP_CONNECTIONS
SAMPLE = re.compile(r'^(nigh_[a-z_]+)(\{[^}]*\})? (\+Inf|[0-9.]+)$')


def ask(port, path="/metrics", method="GET", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def ask_anew(port):
    """What is made after it was asked for: one is printed again for a tenth of a second."""
    old, said = ask(port), []

    def is_new():
        said[:] = ask(port)
        return said != list(old)

    raw.wait_for(is_new)
    return said


def numbers(port):
    """The samples by name and labels; each has its help and type, and stands once."""
    status, body = ask_anew(port)
    assert status == 200, (status, body)
    found, typed = {}, set()
    for line in body.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in typed, line
            if kind == "histogram":
                assert name.endswith("_seconds"), line
                typed |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
            else:
                assert kind == ("counter" if name.endswith("_total") else "gauge"), line
            typed.add(name)
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.match(line).groups()
            assert name in typed and (name, labels) not in found, line
            found[name, labels] = float(value.replace("+Inf", "inf"))
    return found


def raw_ask(port, *pieces):
    """Sends bytes as they are, a piece after the other; what comes back until the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        for piece in pieces:
            sock.sendall(piece)
        said = b""
        while chunk := sock.recv(65536):
            said += chunk
        return said.decode()


def test_numbers_move():
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", str(port))
    before = numbers(port)
    assert before["nigh_memory_bytes", None] == 64 << 20 and before["nigh_seals_total", None] == 0
    assert before["nigh_member_up", '{rank="0",address=""}'] == 1, "a node that is alone is one"
    process = raw.subprocess.run([os.environ["NIGH"], "put", "a", "-"], input=b"x" * 1000, check=True,
                                 env={**os.environ, "NIGH_SOCKET": node.path}, stdout=raw.subprocess.DEVNULL)
    assert process.returncode == 0
    after = numbers(port)
    assert after["nigh_seals_total", None] == 1 and after["nigh_objects", None] == 1
    assert before["nigh_calls_begun_total", None] == after["nigh_calls_under_way", None] == 0
    raw.subprocess.run([os.environ["NIGH"], "call", "nobody", "x"], check=False,
                       env={**os.environ, "NIGH_SOCKET": node.path}, stderr=raw.subprocess.DEVNULL)
    assert numbers(port)["nigh_calls_begun_total", None] == 1
    assert after["nigh_uptime_seconds", None] >= before["nigh_uptime_seconds", None]
    node.stop()


def test_calls_of_every_kind_move_them():
    """Of two nodes: a call of both, one that is made again as its server died, calls in a pair with memory that they bring."""
    ports = raw.free_ports(2)
    cluster = Cluster("--call-memory", "32M")
    with cluster as members:
        for member, port in zip(members, ports):
            assert member.end() == 0
            member.flags += ["--http", str(port)]
            member.start()
        cluster.wait_met()
        a, b = members

        def seen(rank, name):
            return numbers(ports[rank])[f"nigh_{name}", None]

        server = serve(a, "echo")
        b.good("call", "echo", "--node", "0", "x")
        assert seen(1, "collectives_begun_total") == 0
        said = b.run("call", "echo", "x", "--all")
        assert (seen(1, "collectives_begun_total"), seen(1, "collectives_taken_total")) == (1, 0), said
        assert (seen(0, "collectives_begun_total"), seen(0, "collectives_taken_total")) == (0, 1)
        assert (seen(1, "collective_answers_total"), seen(1, "collective_failures_total")) == (1, 1), said
        assert seen(0, "collectives_under_way") == seen(1, "collectives_under_way") == 0

        assert seen(1, "calls_retried_total") == 0
        os.kill(server.pid, signal.SIGSTOP)
        call = b.begin("call", "echo", "--idempotent", "--node", "0", "again")
        raw.wait_for(lambda: seen(0, "requests_unanswered") == 1)
        end(server)
        raw.wait_for(lambda: seen(1, "calls_retried_total") > 0)
        server = serve(a, "echo")
        assert call.communicate(timeout=60)[0] == b"again"
        end(server)

        assert seen(0, "call_memory_limit_bytes") == 32 << 20 and seen(0, "call_memory_bytes") == 0
        made = seen(0, "pairs_made_total")
        a.good("bench", "rpc")
        assert seen(0, "pairs_made_total") > made
        raw.wait_for(lambda: seen(0, "pairs") == 0)
        assert seen(0, "pairs_made_total") == seen(0, "pairs_dropped_total")


def test_members_and_links():
    (port,) = raw.free_ports(1)
    cluster = Cluster()
    with cluster as (a, b):
        assert a.end() == 0
        a.flags += ["--http", str(port)]
        a.start()

        def members_up():
            return sorted(value for (name, _), value in numbers(port).items() if name == "nigh_member_up")

        raw.wait_for(lambda: members_up() == [1, 1])
        raw.wait_for(lambda: numbers(port)["nigh_links_up", None] >= 1)
        raw.wait_for(lambda: ("nigh_link_crossover_bytes", '{rank="1",rail="0"}') in numbers(port))
        assert b.end() == 0
        raw.wait_for(lambda: members_up() == [0, 1])
        b.start()


def test_what_nodes_keep_for_each_other():
    """Of three, one that holds a replica dies: its death, and what is made good, are counted."""
    ports = raw.free_ports(3)
    cluster = Five(nodes=3)
    with cluster as members:
        for member, port in zip(members, ports):
            assert member.end() == 0
            member.flags += ["--http", str(port)]
            member.start()
        cluster.wait_met()

        def total(name, ranks=(0, 1, 2)):
            return sum(numbers(ports[rank])[f"nigh_{name}", None] for rank in ranks)

        members[0].good("put", "kept", "-", "--replicas", "2", data=bytes(10000))
        assert (total("replicas_wanted"), total("replicas_missing"), total("replicas_made_total")) == (2, 0, 1)
        assert total("replica_bytes") >= 10000 and total("replicas_repaired_total") == 0
        (victim,) = [rank for rank in (1, 2) if "kept" in members[rank].names()]
        left = [rank for rank in range(3) if rank != victim]
        kill(members[victim])
        raw.wait_for(lambda: total("replicas_repaired_total", left) == 1 and total("replicas_missing", left) == 0, 60)
        seen = numbers(ports[0])
        assert seen["nigh_member_dead", f'{{rank="{victim}",address="{cluster.join.split(",")[victim]}"}}'] == 1
        assert seen["nigh_node_deaths_total", None] >= 1


def test_what_is_no_request_is_refused():
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", f"127.0.0.1:{port}")
    assert ask(port, "/nothing")[0] == 404
    assert ask(port, "/metrics/x")[0] == 404
    assert ask(port, method="POST")[0] == 405
    assert ask(port, method="HEAD") == (200, "")
    assert ask(port, "/" + "x" * 300)[0] == 414
    assert raw_ask(port, b"GET /met", b"rics HTTP/1.1\r\nHost:", b" localhost\r\n\r", b"\n").startswith("HTTP/1.1 200 OK")
    assert raw_ask(port, b"x" * 4096).startswith("HTTP/1.1 431 ")
    assert raw_ask(port, b"\0\r\n\r\n").startswith("HTTP/1.1 400 ")
    assert raw_ask(port, b"GET / HTTP/3.0\r\n\r\n").startswith("HTTP/1.1 505 ")
    assert numbers(port)["nigh_sessions", None] == 1, "its own"
    node.stop()


def test_who_never_asks_goes():
    """As many as there are places, and more: all places are free again after a while, and who asked is answered."""
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", str(port))
    idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(PLACES)]
    assert numbers(port)["nigh_sessions", None] == 1
    for sock in idle:
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass
        sock.close()
    before = len(os.listdir(f"/proc/{node.process.pid}/fd"))
    for _ in range(300):
        assert ask(port)[0] == 200
    raw.wait_for(lambda: len(os.listdir(f"/proc/{node.process.pid}/fd")) <= before)
    node.stop()


def has_connections(port):
    """Whether the node has one that it has taken: it is in use as long, whatever its asker thinks."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return any(int(row[1].split(":")[1], 16) == port and row[3] != "0A" and row[9] != "0" for row in rows)


def test_who_is_late_is_not_answered():
    """Though all that he asks is there when the node looks again."""
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", str(port))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        raw.wait_for(lambda: has_connections(port))
        begun = time.monotonic()
        raw.halt(node.process)
        raw.wait_for(lambda: time.monotonic() - begun > 5.2)
        sock.sendall(b"\r\n")
        node.process.send_signal(signal.SIGCONT)
        try:
            assert sock.recv(15) == b""
        except ConnectionResetError:
            pass
    assert node.stop()[0] == 0


def waits_in_vain(port, pid, limit):
    """Asks while the node may open nothing; how long that was, and what the node took of the processor meanwhile. None:
    a number that was not in use yet is free by now, and it was answered."""
    def used():
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    raw.wait_for(lambda: not has_connections(port))
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(taken) + 1)) - taken), limit[1]))
    with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        before, begin = used(), time.monotonic()
        try:
            sock.recv(1)
            return None
        except TimeoutError:
            pass
        took = used() - before, time.monotonic() - begin
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        sock.settimeout(30)
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
        return took


def test_without_descriptors_it_waits():
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", str(port))
    numbers(port)
    limit = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
    tries = (waits_in_vain(port, node.process.pid, limit) for _ in range(10))
    used, seconds = next(took for took in tries if took is not None)
    assert used < seconds / 3, "it spins"
    assert node.stop()[0] == 0


def test_a_stop_does_not_wait_for_them():
    (port,) = raw.free_ports(1)
    node = raw.Node("--http", str(port))
    numbers(port)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(b"GET /metrics")
        code, said = node.stop()
    assert code == 0, said


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = raw.Node("--http", str(port))
        assert not node.ready
        node.process.wait(timeout=30)
        code, said = node.stop()
    assert code == 4 and f"127.0.0.1:{port}" in said and "in use" in said, (code, said)


PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, CLONE_NEWNET = 24, 10, 0x40000000


def refused(before_exec, port):
    """How a node that may not listen there ends."""
    node = raw.Node("--http", str(port), before_exec=before_exec)
    assert not node.ready
    node.process.wait(timeout=30)
    return node.stop()


def test_a_port_that_is_not_for_this_user():
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        if int(file.read()) <= 80:
            raise raw.Skipped("all ports are everybody's here")
    code, said = refused(lambda: libc.prctl(PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, 0, 0, 0), 80)
    assert code == 5 and "127.0.0.1:80" in said and "denied" in said, (code, said)


def test_an_address_that_is_not_there():
    """A network whose loopback is not up has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(CLONE_NEWNET) == 0 else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise raw.Skipped("no network of its own is to be had")
    code, said = refused(lambda: libc.unshare(CLONE_NEWNET), "[::1]:7707")
    assert code == 2 and "[::1]:7707" in said and "cannot listen" in said, (code, said)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
