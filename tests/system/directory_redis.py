#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Three nodes whose directory is a Redis server: what users do across nodes, and what is left of it while the server is
killed, stopped, emptied and back."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from cluster_cli import EXISTS, FAILED, NOT_FOUND, OK, TIMEOUT, Member  # noqa: E402
import raw_session as raw  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402

NODES = 3


class Redis:
    """A server without persistence, on a socket of its own."""

    def __init__(self, folder, *flags):
        self.path, self.flags, self.process = os.path.join(folder, "redis"), flags, None
        self.log = os.path.join(folder, "redis.log")
        self.start()

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no",
                 "--dir", os.path.dirname(self.path), *self.flags], stdout=log, stderr=log)
        raw.Node.running.append(self.process)  # which ends it, too, where a world did not come about
        wait_for(lambda: b"PONG" in self.say("PING") or b"NOAUTH" in self.say("PING"))

    def say(self, *words):
        return subprocess.run(["redis-cli", "-s", self.path, *words], capture_output=True, timeout=30).stdout

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            raw.Node.running.remove(self.process)
            self.process.wait(timeout=30)

    def close(self):
        raw.Node.running.remove(self.process)
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(timeout=30)


class World:
    """Nodes and their server."""

    def __init__(self, *flags, server=(), url="unix://{}", wait=True):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        self.redis = Redis(self.folder.name, *server)
        join = ",".join(f"127.0.0.1:{port}" for port in free_ports(NODES))
        key = os.path.join(self.folder.name, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        self.members = [Member(self.folder.name, rank, join, key, "--dead-ms", "1500", "--directory",
                               url.format(self.redis.path), *flags) for rank in range(NODES)]
        if wait:
            self.wait_met()

    def wait_met(self):
        try:
            for member in self.members:
                wait_for(lambda: member.states() == ["up"] * NODES and is_reached(member))
        except BaseException:
            self.tell()
            raise

    def tell(self):
        """What the nodes say themselves, of a test that fails."""
        for member in self.members:
            print("# " + "\n# ".join(member.said().splitlines()[-20:]))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self.tell()
        for member in self.members:
            if member.process is not None:
                code = member.end()
                assert error is not None or code == 0, (code, member.said()[-2000:])
        self.redis.close()
        self.folder.cleanup()


def unreached(member):
    """The lines of its log that say why the directory is not reached."""
    return "\n".join(line for line in member.said().splitlines() if "the directory is not reached" in line)


def rejected(redis, password):
    """How often somebody wanted something of the server without its password: so often it was tried to reach it."""
    stats = redis.say("--no-auth-warning", "-a", password, "INFO", "commandstats").decode()
    return sum(int(count) for count in re.findall(r"rejected_calls=(\d+)", stats))


def is_reached(member):
    """Whether a node's directory can say where things are."""
    code, _, said = member.run("who", "nothing")
    return code == NOT_FOUND and "or another" in said


def servers(member):
    stats = json.loads(member.good("top", "--once", "--json"))
    return stats["directory_servers"], stats["directory_servers_up"], stats["directory_losses"]


def finding(member):
    """What nigh doctor says of the directory."""
    found = [item for item in json.loads(member.run("doctor", "--json")[1]) if item["subject"] == "directory"]
    assert len(found) == 1 and (found[0]["severity"] == "bad") == (found[0]["remedy"] != ""), found
    return found[0]["finding"]


def put(member, name, text):
    member.good("put", name, "-", data=text)


def test_what_users_do():
    with World() as world:
        a, b, c = world.members
        put(a, "first", b"hello")
        assert b.good("get", "first") == b"hello"
        wait_for(lambda: sorted(c.places("first")) == [0, 1])
        assert c.run("put", "first", "-", data=b"other")[0] == EXISTS, "one birth"
        code, _, said = c.run("rm", "first")
        assert code == OK, said
        for member in world.members:
            wait_for(lambda: member.names() == {})
        assert b.run("get", "first", "--timeout", "100ms")[0] in (NOT_FOUND, TIMEOUT)
        assert b.run("rm", "first")[0] == NOT_FOUND
        put(b, "first", b"again")
        assert a.good("get", "first") == b"again"


def test_a_get_waits_and_is_woken():
    with World() as world:
        a, b, _ = world.members
        waiting = b.begin("get", "later", "--timeout", "20s")
        wait_for(lambda: world.redis.say("--scan", "--pattern", "nigh:*:w*") != b"")
        put(a, "later", b"here")
        assert waiting.communicate(timeout=30)[0] == b"here"


def test_a_delete_of_what_was_just_put_elsewhere():
    with World() as world:
        a, b, _ = world.members
        for n in range(20):
            put(a, f"o{n}", b"x")
            assert b.run("rm", f"o{n}")[0] == OK, n


def test_server_killed_and_back_empty_amid_a_load():
    with World() as world:
        a, b, c = world.members
        done, failed = [], []

        def load():
            for n in range(60):
                code, _, said = a.run("put", "--no-claim", f"l{n}", "-", data=b"%d" % n)
                (done if code == OK else failed).append((n, said))

        thread = threading.Thread(target=load)
        thread.start()
        wait_for(lambda: len(done) > 10)
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: len(done) > 30)
        world.redis.start()
        thread.join()
        assert not failed, failed
        for n, _ in done:
            assert b.good("get", f"l{n}", "--timeout", "20s") == b"%d" % n, "nothing is lost"
        world.redis.say("FLUSHALL")
        for n, _ in done:
            assert c.good("get", f"l{n}", "--timeout", "20s") == b"%d" % n, "and told again"


def test_what_is_left_without_the_server():
    with World() as world:
        a, b, _ = world.members
        put(a, "old", b"1")
        assert b.good("get", "old") == b"1"
        assert servers(b) == (1, 1, 0) and "is reached" in finding(b), finding(b)
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: not is_reached(a) and not is_reached(b))
        assert servers(b) == (1, 0, 1) and "is not reached" in finding(b), finding(b)
        assert b"0 of 1 servers reached, 1 times lost" in b.good("top", "--once")
        assert b.good("get", "old") == b"1", "cached"
        a.good("put", "--no-claim", "new", "-", data=b"2")
        assert a.good("get", "new") == b"2"
        code, _, said = b.run("get", "new", "--timeout", "500ms")
        assert code == TIMEOUT and "within 500 ms; the directory is not reached" in said, (code, said)
        code, _, said = b.run("get", "new")
        assert code == FAILED and "the directory is not reached" in said, (code, said)
        code, _, said = b.run("put", "exclusive", "-", "--timeout", "500ms", data=b"3")
        assert code != OK and "cannot be said now" in said and "the directory is not reached" in said, said
        for verb in ("who", "locate"):
            code, _, said = b.run(verb, "new")
            assert code != OK and "the directory is not reached" in said, said
        waiting = b.begin("get", "new", "--timeout", "30s")
        world.redis.start()
        assert waiting.communicate(timeout=60)[0] == b"2", "recovers alone"
        assert "the directory is not reached" in b.said() and world.redis.path in b.said()
        assert servers(b) == (1, 1, 1) and "lost 1 times" in finding(b), finding(b)


def test_two_births_while_it_was_away():
    with World() as world:
        a, b, c = world.members
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: not any(is_reached(member) for member in world.members))
        a.good("put", "--no-claim", "two", "-", data=b"a")
        b.good("put", "--no-claim", "two", "-", data=b"b")
        world.redis.start()
        got = c.good("get", "two", "--timeout", "20s")
        wait_for(lambda: a.good("get", "two", "--timeout", "20s") == b.good("get", "two", "--timeout", "20s") == got)


def test_server_stopped():
    with World() as world:
        a, b, _ = world.members
        put(a, "old", b"1")
        world.redis.signal(signal.SIGSTOP)
        a.good("put", "--no-claim", "new", "-", data=b"2")
        assert a.good("get", "old") == b"1"
        wait_for(lambda: "the directory is not reached" in b.said())
        assert b.run("get", "new", "--timeout", "200ms")[0] != OK
        world.redis.signal(signal.SIGCONT)
        assert b.good("get", "new", "--timeout", "30s") == b"2"
        wait_for(lambda: is_reached(a))
        put(a, "newer", b"3")
        assert b.good("get", "newer", "--timeout", "20s") == b"3"


def test_locations_of_a_dead_node_go():
    with World() as world:
        a, b, c = world.members
        for n in range(50):
            put(a, f"d{n}", b"x")
        assert b.good("get", "d0") == b"x"
        wait_for(lambda: sorted(c.places("d0")) == [0, 1])
        a.end(signal.SIGKILL)
        wait_for(lambda: c.states()[0] == "dead")
        wait_for(lambda: c.places("d0") == [1] and c.run("who", "d1")[0] != OK)
        wait_for(lambda: world.redis.say("--scan", "--pattern", "nigh:*:s0.*") == b"")
        a.start()
        world.wait_met()
        put(a, "d1", b"y")
        assert c.good("get", "d1") == b"y"


def test_passwords():
    with tempfile.TemporaryDirectory() as folder:
        word = os.path.join(folder, "word")
        with open(os.open(word, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("open sesame\n")
        with World("--directory-password", word, server=("--requirepass", "open sesame")) as world:
            put(world.members[0], "p", b"1")
            assert world.members[1].good("get", "p") == b"1"
    with World(server=("--requirepass", "other"), url="unix://:wrong@{}", wait=False) as world:
        wait_for(lambda: "WRONGPASS" in world.members[0].said())
        assert "wrong" not in world.members[0].said().replace("went wrong", ""), "no password in the log"
        world.members[0].good("put", "--no-claim", "p", "-", data=b"1")


def test_each_reason_is_told_once():
    """Why the server is not reached may change, and is told anew then, not at each attempt; and from the start when it
    was reached meanwhile."""
    with World() as world:
        node = world.members[0]
        reasons = ("Connection refused", "NOAUTH", "it does not answer")
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: reasons[0] in unreached(node))
        world.redis.flags = ("--requirepass", "another")
        world.redis.start()
        wait_for(lambda: reasons[1] in unreached(node))
        before = rejected(world.redis, "another")
        wait_for(lambda: rejected(world.redis, "another") >= before + 4 * NODES)
        world.redis.signal(signal.SIGSTOP)
        wait_for(lambda: reasons[2] in unreached(node), 60)
        world.redis.signal(signal.SIGCONT)
        world.redis.signal(signal.SIGKILL)
        world.redis.flags = ()
        world.redis.start()
        wait_for(lambda: is_reached(node), 60)
        said = unreached(node)
        assert [said.count(reason) for reason in reasons] == [1, 1, 1], said
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: unreached(node).count(reasons[0]) == 2)
        world.redis.start()


def test_a_server_over_tcp():
    """At a port of its own; killed and back there, it is found again."""
    (port,) = free_ports(1)
    server = ("--bind", "127.0.0.1", "--port", str(port))
    with World(server=server, url=f"redis://127.0.0.1:{port}") as world:
        a, b, c = world.members
        put(a, "far", b"1")
        assert b.good("get", "far") == b"1" and c.run("put", "far", "-", data=b"2")[0] == EXISTS
        world.redis.signal(signal.SIGKILL)
        wait_for(lambda: not is_reached(b))
        assert b.good("get", "far") == b"1" and f"127.0.0.1:{port}" in b.said()
        a.good("put", "--no-claim", "new", "-", data=b"3")
        world.redis.start()
        c.end()
        c.flags[c.flags.index("--directory") + 1] = f"redis://127.1:{port}"  # another spelling is no other server
        c.start()
        world.wait_met()
        assert c.good("get", "new", "--timeout", "30s") == b"3"


def refusals(member):
    """Whom a node does not let in, and what it says of that."""
    return {item["rank"]: (item["refused"], item["reason"]) for item in member.parsed("nodes") if item["refused"]}


def test_who_keeps_it_elsewhere_is_not_let_in():
    """Without the server, or with another, a node would find nothing that the others put: both sides say why."""
    with World() as world:
        a, b, c = world.members
        at = c.flags.index("--directory")
        there = c.flags[at + 1]
        for elsewhere in ("nodes", "redis://127.0.0.1:1"):
            c.end()
            c.flags[at + 1] = elsewhere
            c.start()
            why = ("NIGH_NOT_FOUND", "it has another --directory, or one has it and the other not")
            wait_for(lambda: refusals(c) == {0: why, 1: why} and refusals(a) == {2: why} and refusals(b) == {2: why})
            assert "up" not in c.states()[:2]
            wait_for(lambda: c.states() == ["dead", "dead", "up"])  # away, and after --dead-ms of that dead
            assert why[1] in a.good("nodes").decode()
            for member in world.members:
                assert "the other node has another --directory" in member.said(), member.said()
        c.end()
        c.flags[at + 1] = there
        c.start()
        world.wait_met()
        assert refusals(a) == {}
        # Nor is one that would join them: it has --state, which does not go with a server.
        (port,) = free_ports(1)
        joins = c.flags[c.flags.index("--join") + 1].split(",", maxsplit=1)[0]
        joiner = subprocess.run([os.environ["NIGHD"], "--memory", "64M", "--socket", c.path + "-joins", "--join", joins,
                                 "--member", f"127.0.0.1:{port}", "--state", os.path.join(world.folder.name, "state"),
                                 "--cluster-key", c.flags[c.flags.index("--cluster-key") + 1]],
                                stderr=subprocess.PIPE, timeout=60)
        assert joiner.returncode != 0, joiner
        assert b"nobody joins nodes whose directory is kept by a server" in joiner.stderr, joiner


def test_a_key_of_another_type():
    with World() as world:
        a, b, _ = world.members
        put(a, "good", b"1")
        names = world.redis.say("--scan", "--pattern", "nigh:*:epoch").decode().split()
        assert len(names) == 1
        world.redis.say("SET", names[0].replace("epoch", "n"), "nonsense")
        assert a.run("put", "--no-claim", "bad", "-", data=b"2")[0] == OK
        wait_for(lambda: "WRONGTYPE" in a.said())
        world.redis.say("FLUSHALL")
        assert b.good("get", "bad", "--timeout", "20s") == b"2"


class Liar:
    """What listens where a server should be: it says the first words of one, but `says` where it hears the word `at`;
    without one as soon as somebody connects."""

    def __init__(self, folder, says, at):
        self.says, self.at = says, at
        self.path = os.path.join(folder, "liar")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()
        except OSError:
            pass  # it is closed

    def answer(self, words):
        if self.at is not None and self.at in words:
            return self.says
        found = [said for word, said in ((b"LOAD", b"$40\r\n" + b"a" * 40 + b"\r\n"), (b"\r\nSET\r\n", b"+OK\r\n"),
                                         (b"\r\nGET\r\n", b"$16\r\n" + b"b" * 16 + b"\r\n")) if word in words]
        return b"".join(found)

    def serve(self, peer):
        try:
            if self.at is None:
                peer.sendall(self.says)
            while words := peer.recv(1 << 20):
                peer.sendall(self.answer(words))
        except OSError:
            pass  # the node has had enough

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)


def test_whatever_the_server_says_the_node_stays():
    load, listen = b"LOAD", b"SUBSCRIBE"
    message, long = "publishes what is no message", "answers are too long"
    lies = [(b"+OK\r\n" * 1000, None, "answers what was not asked"),
            (b"-ERR no more\r\n", None, "it says: ERR no more"),
            (b"*2147483647\r\n", load, long),  # 16 GiB of pointers, and a long time to free them
            (b"$500000000\r\n" + bytes(2 << 20), load, long),
            (b"-NOPERM this user may not\r\n", listen, "it says: NOPERM this user may not"),
            (b"*1\r\n$1\r\nx\r\n", listen, message),
            (b"*2\r\n:1\r\n:2\r\n", listen, message),
            (b"*3\r\n:1\r\n:2\r\n:3\r\n", listen, message),
            (b"*3\r\n$-1\r\n$-1\r\n$-1\r\n", listen, message),
            (b"*3\r\n*-1\r\n*0\r\n*1\r\n", listen, message),
            (b"*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n", listen, message),
            (b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n$1\r\n1\r\n", listen, message),
            (b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n*17\r\n", listen, long)]
    with World() as world:
        a, url = world.members[0], world.members[0].flags.index("--directory") + 1
        there = a.flags[url]
        for says, at, why in lies:
            a.end()
            liar = Liar(world.folder.name, says, at)
            since, a.flags[url] = len(a.said()), "unix://" + liar.path
            a.start()
            wait_for(lambda: why in a.said()[since:])
            assert a.process.poll() is None, (says, a.said()[since:])
            a.good("put", "--no-claim", "here", "-", data=b"1")
            liar.close()
        a.end()
        a.flags[url] = there
        a.start()
        world.wait_met()
        put(a, "true", b"1")
        assert world.members[1].good("get", "true", "--timeout", "20s") == b"1"


if __name__ == "__main__":
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        print("# there is no redis-server here: tools/setup test")
        sys.exit(77)
    sys.exit(raw.run_tests(globals()))
