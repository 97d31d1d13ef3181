#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The log of examples/region_log.c at three nodes: what writers were told is committed is read once, in order and whole, also
while it is written, beside a writer that dies with a slot and one that stands still with one. No figure is looked at. Where there
are RDMA hosts (tools/rdma-guest) each node is at one: then the tail's own node adds to it by its device, as the others do."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402

OK, FAILED, USAGE, SKIPPED = 0, 1, 2, 77
NODES, RECORDS = 3, 900
RUN_S = 120 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
BUILD, SOURCE = os.environ["NIGH_BUILD"], os.environ["NIGH_SOURCE"]
HOSTS = os.environ.get("RDMA_GUEST_HOSTS")
PLACE = {"NIGH_HOSTS": HOSTS, "NIGH_NODE_FLAGS": "--fabric verbs"} if HOSTS else {}
PROGRAM = os.path.join(BUILD, "examples", "example-region_log")


def run(command, **words):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, check=False, **words)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def log(*flags):
    """What a log of three nodes says of itself."""
    code, printed, said = run([os.path.join(SOURCE, "examples", "three-nodes"), BUILD, PROGRAM, "--json", "--records", str(RECORDS),
                               *flags], env={**os.environ, **PLACE, "NIGH_REGION_MEMORY": "64M"})
    assert code == OK, (code, printed, said)
    found = json.loads(printed)
    assert found["nodes"] == NODES and found["append"]["records"] == found["committed"], found
    assert found["read"]["records"] == NODES * found["committed"], found
    assert found["digest"] == found["written_digest"] and ("--kill" in flags or found["digest"] == found["memory_digest"]), found
    return found


def test_all_that_was_appended_is_read_at_each_node():
    found = log("--writers", "4", "--bytes", "1001", "--deadline", "10000")
    assert (found["committed"], found["abandoned"], found["lost"]) == (RECORDS, 0, 0), found


def test_readers_that_follow_find_the_same():
    found = log("--bytes", "20000", "--follow", "--deadline", "10000")
    assert (found["committed"], found["abandoned"], found["lost"]) == (RECORDS, 0, 0), found


def test_readers_pass_the_slot_of_a_writer_that_died():
    for flags in ((), ("--follow", "--deadline", "2000")):
        found = log("--kill", *flags)
        assert found["committed"] == RECORDS - RECORDS // NODES // 2, found  # half of the first one's share is not there
        assert found["abandoned"] >= 1 and found["abandoned"] == found["lost"] + 1, found


def test_a_writer_that_stood_still_appends_again():
    found = log("--kill", "--stall", "--follow", "--deadline", "500")
    assert found["committed"] == RECORDS - RECORDS // NODES // 2, found
    assert found["lost"] >= 1 and found["abandoned"] == found["lost"] + 1, found


def test_wrong_words_are_refused():
    bare = {name: value for name, value in os.environ.items() if name != "NIGH_SOCKETS"}
    for words in (["--records", "0"], ["--records", "-1"], ["--records", "9x"], ["--bytes", "1048577"], ["--bytes", ""],
                  ["--writers", "65"], ["--writers", "99999999999999999999"], ["--deadline", "0"], ["--records", "1"],
                  ["--records", "1099511627776"], ["--stall"], ["--stall", "--follow", "--kill", "--writers", "1"],
                  ["--so"], ["--records"], ["x"] * 16):
        code, printed, said = run([PROGRAM, *words, "/nowhere"], env=bare)
        assert code == USAGE and not printed and said.strip(), (words, code, printed, said)
    code, printed, said = run([PROGRAM], env=bare)
    assert code == USAGE and "NIGH_SOCKETS" in said, (code, printed, said)
    code, printed, said = run([PROGRAM, "--help"], env=bare)
    assert code == OK and "--deadline" in printed and not said, (code, printed, said)
    code, printed, said = run([PROGRAM, "/nowhere"], env=bare)
    assert code == FAILED and "/nowhere" in said and not printed, (code, printed, said)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        print("skipped: examples are not built here", flush=True)
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
