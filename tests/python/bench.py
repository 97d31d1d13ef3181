#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the Python package (bench/python-run): all four take part, its rows are whole and its targets counted; where
one cannot take part nothing is measured, and it says why. No time is looked at: that one is short is no promise of a test."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import Skipped, numpy, run_tests  # noqa: E402

OTHERS = ["shared_memory", "redis-py", "pickle over a pipe"]


def run(folder, **environment):
    """Its exit status, what it said, and its rows, None: it has written none."""
    path = os.path.join(folder, "out.json")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, os.path.join(os.environ["NIGH_SOURCE"], "bench", "python-run"), os.environ["NIGH_BUILD"], path]
    ended = subprocess.run(command, env={**clean, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
    if not os.path.exists(path):
        return ended.returncode, ended.stdout, None
    with open(path, encoding="utf-8") as file:
        return ended.returncode, ended.stdout, json.load(file)


def test_all_four_are_measured():
    numpy()
    try:
        import redis  # noqa: F401
    except ImportError as error:
        raise Skipped("no redis-py (python3-redis)") from error
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        code, said, rows = run(folder, BYTES=str(1 << 20), ROUNDS="2")
    assert rows is not None, said
    assert {row["name"] for row in rows} == {
        f"{what} {size}, beside {other}" for what in ("get", "put") for size in ("1 KiB", "1 MiB") for other in OTHERS} | {
        "put 1 MiB, beside memcpy", "put 1 MiB, memory new to the client"}, said
    for row in rows:
        is_time = row["unit"] == "us"
        for median, tail in ((row["median"], row["p99"]), (row["baseline"], row["baseline_p99"])):
            assert 0 < median <= tail if is_time else 0 < tail <= median, row
        assert abs(row["ratio"] - row["median"] / row["baseline"]) <= row["ratio"] / 100 + 0.001 / row["baseline"], row
    missed = sum("met" in row and not row["met"] for row in rows)
    assert sum("target" in row for row in rows) == 7 and f"7 targets, {missed} missed" in said, said
    assert code == (1 if missed else 0), said
    assert sum(all(other in line for other in OTHERS) for line in said.splitlines()) == 4, said


def test_what_is_missing_is_said():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        for name in ("redis", "numpy"):
            os.mkdir(os.path.join(folder, name))
            with open(os.path.join(folder, name, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('none here')\n")
        for environment, word in (({"PYTHONPATH": os.path.join(folder, "redis")}, "redis: none here (Debian's python3-redis)"),
                                  ({"PYTHONPATH": os.path.join(folder, "numpy")}, "numpy: none here (Debian's python3-numpy)"),
                                  ({"PATH": folder}, "redis-server: not in the PATH"), ({"BYTES": str(1 << 60)}, "/dev/shm: no room"),
                                  ({"BYTES": str(1 << 60)}, "memory: ")):
            code, said, rows = run(folder, **environment)
            assert code == 1 and word in said and "tools/setup bench" in said and rows is None, (word, code, said)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
