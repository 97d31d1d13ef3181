#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A member that has the key and misuses it, beside two real nodes: what is no matter of shares (cluster_liars.py). It says
what is not its to say, answers nothing, comes and goes, has others hold what there is not, lends what nobody can read. The
two go on serving each other, and remember nothing of it once it is dead."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_liars import GROWTH_KIB, IS_BRIEF, KEY_KIB, ROUNDS, TIMEOUT_MS, Beset  # noqa: E402
from raw_session import wait_for  # noqa: E402

NUISANCE_S = 0 if IS_BRIEF else 2
CALLS = 10 if IS_BRIEF else 40


def test_it_is_a_nuisance():
    """What it is answered and how it ends is its own matter."""
    cluster = Beset()
    cluster.offer()
    for how in (["waits"], ["strangers"], ["mute", "keys"], ["rebirths", "keys"], ["links", "loans"]):
        cluster.lie(*how)
        wait_for(lambda: cluster.said().get("connections", 0) > 0, 20)
        end, rounds = time.monotonic() + NUISANCE_S, 0
        while rounds == 0 or time.monotonic() < end:
            cluster.serves()
            rounds += 1
            cluster.used = 0  # the numbers are free again
        print("#", how, rounds, cluster.said())
        cluster.end_liar()
        cluster.serves()
    cluster.bounded(KEY_KIB)
    for rank in range(2):
        wait_for(lambda: cluster.stats(rank)["directory_keys"] <= 60, 20)
        wait_for(lambda: cluster.stats(rank)["objects"] == 30, 20)
    cluster.close()


def test_it_has_others_hold_what_it_likes():
    """Replicas of everything, also of what there is not: it gets a part of the memory and of the tables, no more."""
    cluster = Beset()
    cluster.offer()
    cluster.lie("replicas")
    wait_for(lambda: cluster.said().get("NIGH_BUSY", 0) + cluster.said().get("NIGH_OK", 0) > 1000, 120)
    for rank in range(2):
        wait_for(lambda: cluster.stats(rank)["claims_refused"] > 0, 120)
    for _ in ROUNDS[::2]:
        cluster.serves()
    for rank in range(2):
        stats = cluster.stats(rank)
        assert stats["replica_bytes"] <= stats["memory_bytes"] / 2
        print("#", {name: value for name, value in stats.items() if "replica" in name})
    cluster.bounded(GROWTH_KIB + KEY_KIB)
    cluster.end_liar()
    cluster.serves()
    cluster.close()


def test_what_it_lends_stops_nobody():
    """It lends two objects that nobody can read, which take all that pulls of a node may take at once."""
    cluster = Beset()
    cluster.lie("bait")
    wait_for(lambda: cluster.said().get("up", 0) == 2, 20)
    asked = cluster.begin(1, "get", 500000, 20, 1000, 30000)  # of a third it is the home
    wait_for(lambda: cluster.said()["baited"] >= 2, 20)
    numbers = cluster.numbers(10)
    cluster.put(0, numbers, 10, 100000)
    cluster.get_all(1, numbers, 10, 100000, TIMEOUT_MS)
    cluster.end_liar()
    asked.kill()
    asked.communicate()
    cluster.close()


def test_what_it_says_of_many_counts_for_itself_alone():
    """It answers calls of many nodes with what cannot be, and asks others for such calls."""
    cluster = Beset()
    cluster.lie("bait")
    wait_for(lambda: cluster.said().get("up", 0) == 2, 20)
    for n in range(CALLS):
        done = subprocess.run([os.environ["NIGH"], "call", "nobody's", "x", "--all", "--json", "--timeout", "20s", "--socket",
                               cluster.socket(n % 2)], stdout=subprocess.PIPE, timeout=60, check=False)
        said = json.loads(done.stdout)
        counts = [said[name] for name in ("answered", "failed", "unknown", "unasked")]
        errors = {error["node"]: (error["status"], error["count"]) for error in said["errors"]}
        assert counts == [0, 0, 1, 2], said
        assert errors == {0: ("NIGH_NOT_FOUND", 1), 1: ("NIGH_NOT_FOUND", 1), 2: ("NIGH_PROTOCOL", 1)}, said
    cluster.serves()
    cluster.end_liar()
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
