#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of copies between nodes: it runs, its rows are whole, and what goes by the client's node, and what does not, is
as the rows say. No time is looked at: that one is short is no promise of a test."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402

PATIENCE_S = 120 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
SIZES = ["64 bytes", "4 KiB", "64 KiB", "1 MiB", "16 MiB"]
OWN = ["4 KiB", "1 MiB"]
OVERLAPS = "copy of 16 MiB within one region, whose ranges overlap"


def baselines():
    """What each copy is compared to."""
    pairs = {f"copy of {size} from another node to a third": f"{size} from another node to a third, read and written by the client"
             for size in SIZES}
    pairs |= {f"copy of {size} from the client's node to another":
              f"{size} from the client's node to another, read and written by the client" for size in OWN}
    return pairs | {OVERLAPS: "16 MiB from another node to a third, read and written by the client"}


def test_rows_are_whole_and_say_which_way_bytes_went():
    with tempfile.TemporaryDirectory(prefix="nigh-test-") as folder:
        path = os.path.join(folder, "rows.json")
        done = subprocess.run([os.environ["REGION_COPIES"], path, "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        # Also where a row has missed its target: those are of bytes alone.
        assert done.returncode == 0, done.stdout + done.stderr
        with open(path, encoding="utf-8") as file:
            rows = {row["name"]: row for row in json.load(file)}
    pairs = baselines()
    assert len(rows) == 2 * len({*pairs, *pairs.values()}), list(rows)
    for name, baseline in pairs.items():
        row = rows[name]
        assert 0 < row["median"] <= row["p99"] and row["ratio"] > 0, row
        assert row["baseline"] == rows[baseline]["median"], row
        bytes_of = [rows[f"{one}: bytes of TCP"]["median"] for one in (name, baseline)]
        print(f"# {name}: {bytes_of[0]:.0f} bytes at the client's node, not {bytes_of[1]:.0f}", flush=True)
    for size in ("64 KiB", "1 MiB", "16 MiB"):
        short, long = (rows[f"{name}: bytes of TCP"]["median"] for name in (
            f"copy of {size} from another node to a third", f"{size} from another node to a third, read and written by the client"))
        assert 50 * short < long, (size, short, long)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
