#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh cluster: nodes that can be used at once when it says so, nothing left of them afterwards or of a start that failed, and a
sentence with what to do in all that goes wrong: a second start, a node that died, numbers of processes that are others' by now, a
full file system, a program that is not there."""
import concurrent.futures
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402

OK, FAILED, USAGE, NOT_FOUND, EXISTS, TIMEOUT = 0, 1, 2, 3, 9, 7
NIGH, NIGHD = os.environ["NIGH"], os.environ["NIGHD"]
TRIES = 5  # of what has to come in time


class Place:
    """A folder in which a cluster lies, and nigh for it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="nigh-")
        self.dir = os.path.join(self.folder, "c")

    def run(self, *words, env=None, **more):
        environment = {key: value for key, value in os.environ.items() if key not in ("NIGH_SOCKET", "XDG_RUNTIME_DIR")}
        environment.update(env or {})
        result = subprocess.run([NIGH, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=False, timeout=240, **more)
        return result.returncode, result.stdout, result.stderr

    def cluster(self, *words, **more):
        place = words.index("--") if "--" in words else len(words)
        return self.run("cluster", *words[:place], "--dir", self.dir, "--nighd", NIGHD, *words[place:], **more)

    def good(self, *words, **more):
        code, printed, said = self.cluster(*words, **more)
        assert code == OK and said == "", (words, code, said)
        return printed

    def fails(self, code, words, *arguments, **more):
        ended, _, said = self.cluster(*arguments, **more)
        assert ended == code and len(said.splitlines()) == 1, (arguments, ended, said)
        for word in words:
            assert word in said, (word, said)

    def states(self):
        return [node["state"] for node in json.loads(self.cluster("ls", "--json")[1])["nodes"]]

    def kill(self, rank):
        """kill -9, and it is gone."""
        os.kill(self.pid(rank), signal.SIGKILL)
        wait_for(lambda: self.states()[rank] == "died")

    def socket(self, rank):
        return os.path.join(self.dir, f"node{rank}.sock")

    def pid(self, rank):
        with open(os.path.join(self.dir, f"node{rank}.pid"), encoding="ascii") as file:
            return int(file.read())

    def processes(self):
        """Who has this folder in its command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.folder.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def words(self, rank):
        """What a node was told."""
        with open(f"/proc/{self.pid(rank)}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")

    def says_ready_early(self, rank):
        """A program that says of one node at once that it serves, and is nighd when a file is there; that file."""
        flag = os.path.join(self.folder, "go")
        return flag, self.nighd(f'if [[ "$*" == *"--member {rank} "* ]]; then echo >&3; while [ ! -e {flag} ]; do sleep 0.05; done; fi',
                                f'exec {NIGHD} "$@"')

    def never_is_ready(self, rank):
        """A program that of one node is there, and says nothing; of others it is nighd."""
        return self.nighd(f'if [[ "$*" == *"--member {rank} "* ]]; then while :; do sleep 0.05; done; fi', f'exec {NIGHD} "$@"')

    def nighd(self, *lines):
        """A program of the user's in nighd's place."""
        path = os.path.join(self.folder, "nighd")
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(["#!/bin/bash", *lines, ""]))
        os.chmod(path, 0o700)
        return path

    def is_clean(self):
        return not self.processes() and not os.path.exists(self.dir)

    def close(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def with_place(test):
    def wrapped():
        place = Place()
        try:
            test(place)
        finally:
            place.close()

    wrapped.__name__ = test.__name__
    return wrapped


@with_place
def test_words_for_a_shell_are_words_for_a_shell(place):
    """Whatever the folder is called; and where no shell could take its sockets apart, there is none."""
    for name in ("a b", "a\tb", "a\nb", "a'b", 'a"b', "a\\b", "a*", "a?", "[a]"):
        place.dir = os.path.join(place.folder, name)
        place.fails(USAGE, ["$NIGH_SOCKETS", "--dir"], "start", "1")
        assert not os.path.exists(place.dir)
    place.dir = os.path.join(place.folder, "$(date);#&<b>")
    printed = place.good("start", "1")
    told = printed.splitlines()[-1]
    assert told.startswith("# 1 node runs; nigh cluster ls --dir '") and told.endswith(" ends it"), told
    real = os.path.realpath(place.dir)
    place.fails(EXISTS, [f"1 node runs in {real} already: nigh cluster ls --dir '{real}' shows it"], "start", "1")
    script = f'{printed}\nprintf "%s\\n" $NIGH_SOCKETS; nigh() {{ "$NIGH" "$@"; }}\n' + told.split("; ", 1)[1].split(" shows it, ")[0]
    said = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.splitlines()[0] == place.socket(0) and " up " in said, said
    place.good("stop")


@with_place
def test_three_nodes_can_be_used_at_once(place):
    printed = place.good("start")
    shell = subprocess.run(["bash", "-c", f'eval "{printed.replace(chr(34), "")}"; printf "%s\\n" "$NIGH_SOCKET" $NIGH_SOCKETS'],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    sockets = [place.socket(rank) for rank in range(3)]
    assert shell == [sockets[0], *sockets], printed
    # Who asked them whether they agree has gone as clients go.
    for socket in sockets:
        assert json.loads(place.run("top", "--once", "--json", "--socket", socket)[1])["sessions_died"] == 0
    # All that needs the members' agreement, and without waiting for it.
    for rank, socket in enumerate(sockets):
        assert place.run("region", "create", f"r{rank}", "64K", "--spread", "--timeout", "1s", "--socket", socket)[0] == OK
        nodes = json.loads(place.run("nodes", "--json", "--socket", socket)[1])
        assert [(node["state"], node["view"]) for node in nodes] == [("up", "in")] * 3, nodes
    assert place.run("space", "create", "s", "1M", "--durability", "sync", "--socket", sockets[1])[0] == OK
    assert place.run("put", "x", __file__, "--socket", sockets[0])[0] == OK
    with open(__file__, encoding="utf-8") as file:
        assert place.run("get", "x", "--socket", sockets[2])[1] == file.read()
    shown = json.loads(place.good("ls", "--json"))
    assert shown["dir"] == os.path.realpath(place.dir)
    assert [(node["rank"], node["state"], node["pid"], node["socket"]) for node in shown["nodes"]] == [
        (rank, "up", place.pid(rank), sockets[rank]) for rank in range(3)]
    lines = place.good("ls").splitlines()
    assert len(lines) == 4 and "127.0.0.1:" in lines[1] and sockets[2] in lines[3], lines
    assert os.stat(place.dir).st_mode & 0o077 == 0
    real = os.path.realpath(place.dir)
    place.fails(EXISTS, [f"3 nodes run in {real} already: nigh cluster ls --dir {real} shows them, nigh cluster stop --dir {real} ends "
                         "them, and --dir names"], "start")
    assert place.good("stop") == "" and place.is_clean()
    place.fails(NOT_FOUND, ["no cluster is in", "nigh cluster start"], "stop")
    place.fails(NOT_FOUND, ["no cluster is in"], "ls")


@with_place
def test_how_many_and_what_they_are_told(place):
    started = json.loads(place.good("start", "1", "--json", "--", "--memory", "32M", "--lanes=2"))
    assert [node["state"] for node in started["nodes"]] == ["up"]
    socket = place.socket(0)
    numbers = json.loads(place.run("top", "--once", "--json", "--socket", socket)[1])
    assert (numbers["memory_bytes"], numbers["lanes"]) == (32 << 20, 2), numbers
    assert place.run("region", "create", "r", "64K", "--timeout", "1s", "--socket", socket)[0] == OK
    assert place.good("stop") == "" and place.is_clean()
    place.good("start", "2", "--", "--name", "n%r", "--spill", place.folder + "/spill-%r-%%r")
    assert [node["name"] for node in json.loads(place.run("nodes", "--json", "--socket", place.socket(0))[1])] == ["n0", "n1"]
    assert sorted(name for name in os.listdir(place.folder) if name != "c") == ["spill-0-%r", "spill-1-%r"]
    # An object may have all of a node's memory, however many processors there are.
    words = place.words(1)
    assert words[words.index("--lanes") + 1] == "1", words
    place.good("stop")
    for words in (("start", "0"), ("start", "9"), ("start", "two"), ("start", "1", "2"), ("stop", "1"), ("begin",), (),
                  ("stop", "--", "--lanes", "1")):
        code, _, said = place.cluster(*words)
        assert code == USAGE and len(said.splitlines()) == 1, (words, code, said)
    for option in ("--state", "--socket=/x", "--hold", "--join", "--check", "--hol", "--sta=/x", "--conf"):
        place.fails(USAGE, [option, "by hand"], "start", "--", option)
    assert place.is_clean()


@with_place
def test_a_start_that_fails_leaves_nothing(place):
    place.fails(FAILED, ["node 0 of 3 did not start", "nighd: ", "--nonsense"], "start", "--", "--nonsense", "1")
    assert place.is_clean()
    # One of them alone: 2T is for nobody, and 64M for the others.
    place.fails(FAILED, ["did not start", "memory"], "start", "2", "--", "--memory", "2%rT")
    assert place.is_clean()
    place.fails(TIMEOUT, ["in time", "--timeout"], "start", "--timeout", "1us")
    assert place.is_clean()
    # In a folder that was there, which stays, and what is not the cluster's.
    os.mkdir(place.dir, 0o700)
    place.fails(FAILED, ["--nonsense"], "start", "--", "--nonsense", "1")
    assert os.listdir(place.dir) == []
    place.good("start", "1")
    place.good("stop")
    assert os.listdir(place.dir) == []
    with open(os.path.join(place.dir, "mine"), "w", encoding="ascii") as file:
        file.write("mine")
    place.fails(FAILED, ["something else", "--dir"], "start")
    assert os.listdir(place.dir) == ["mine"]
    os.unlink(os.path.join(place.dir, "mine"))
    os.chmod(place.dir, 0o777)
    place.fails(FAILED, ["other users", "chmod"], "start")


def begin_a_start(place):
    """One that waits for its second node, for ever."""
    start = subprocess.Popen([NIGH, "cluster", "start", "2", "--dir", place.dir, "--nighd", place.never_is_ready(1)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(os.path.join(place.dir, "node1.pid")) and os.path.getsize(
        os.path.join(place.dir, "node1.pid")) > 0)
    return start


@with_place
def test_who_interrupts_a_start_has_it_undone(place):
    for number in (signal.SIGINT, signal.SIGTERM):
        start = begin_a_start(place)
        start.send_signal(number)
        first = start.stderr.readline()
        if number != signal.SIGINT:
            start.send_signal(number)  # as timeout(1) does
        _, said = start.communicate(timeout=120)
        assert start.returncode == FAILED and first == "nigh cluster: interrupted: undoing the start\n", (start.returncode, first)
        assert said == "nigh cluster: interrupted: the start is undone\n", said
        assert place.is_clean()


@with_place
def test_who_interrupts_that_is_not_told_that_it_is_undone(place):
    for _ in range(TRIES):
        start = begin_a_start(place)
        pid = place.pid(1)
        os.kill(pid, signal.SIGSTOP)  # it takes its time to end, which is told first
        start.send_signal(signal.SIGINT)
        first = start.stderr.readline()
        start.send_signal(signal.SIGINT)
        _, said = start.communicate(timeout=120)
        assert "undoing" in first, first
        if start.returncode == -signal.SIGINT:
            break
        assert start.returncode == FAILED and place.is_clean(), (start.returncode, said)  # it came too late
    assert start.returncode == -signal.SIGINT and said == "", (start.returncode, first, said)
    os.kill(pid, signal.SIGCONT)
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_start_whose_words_cannot_be_written_is_undone(place):
    with open("/dev/full", "wb") as full:
        for more in ((), ("--json",)):
            start = subprocess.run([NIGH, "cluster", "start", "1", "--dir", place.dir, "--nighd", NIGHD, *more], stdout=full,
                                   stderr=subprocess.PIPE, text=True, check=False, timeout=240)
            assert start.returncode == FAILED and "undone" in start.stderr and len(start.stderr.splitlines()) == 1, start
            assert place.is_clean()
    # | true
    read, write = os.pipe()
    os.close(read)
    start = subprocess.run([NIGH, "cluster", "start", "1", "--dir", place.dir, "--nighd", NIGHD], stdout=write,
                           stderr=subprocess.PIPE, text=True, check=False, timeout=240)
    os.close(write)
    assert start.returncode == FAILED and "undone" in start.stderr, start
    assert place.is_clean()


@with_place
def test_a_node_that_stops_while_it_is_asked(place):
    """The start ends in its time, and when it is interrupted; twice, at once."""
    flag, wrapper = place.says_ready_early(1)

    def begin(*more):
        start = subprocess.Popen([NIGH, "cluster", "start", "2", "--dir", place.dir, "--nighd", wrapper, *more],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # It asks node 0, which waits for node 1, and has a session there.
        wait_for(lambda: os.path.exists(place.socket(0)))
        wait_for(lambda: json.loads(place.run("top", "--once", "--json", "--socket", place.socket(0))[1] or "{}").get(
            "sessions", 0) >= 2)
        os.kill(place.pid(0), signal.SIGSTOP)
        return start

    start = begin("--timeout", "8s")
    _, said = start.communicate(timeout=60)
    assert start.returncode in (FAILED, TIMEOUT) and "have not agreed in time" in said, (start.returncode, said)
    assert place.is_clean()
    start = begin()
    start.send_signal(signal.SIGINT)
    _, said = start.communicate(timeout=60)
    assert start.returncode == FAILED and "interrupted" in said, (start.returncode, said)
    assert place.is_clean()
    start = begin()
    start.send_signal(signal.SIGINT)
    assert "interrupted" in start.stderr.readline()
    start.send_signal(signal.SIGINT)
    start.communicate(timeout=60)
    assert start.returncode == -signal.SIGINT, start.returncode
    assert not os.path.exists(flag)
    assert place.cluster("stop", "--timeout", "1s")[0] == OK and place.is_clean()


@with_place
def test_one_that_joins_while_nodes_are_started(place):
    """Nodes agree with it among them, though it is one more than a cluster here has at most."""
    flag, wrapper = place.says_ready_early(7)
    small = ["--memory", "32M", "--region-memory", "16M", "--space-memory", "16M"]
    start = subprocess.Popen([NIGH, "cluster", "start", "8", "--dir", place.dir, "--nighd", wrapper, "--timeout", "3m", "--", *small],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(place.socket(0)), 120)
    with open(os.path.join(place.dir, "nodes"), encoding="ascii") as file:
        first = file.readline().strip()
    (port,) = raw.free_ports(1)
    own = os.path.join(place.folder, "ninth")
    ninth = subprocess.Popen([NIGHD, "--socket", own, "--lanes", "1", "--join", first, "--member", f"127.0.0.1:{port}",
                              "--cluster-key", os.path.join(place.dir, "key"), "--state", own + ".state", *small], stderr=subprocess.DEVNULL)
    raw.Node.running.append(ninth)

    def has_joined():
        code, printed, _ = place.run("nodes", "--json", "--socket", place.socket(0))
        return code == OK and any(node["address"] == f"127.0.0.1:{port}" and node["view"] == "in" for node in json.loads(printed))

    wait_for(has_joined, 120)
    with open(flag, "w", encoding="ascii"):
        pass
    _, said = start.communicate(timeout=240)
    assert start.returncode == OK and said == "", (start.returncode, said)
    ninth.terminate()
    ninth.wait(timeout=60)
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_start_that_is_killed_is_stopped(place):
    start = subprocess.Popen([NIGH, "cluster", "start", "2", "--dir", place.dir, "--nighd", NIGHD], stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(os.path.join(place.dir, "node1.pid")))
    start.kill()
    start.wait()
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_node_that_died(place):
    place.good("start")
    place.kill(1)
    code, printed, _ = place.cluster("ls")
    assert code == FAILED and "died" in printed.splitlines()[2], printed
    place.fails(EXISTS, ["node 1 died", "nigh cluster stop"], "start")
    # One that is just ending is none that this program cannot see.
    os.kill(place.pid(0), signal.SIGKILL)
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_node_that_stands_still_is_killed(place):
    place.good("start", "2")
    os.kill(place.pid(1), signal.SIGSTOP)
    code, printed, _ = place.cluster("ls")
    assert code == FAILED and "does not answer" in printed, printed
    # It takes no time of the other's.
    place_said = place.cluster("stop", "--timeout", "2s")
    assert place_said[0] == OK and "1 node did not end in time, and was killed" in place_said[2], place_said
    assert place.is_clean()


@with_place
def test_numbers_of_processes_that_are_others_by_now(place):
    """All nodes are gone, and their numbers are a stranger's: it lives on."""
    place.good("start", "2")
    for rank in range(2):
        place.kill(rank)
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    for rank in range(2):
        with open(os.path.join(place.dir, f"node{rank}.pid"), "w", encoding="ascii") as file:
            file.write(f"{stranger.pid}\n")
    assert place.cluster("ls")[0] == FAILED
    code, _, said = place.cluster("start", "1")
    assert code == OK and "an earlier cluster left" in said and len(said.splitlines()) == 1, said
    place.kill(0)
    with open(os.path.join(place.dir, "node0.pid"), "w", encoding="ascii") as file:
        file.write(f"{stranger.pid}\n")
    place.good("stop")
    assert place.is_clean() and stranger.poll() is None
    # The file is locked, by somebody who is not the process that it names: nobody is signalled.
    place.good("start", "1")
    pid = place.pid(0)
    with open(os.path.join(place.dir, "node0.pid"), "r+", encoding="ascii") as file:
        file.truncate()
        file.write(f"{stranger.pid}\n")
    place.fails(5, ["not where this program can see it"], "stop")
    assert stranger.poll() is None
    os.kill(pid, signal.SIGKILL)
    stranger.stdin.close()
    assert stranger.wait() == 0
    wait_for(lambda: place.states() == ["died"])
    place.good("stop")


@with_place
def test_a_node_whose_file_cannot_be_opened_lives(place):
    """What is not known of it is no reason to remove what it has."""
    place.good("start", "1")
    pid, path = place.pid(0), os.path.join(place.dir, "node0.pid")
    os.rename(path, os.path.join(place.folder, "kept"))
    os.symlink(os.path.join(place.folder, "kept"), path)
    place.fails(5, ["not where this program can see it"], "stop")
    place.fails(EXISTS, ["1 node runs in"], "start")
    assert os.path.exists(place.socket(0)) and os.path.exists(f"/proc/{pid}")
    os.rename(os.path.join(place.folder, "kept"), path)
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_node_whose_file_was_removed_lives(place):
    """It has its socket; nothing is removed while it runs, and no other is started in its place."""
    place.good("start", "2")
    pid = place.pid(1)
    os.unlink(os.path.join(place.dir, "node1.pid"))
    place.fails(FAILED, ["node 1 lives", "node1.pid", f"pgrep -f {os.path.realpath(place.socket(1))}", "are left"], "stop")
    place.fails(EXISTS, ["2 nodes run in"], "start")
    wait_for(lambda: place.states() == ["up", "up"])
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: place.states()[1] == "not started")
    place.good("stop")
    assert place.is_clean()


@with_place
def test_what_cannot_be_removed_is_left_with_the_mark(place):
    """Here: what lies deeper than nodes put anything. Another stop goes on."""
    place.good("start", "1")
    deep = os.path.join(place.dir, "state0", *"abcdefghijkl")
    os.makedirs(deep)
    place.fails(FAILED, ["state0 is left", "nigh cluster stop"], "stop")
    assert sorted(os.listdir(place.dir)) == ["cluster", "cluster.made", "state0"]
    code, _, said = place.cluster("start", "1")
    assert code == FAILED and "state0 is left" in said, (code, said)
    shutil.rmtree(os.path.join(place.dir, "state0"))
    place.good("stop")
    assert place.is_clean()
    # What is not the cluster's is not removed, and said.
    place.good("start", "1")
    with open(os.path.join(place.dir, "mine"), "w", encoding="ascii"):
        pass
    place.fails(FAILED, ["is left", "remove what else lies there"], "stop")
    assert os.listdir(place.dir) == ["mine"]


@with_place
def test_a_program_that_runs_nighd_as_another_process(place):
    """The first one that is told to end leaves the other, which has the file, too."""
    wrapper = place.nighd(f'{NIGHD} "$@"', "exit $?")
    assert place.run("cluster", "start", "2", "--dir", place.dir, "--nighd", wrapper)[0] == OK
    assert len(place.processes()) == 4
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_program_that_runs_nighd_and_is_killed(place):
    """nighd lives on, is shown, and is ended; a number that the other had says nothing."""
    wrapper = place.nighd(f'{NIGHD} "$@"', "exit $?")
    assert place.run("cluster", "start", "1", "--dir", place.dir, "--nighd", wrapper)[0] == OK
    first = place.pid(0)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: len(place.processes()) == 1)
    shown = json.loads(place.good("ls", "--json"))["nodes"][0]
    assert shown["state"] == "up" and [shown["pid"]] == place.processes() != [first], (shown, first)
    place.fails(EXISTS, ["1 node runs in"], "start")
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_node_that_does_not_do_as_it_should_is_ended(place):
    """It lets its file go, does not serve, and does not end when it is told to."""
    deaf = place.nighd('trap "" TERM', "exec 4>&-", "while :; do sleep 0.1; done")
    code, _, said = place.run("cluster", "start", "1", "--timeout", "300ms", "--dir", place.dir, "--nighd", deaf)
    assert code == FAILED and "in time" in said, (code, said)
    assert place.is_clean()


@with_place
def test_folders_that_are_no_clusters_are_left_as_they_are(place):
    """Files may be called as a cluster's are: only the mark tells."""
    mine = ["cluster.made", "key", "logs/thesis", "node0.log", "nodes", "state0/thesis"]
    for name in mine:
        path = os.path.join(place.dir, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write("" if name == "nodes" else "mine")

    def is_left():
        found = [os.path.relpath(os.path.join(folder, name), place.dir) for folder, _, names in os.walk(place.dir) for name in names]
        return sorted(found) == mine

    for text in ("", "127.0.0.1:7470\n", "127.0.0.1:7470", "some words\n"):
        with open(os.path.join(place.dir, "nodes"), "w", encoding="ascii") as file:
            file.write(text)
        place.fails(NOT_FOUND, ["no cluster is in"], "stop")
        place.fails(NOT_FOUND, ["no cluster is in"], "ls")
        place.fails(FAILED, ["something else"], "start")
        assert is_left(), text
    # One whose name another has made a link, as in /tmp.
    theirs, place.dir = place.dir, os.path.join(place.folder, "link")
    os.symlink(theirs, place.dir)
    for words in (("start",), ("stop",), ("ls",)):
        place.fails(FAILED, ["is a link", "--dir"], *words)
    place.dir = theirs
    assert is_left()


@with_place
def test_folders_in_which_others_could_put_another(place):
    above = os.path.dirname(place.dir)
    os.chmod(above, 0o777)
    place.fails(FAILED, ["another user's, or everybody's", "--dir"], "start")
    os.chmod(above, 0o1777)
    place.good("start", "1")
    place.good("stop")
    if os.geteuid() == 0:
        os.chmod(above, 0o755)
        os.chown(above, 54321, 54321)
        place.fails(FAILED, ["another user's, or everybody's", "--dir"], "start")
        # A group's, but root's.
        os.chown(above, 0, 54321)
        os.chmod(above, 0o770)
        place.fails(FAILED, ["or a group's", "--dir"], "start")
        os.chown(above, 0, 0)
        place.good("start", "1")
        place.good("stop")
    os.chmod(above, 0o700)
    assert place.is_clean()
    # ... or of one further up, where they could put another in the place of the one below.
    place.dir = os.path.join(above, "a", "b", "c")
    os.makedirs(os.path.dirname(place.dir), mode=0o700)
    os.chmod(os.path.join(above, "a"), 0o777)
    place.fails(FAILED, [os.path.join(above, "a") + ",", "another user's, or everybody's", "--dir"], "start")
    os.chmod(os.path.join(above, "a"), 0o1777)
    place.good("start", "1")
    place.good("stop")
    assert place.is_clean()


@with_place
def test_another_users_folder_is_not_waited_for(place):
    """Who has it may have it locked for ever."""
    if os.geteuid() != 0:
        raise raw.Skipped("only root can give a folder away")
    os.mkdir(place.dir, 0o755)
    os.chown(place.dir, 54321, 54321)
    folder = os.open(place.dir, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    for words in (("start",), ("stop",), ("ls",)):
        place.fails(FAILED, ["is another user's", "--dir"], *words)
    os.close(folder)
    os.rmdir(place.dir)


@with_place
def test_who_looks_is_waited_for_and_in_nobodys_way(place):
    place.good("start", "1")
    folder = os.open(place.dir, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_SH)
    assert place.cluster("ls")[0] == OK
    place.kill(0)
    with open(os.path.join(place.dir, "node0.pid"), encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as another ls has it, for a moment
        assert json.loads(place.cluster("ls", "--json")[1])["nodes"][0]["state"] == "died"
    stop = subprocess.Popen([NIGH, "cluster", "stop", "--dir", place.dir], stderr=subprocess.PIPE, text=True)
    try:
        stop.wait(timeout=0.5)
        raise AssertionError(stop.stderr.read())
    except subprocess.TimeoutExpired:
        pass
    os.close(folder)
    _, said = stop.communicate(timeout=60)
    assert stop.returncode == OK and said == "" and place.is_clean(), said


@with_place
def test_what_is_told_by_the_way_is_not_why_it_fails(place):
    place.good("start", "1")
    place.kill(0)
    code, printed, said = place.cluster("start", "1", "--json", "--", "--nonsense", "1")
    assert code == FAILED and len(said.splitlines()) == 2 and "an earlier cluster left" in said, said
    assert "did not start" in json.loads(printed)["error"], printed
    assert place.is_clean()


@with_place
def test_programs_that_are_not_there(place):
    code, _, said = place.run("cluster", "start", "--dir", place.dir, "--nighd", "/no/such/nighd")
    assert code == FAILED and "--nighd /no/such/nighd" in said, said
    # nigh alone, with no nighd beside it and none in the path.
    alone = os.path.join(place.folder, "bin", "nigh")
    os.mkdir(os.path.dirname(alone))
    shutil.copy(NIGH, alone)
    libraries = os.path.join(os.environ["NIGH_BUILD"], "src", "client")
    result = subprocess.run([alone, "cluster", "start", "--dir", place.dir], env={"PATH": "/bin:/usr/bin", "LD_LIBRARY_PATH": libraries},
                            stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == FAILED and "no nighd beside" in result.stderr and "--nighd" in result.stderr, result.stderr
    # A node whose program cannot be run after all.
    broken = os.path.join(place.folder, "nighd")
    with open(broken, "w", encoding="ascii") as file:
        file.write("#!/no/such/interpreter\n")
    os.chmod(broken, 0o700)
    code, _, said = place.run("cluster", "start", "--dir", place.dir, "--nighd", broken)
    assert code == FAILED and "cannot be run" in said, said
    assert place.is_clean()


@with_place
def test_where_it_is(place):
    os.mkdir(place.dir)
    environment = {"XDG_RUNTIME_DIR": place.dir}
    os.chmod(place.dir, 0o755)  # not as it is to be: perhaps another's
    code, _, said = place.run("cluster", "ls", env=environment)
    assert place.dir not in said, said
    os.chmod(place.dir, 0o700)
    code, _, said = place.run("cluster", "ls", env=environment)
    assert code == NOT_FOUND and place.dir + "/nigh-cluster" in said, said
    code, _, said = place.run("cluster", "ls")
    assert code == NOT_FOUND and f"/tmp/nigh-cluster-{os.geteuid()}" in said or code == OK, said
    code, _, said = place.run("cluster", "start", "--dir", os.path.join(place.dir, "no", "such"))
    assert code == FAILED and "--dir" in said, said
    code, _, said = place.run("cluster", "start", "--dir", os.path.join(place.dir, "x" * 100))
    assert code == USAGE and "too long" in said, said
    os.rmdir(place.dir)


@with_place
def test_two_at_once(place):
    """Who comes second is told so, and does no harm."""
    starts = [subprocess.Popen([NIGH, "cluster", "start", "2", "--dir", place.dir, "--nighd", NIGHD], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(start.communicate(timeout=240), start.returncode) for start in starts]
    assert sorted(code for _, code in ends)[0] == OK, ends
    for (_, said), code in ends:
        assert code == OK or (code in (FAILED, EXISTS) and ("is in use" in said or "2 nodes run" in said)), ends
    assert place.cluster("ls")[0] == OK
    place.good("stop")
    assert place.is_clean()


@with_place
def test_a_full_file_system(place):
    os.mkdir(place.dir)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", place.dir], stderr=subprocess.PIPE, check=False)
    if mounted.returncode != 0:
        raise raw.Skipped("mounting needs root")
    try:
        with open(os.path.join(place.dir, "filler"), "wb") as file:
            try:
                file.write(bytes(1 << 20))
                file.flush()
            except OSError:
                pass
        inside = os.path.join(place.dir, "c")
        place.dir, mount = inside, place.dir
        for left in (0, 4096):
            os.truncate(os.path.join(mount, "filler"), (64 << 10) - left)
            code, _, said = place.cluster("start", "2")
            assert code == FAILED and "full" in said and "--dir" in said, (left, code, said)
            assert place.is_clean()
    finally:
        subprocess.run(["umount", mount], check=True)


def run_one(name):
    """A test in a process of its own: what it printed, and whether it is good."""
    result = subprocess.run([sys.executable, __file__], env={**os.environ, "NIGH_TEST": name[5:].replace("_", " ")},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(result.stdout, end="", flush=True)
    return result.returncode == 0


if __name__ == "__main__":
    if "NIGH_TEST" in os.environ:
        sys.exit(raw.run_tests(globals()))
    # Nearly all that they do is to wait until nodes agree: some at a time.
    with concurrent.futures.ThreadPoolExecutor(3) as some:
        sys.exit(0 if all(list(some.map(run_one, [name for name in globals() if name.startswith("test_")]))) else 1)
