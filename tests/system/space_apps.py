#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of examples/ whose data lie in a space, at three nodes: a hash table, and two transactions of TPC-C. Each looks itself
whether all is as it should be, also when one of its processes dies in the middle. No figure is looked at."""
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402

OK, FAILED, USAGE, SKIPPED = 0, 1, 2, 77
RUN_S = 120 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
BUILD, SOURCE = os.environ["NIGH_BUILD"], os.environ["NIGH_SOURCE"]
BARE = {name: value for name, value in os.environ.items() if name != "NIGH_SOCKETS"}
SMALL = "--items 200 --customers 15 --transactions 40 --workers 5"


def program(name):
    return os.path.join(BUILD, "examples", "example-" + name)


def run(command, **words):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, check=False, **words)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def at_three_nodes(name, *lines):
    """What a program says of itself, once for each line of flags, one behind the other on the same nodes."""
    runs = " && ".join(f"{program(name)} --json {flags}" for flags in lines)
    code, printed, said = run([os.path.join(SOURCE, "examples", "three-nodes"), BUILD, "bash", "-c", runs],
                              env={**os.environ, "NIGH_NODE_FLAGS": "--space-memory 64M", "NIGH_REGION_MEMORY": "16M"})
    assert code == OK, (code, printed, said)
    found = [json.loads(line) for line in printed.splitlines()]
    assert len(found) == len(lines) and all(one["nodes"] == 3 for one in found), found
    return found


def refuses(name, *lines):
    for words in lines:
        code, printed, said = run([program(name), *words, "/nowhere"], env=BARE)
        assert code == USAGE and not printed and said.strip(), (words, code, printed, said)
    code, printed, said = run([program(name)], env=BARE)
    assert code == USAGE and "NIGH_SOCKETS" in said, (code, printed, said)
    code, printed, said = run([program(name), "--help"], env=BARE)
    assert code == OK and "--workers" in printed and not said, (code, printed, said)
    code, printed, said = run([program(name), "/nowhere"], env=BARE)
    assert code == FAILED and "/nowhere" in said and not printed, (code, printed, said)


def test_all_that_is_put_is_found():
    """Buckets of one block, and of several; increments are exact, as the program looks."""
    wide, deep = at_three_nodes("space_table", "--keys 400 --workers 5", "--keys 400 --workers 4 --buckets 3 --counters 1")
    assert (wide["put_keys"], wide["incremented"], wide["grown"]) == (400, 400, 0), wide
    assert (deep["put_keys"], deep["incremented"]) == (400, 400) and deep["grown"] >= 6, deep


def test_a_worker_that_dies_costs_the_table_what_it_did_not_put():
    """It dies with a lock, which is let go, behind an increment, which is there."""
    found, = at_three_nodes("space_table", "--keys 600 --workers 3 --counters 2 --kill")
    assert (found["put_keys"], found["incremented"]) == (501, 501), found


def test_the_database_is_consistent():
    found, = at_three_nodes("space_tpcc", SMALL)
    work = found["space"]
    assert work["new_orders"] + work["payments"] + work["rolled_back"] == 5 * 40, found
    assert work["new_orders"] > 60 and work["payments"] > 60 and found["settled"] == 0, found


def test_a_transaction_is_whole_though_its_terminal_dies():
    """Wherever in it: of what it had marked others find out whether it was committed, and what it was to write."""
    deaths = ("locked", "marked", "committed", "applied", "any")
    found = at_three_nodes("space_tpcc", *(f"{SMALL} --kill {death}" for death in deaths))
    settled = {death: one["settled"] for death, one in zip(deaths, found)}
    assert settled["locked"] == 0 and min(settled["marked"], settled["committed"], settled["applied"]) >= 1, settled
    for one in found:
        assert 4 * 40 < sum(one["space"][what] for what in ("new_orders", "payments", "rolled_back")) <= 5 * 40, one


def test_nodes_without_spaces_say_so():
    both = f"! {program('space_table')} && ! {program('space_tpcc')}"
    code, printed, said = run([os.path.join(SOURCE, "examples", "three-nodes"), BUILD, "bash", "-c", both],
                              env={**os.environ, "NIGH_REGION_MEMORY": "16M"})
    assert code == OK and not printed and said.count("--space-memory") == 2, (code, printed, said)


def test_wrong_words_are_refused():
    refuses("space_table", ["--keys", "0"], ["--keys", "1e6"], ["--buckets", "0"], ["--workers", "61"], ["--workers", "-1"], ["--so"],
            ["--keys"], ["--keys", "2"], ["x"] * 16)
    refuses("space_tpcc", ["--warehouses", "0"], ["--items", "99"], ["--items", "100001"], ["--customers", "3001"],
            ["--workers", "61"], ["--lock-ms", "0"], ["--kill", "none"], ["--kill"], ["--so"], ["x"] * 16)


def test_the_lines_that_call_are_as_many_as_it_says():
    with open(os.path.join(SOURCE, "docs", "spaces.md"), encoding="utf-8") as page:
        said = page.read()
    for name in ("space_table", "space_tpcc"):
        here = os.path.join(SOURCE, "examples", name)
        lines = []
        for path in glob.glob(here + ".c") + glob.glob(here + "/*.c"):
            with open(path, encoding="utf-8") as source:
                lines += source.readlines()
        calls = [line for line in lines if re.search(r"\bnigh_(space|client)_\w+\(", line)]
        moves = [line for line in calls if re.search(r"\bnigh_space_(read|write|put|fetch_add|try_lock|lock|unlock|store_fence|flush)", line)]
        print(f"# {name}: {len(calls)} of {len(lines)} lines call nigh, {len(moves)} of these move bytes or words, order or lock")
        assert re.search(rf"\| \[{name}[^|]* \| {len(calls)} \| {len(moves)} \|", said), (name, len(calls), len(moves))


if __name__ == "__main__":
    if not os.path.exists(program("space_table")):
        print("skipped: examples are not built here", flush=True)
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
