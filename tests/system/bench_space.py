#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh bench space, and the benchmark of spaces: they run, their rows are whole, what is found here is what is said to be, and
nothing is left. No time is looked at: that one is short is no promise of a test."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cli_test import FAILED, NOT_FOUND, OK, TIMEOUT, USAGE, fails, good, parsed, run  # noqa: E402
from cluster_cli import Cluster  # noqa: E402
from raw_session import wait_for  # noqa: E402
from regions_cli import Voter  # noqa: E402

PATIENCE_S = 240 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
HERE = ["read", "write", "write-fence", "add", "lock"]
SPACES = ("--space-memory", "64M")


def serving():
    node = raw.Node(*SPACES)
    assert node.ready
    return node


def measured(rows):
    assert all(row["count"] > 0 and 0 < row["median_us"] <= row["p99_us"] for row in rows), rows
    return [row["operation"] for row in rows]


def test_a_space_is_measured():
    node = serving()
    rows = parsed("bench", "space", node=node)
    assert measured(rows) == HERE, rows
    numbers = parsed("top", "--once", node=node)
    assert numbers["spaces"] == 0 and parsed("space", "ls", node=node) == [], numbers
    lines = good("bench", "space", "--node", "0", "--timeout", "1s", node=node).decode().splitlines()
    assert [line.split()[0] for line in lines] == ["OPERATION", *HERE], lines
    for arguments in (("--size", "8"), ("--serve",), ("--at-once", "2"), ("--offer",)):
        fails(USAGE, ["bench"], "bench", "space", *arguments, node=node)
    assert run("bench", "space", "--node", "nobody", node=node)[:2] == (NOT_FOUND, b"")
    fails(TIMEOUT, ["the deadline passed"], "bench", "space", "--timeout", "0", node=node)
    assert parsed("space", "ls", node=node) == []
    assert node.stop()[0] == 0


def test_a_node_that_serves_none_says_so():
    node = raw.Node()
    assert node.ready
    code, printed, said = run("bench", "space", node=node)
    assert code not in (OK, USAGE) and printed == b"" and "--space-memory" in said, (code, printed, said)
    code, printed, said = run("space", "create", "s", "1M", "--durability", "sync", node=node)
    assert code not in (OK, USAGE) and "--space-memory" in said and "--log-dir" not in said, (code, printed, said)
    assert node.stop()[0] == 0


def test_a_measurement_that_is_interrupted_leaves_no_space():
    node = serving()
    for _ in range(5):
        with subprocess.Popen([os.environ["NIGH"], "bench", "space", "--json", "--socket", node.path],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as bench:
            printed = bench.stdout.readline() + bench.stdout.readline()  # a row is there
            bench.send_signal(signal.SIGINT)
            printed += bench.stdout.read()
        rows = json.loads(printed)
        assert parsed("space", "ls", node=node) == []
        if bench.returncode != OK:  # else it was over before
            assert bench.returncode == rows[-1]["exit_code"] == FAILED and len(rows) <= len(HERE), rows
            break
    else:
        assert False, "it was not interrupted"
    assert node.stop()[0] == 0


def test_what_a_killed_measurement_left_is_deleted():
    """By the next run of the same user and machine, once its process is gone, and of no other."""
    node = serving()

    def left():
        return {item["name"] for item in parsed("space", "ls", node=node)}

    others = {"nigh-bench-", "nigh-bench-01234567-1-1", "nigh-bench-x"}
    for name in others:
        good("space", "create", name, "4K", node=node)
    with subprocess.Popen([os.environ["NIGH"], "bench", "space", "--json", "--socket", node.path],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as bench:
        bench.stdout.readline()
        bench.stdout.readline()  # a row is there
        bench.send_signal(signal.SIGSTOP)
        own = left() - others
        assert len(own) == 1 and f"-{bench.pid}-" in own.copy().pop(), own
        assert run("bench", "space", "--timeout", "10s", node=node)[0] == OK and left() == others | own, "it lives"
        bench.kill()  # also where it stands still
    wait_for(lambda: run("bench", "space", "--timeout", "10s", node=node)[0] == OK and left() == others)
    assert node.stop()[0] == 0


def test_a_space_of_another_node_is_measured():
    cluster = Cluster(*SPACES, member=Voter).wait_met()
    with cluster as (a, b):
        wait_for(lambda: a.numbers()["view_quorum"] == b.numbers()["view_quorum"] == 1)
        bench = b.begin("bench", "space", "--node", "0", "--json")
        printed = bench.stdout.readline() + bench.stdout.readline()  # a row is there
        bench.send_signal(signal.SIGSTOP)
        (name,) = (item["name"] for item in a.parsed("space", "ls"))
        used = [member.parsed("space", "stat", name)["used_size"] for member in (a, b)]
        bench.send_signal(signal.SIGCONT)
        printed += bench.stdout.read()
        assert bench.wait(timeout=60) == OK and measured(json.loads(printed)) == [*HERE, "read-first"], printed
        assert used[0] > 0 == used[1], used
        assert measured(b.parsed("bench", "space", "--node", "1")) == HERE
        wait_for(lambda: a.numbers()["spaces"] == b.numbers()["spaces"] == 0)


def test_rows_of_the_benchmark_are_whole():
    if "NIGH_SANITIZED" in os.environ:
        raise raw.Skipped("it spins for minutes there, and what it does others do, too")
    with tempfile.TemporaryDirectory(prefix="nigh-test-") as folder:
        path = os.path.join(folder, "rows.json")
        done = subprocess.run([os.environ["BENCH_SPACE"], os.environ["NIGHD"], "-", path, "1"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        # 1: a row has missed its target, which on this machine says nothing.
        assert done.returncode in (0, 1), done.stdout + done.stderr
        with open(path, encoding="utf-8") as file:
            rows = {row["name"]: row for row in json.load(file)}
    for name in ("read hit, 8 B, 1,000 blocks", "read hit, 8 B, 100,000 blocks"):
        assert rows[f"{name}: of 100 found here"]["median"] > 99, rows[name]
    for percent in (80, 95):
        found = rows[f"reads of which {percent} % hit: of 100 found here"]["median"]
        assert percent - 2 < found < percent + 2, (percent, found)
    for name in ("read miss, clean", "write miss, clean, and fence", "read miss, dirty at a third node, blocking",
                 "lock held here last, taken and given back", "lock held here last, that another node asks for",
                 "lock that another node held last, taken and given back, blocking", "read of 64 KiB of which nothing is here",
                 "applied writes, 8 B"):
        assert rows[name]["median"] > 0, rows[name]
    cells = [name for name in rows if name.startswith("GAM, ") and " nodes, " in name and name.endswith(" %")]
    assert len(cells) == 3 * 5 * 5 and all(rows[name]["median"] > 0 for name in cells), cells
    against = [row for name, row in rows.items() if name.startswith("GAM, space ")]
    assert len(against) == 6 and all(row["met"] for row in against), against


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
