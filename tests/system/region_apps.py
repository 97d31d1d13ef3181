#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of examples/ whose data lie in regions, at three nodes: each computes the same as one process alone, which it looks at
itself. No figure is looked at. Where there are RDMA hosts (tools/rdma-guest) each node is at one."""
import array
import collections
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402

OK, FAILED, USAGE, SKIPPED = 0, 1, 2, 77
PATIENCE = int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
RUN_S, PROGRAM_WAITS_S = 120 * PATIENCE, 60
BUILD, SOURCE = os.environ["NIGH_BUILD"], os.environ["NIGH_SOURCE"]
HOSTS = os.environ.get("RDMA_GUEST_HOSTS")
PLACE = {"NIGH_HOSTS": HOSTS, "NIGH_NODE_FLAGS": "--fabric verbs"} if HOSTS else {}
# Of a graph whose vertices have as many edges as those of real ones; in an emulated machine, a smaller one.
GRAPH_VERTICES, GRAPH_EDGES = (20000, 300000) if HOSTS else (200000, 3000000)
GRAPH_PART, GRAPH_PARTS = 6, 3  # of the bits of a vertex, one draw has so many
BARE = {name: value for name, value in os.environ.items() if name != "NIGH_SOCKETS"}


def program(name):
    return os.path.join(BUILD, "examples", "example-" + name)


def run(command, **words):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, check=False, **words)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def run_at_three_nodes(name, *flags):
    return run([os.path.join(SOURCE, "examples", "three-nodes"), BUILD, program(name), "--json", *flags],
               env={**os.environ, **PLACE, "NIGH_REGION_MEMORY": "128M"})


def at_three_nodes(name, *flags):
    """What a program says of itself."""
    code, printed, said = run_at_three_nodes(name, *flags)
    assert code == OK, (code, printed, said)
    return json.loads(printed)


def ends_with_a_worker(name, *flags):
    """The barrier tells the others: nobody waits for as long as they would for one that is only slow."""
    begin = time.monotonic()
    code, printed, said = run_at_three_nodes(name, "--kill", *flags)
    assert code == FAILED and not printed and "wait for the others: one of them died" in said, (code, printed, said)
    assert time.monotonic() - begin < PROGRAM_WAITS_S * PATIENCE, said


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


def test_ranks_are_those_of_one_process():
    found = at_three_nodes("region_rank", "--vertices", "30011", "--edges", "200000", "--workers", "4", "--iterations", "7")
    assert found["nodes"] == 3 and found["edges"] == 200000 and found["difference"] <= 1e-9, found
    assert found["digest"] == found["alone_digest"], found


def test_ranks_of_a_file():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("# from to " + "7 8 " * 99 + "\n0 1\n1 2\r\n\r\n2 0\n 3 2 \n")
        file.flush()
        found = at_three_nodes("region_rank", "--graph", file.name, "--workers", "5")
    assert (found["vertices"], found["edges"]) == (4, 4), found
    for line in ("zero one", "0", "0 1 and more", f"0 {2**31}"):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"0 1\n{line}\n")
            file.flush()
            code, _, said = run([program("region_rank"), "--graph", file.name, "/nowhere"])
        assert code == FAILED and "a line is not of two vertices" in said, (line, code, said)
    code, _, said = run([program("region_rank"), "--graph", "/", "/nowhere"])
    assert code == FAILED and "directory" in said, (code, said)


def draws(shift):
    """What R-MAT (Chakrabarti, Zhan, Faloutsos, 2004) draws of a few bits of the two vertices of an edge, 32 bits apart, by a number
    of 16 bits; so often that rounding takes from the most frequent."""
    drawn = [(0, 1.0)]
    for _ in range(GRAPH_PART):
        drawn = [(2 * bits + more, share * part) for bits, share in drawn
                 for more, part in ((0, 0.57), (1, 0.19), (1 << 32, 0.19), (1 << 32 | 1, 0.05))]
    table = [bits << shift for bits, share in drawn for _ in range(max(1, round(share * 65536)))]
    assert len(table) >= 65536 and table[len(table) - 65536] == 0
    return table[-65536:]


def write_graph(file):
    """A few vertices have most of the edges. The largest vertex, and the edges to the one that has most."""
    parts = [map(draws(n * GRAPH_PART).__getitem__, array.array("H", random.Random(n).randbytes(2 * GRAPH_EDGES)))
             for n in range(GRAPH_PARTS)]
    most, to = 0, collections.Counter()
    edges = map(sum, zip(*parts))
    while some := [((edge >> 32) % GRAPH_VERTICES, (edge & 0xFFFFFFFF) % GRAPH_VERTICES) for edge in itertools.islice(edges, 100000)]:
        file.write("".join(["%d %d\n" % edge for edge in some]))
        most = max(most, *map(max, some))
        to.update([other for _, other in some])
    file.flush()
    return most, max(to.values())


def test_ranks_of_a_large_file():
    with tempfile.NamedTemporaryFile("w") as file:
        begun = time.monotonic()
        most, edges = write_graph(file)
        made = time.monotonic()
        found = at_three_nodes("region_rank", "--graph", file.name)
    print(f"# {edges} edges to one; made in {made - begun:.1f} s, ranked in {time.monotonic() - made:.1f} s:", found, flush=True)
    assert (found["vertices"], found["edges"]) == (most + 1, GRAPH_EDGES) and most > GRAPH_VERTICES * 0.9, found
    assert edges > 100 * GRAPH_EDGES / GRAPH_VERTICES, "no vertex of a real graph's kind"
    assert found["nodes"] == 3 and found["difference"] <= 1e-9 and found["digest"] == found["alone_digest"], found


def test_ranks_refuse_wrong_words():
    refuses("region_rank", ["--vertices", "0"], ["--vertices", "2147483649"], ["--edges", "1e6"], ["--iterations", "1001"],
            ["--workers", "65"], ["--workers", "-1"], ["--so"], ["--graph"], ["--graph", "x", "--vertices", "5"], ["--edges", "5", "--graph", "x"], ["x"] * 16)


def test_words_are_counted_as_by_one_process():
    found = at_three_nodes("region_words", "--bytes", "3000001", "--workers", "4")
    assert found["nodes"] == 3 and found["words"] > 400000 and found["different"] > 10000, found
    assert found["digest"] == found["alone_digest"], found


def test_words_of_a_file():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(" a  long" + "er" * 300 + "\tword\nand a " + "n" * 64 + " " + "n" * 65 + "\n\n a")
        file.flush()
        found = [at_three_nodes("region_words", "--text", file.name, "--workers", str(workers)) for workers in (1, 7, 16 if HOSTS else 64)]
    for one in found:
        assert (one["words"], one["different"]) == (8, 5), found
    code, _, said = run([program("region_words"), "--text", os.devnull, "/nowhere"])
    assert code == FAILED and "is empty" in said, (code, said)


def test_words_refuse_wrong_words():
    refuses("region_words", ["--bytes", "0"], ["--bytes", "1K"], ["--workers", "65"], ["--workers"], ["--so"], ["--text", "x", "--bytes", "5"], ["x"] * 16)


def test_a_worker_that_dies_is_waited_for_by_nobody():
    for workers in ("2", "5"):
        ends_with_a_worker("region_words", "--bytes", "100000", "--workers", workers)
        ends_with_a_worker("region_rank", "--vertices", "1000", "--edges", "5000", "--workers", workers)


def test_the_lines_that_call_are_as_many_as_it_says():
    with open(os.path.join(SOURCE, "docs", "lite.md"), encoding="utf-8") as page:
        said = page.read()
    for name in ("region_log", "region_words", "region_rank"):
        with open(os.path.join(SOURCE, "examples", name + ".c"), encoding="utf-8") as source:
            lines = source.readlines()
        calls = [line for line in lines if re.search(r"\bnigh_(region|client|bulk)_\w+\(", line)]
        moves = [line for line in calls if re.search(r"\bnigh_region_(read|write|fetch|compare|barrier|lock|unlock|copy|memset)", line)]
        assert re.search(rf"\| {name}\.c, [\w-]+ \| {len(calls)} \| {len(moves)} \|", said), (name, len(calls), len(moves))


if __name__ == "__main__":
    if not os.path.exists(program("region_rank")):
        print("skipped: examples are not built here", flush=True)
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
