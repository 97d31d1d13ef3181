#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Chunks of a region that move while a client at each of four nodes reads and writes checksummed records, with and without
nodes that die and stand still, and holders of a lock that do: no byte is wrong, no write is lost, every operation ends once, as
is documented. bench/region-moves-run does the same with more moves, and looks at how long operations wait."""
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_faults import RDMA_HOSTS  # noqa: E402
from cluster_views import Voters  # noqa: E402

NODES, CHUNKS, CHUNK = 4, 16, 65536
SEED = int(os.environ.get("NIGH_SEED") or os.environ.get("NIGH_RUN_SEED") or random.randrange(1, 1 << 30))
WAIT_S = 60 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
# Of a node that has no lease for a moment, or of a link that was lost as a chunk closed behind who stood still too long.
CALM = {"NIGH_OK", "NIGH_NO_QUORUM", "NIGH_PEER_LOST"}
# An emulated machine with RDMA devices stands still for longer than a lock's term.
CALM |= {"NIGH_LOCK_LOST"} if RDMA_HOSTS else set()
MOVES = 20 if RDMA_HOSTS else 100


class Fire:
    """region-moves at all nodes, until it is ended."""

    def __init__(self, cluster, name, seed, chunks=CHUNKS, chunk_bytes=CHUNK):
        self.path, self.nodes = os.path.join(cluster.folder.name, name), len(cluster.processes)
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen(
                [os.environ["REGION_MOVES"], name, str(seed), str(chunks), str(chunk_bytes),
                 *(cluster.socket(rank) for rank in range(self.nodes))], stdin=subprocess.PIPE, stdout=output, stderr=output)
        raw.Node.running.append(self.process)
        self.goes_on()

    def text(self):
        with open(self.path, encoding="utf-8") as output:
            return output.read()

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def at(self):
        """What it said last: operations that ended well at each node, and words with a number each."""
        assert self.process.poll() is None, self.text()[-8000:]
        lines = [line.split() for line in self.text()[-4000:].split("\n")[:-1] if line.startswith("at ")]
        if not lines:
            return [0] * self.nodes, dict.fromkeys(("moves", "avoided", "killed", "stopped", "lost"), 0)
        words = lines[-1][1 + self.nodes:]
        return [int(word) for word in lines[-1][1:1 + self.nodes]], dict(zip(words[::2], map(int, words[1::2])))

    def goes_on(self, without=(), count=100, moves=0, seconds=WAIT_S, since=None, **more):
        """Until so many more operations ended well at each node but those, chunks moved, holders were killed, and so on."""
        ends, words = since or self.at()
        more["moves"] = moves

        def has_gone_on():
            ends_now, words_now = self.at()
            return (all(now >= was + count for rank, (now, was) in enumerate(zip(ends_now, ends)) if rank not in without)
                    and all(words_now[word] >= words[word] + number for word, number in more.items()))

        wait_for(has_gone_on, seconds)

    def move(self, count, seconds=WAIT_S):
        """So many chunks move; then nothing does."""
        since = self.at()
        self.say(f"moves {count}")
        self.goes_on(count=1, moves=count, seconds=seconds, since=since)
        self.say("plain")

    def keep_away(self, rank):
        """Until no chunk but the last two is at this node, and none goes there."""
        self.say(f"avoid {rank}")
        wait_for(lambda: self.at()[1]["avoided"], WAIT_S)

    def end(self, fails=True):
        """What was found; it fails where anything is not as it should be, unless somebody else looks at that."""
        self.process.stdin.close()
        result = self.process.wait(timeout=2 * WAIT_S)
        raw.Node.running.remove(self.process)
        said = [line for line in self.text().split("\n") if line and not line.startswith("at ")]
        assert result == 0 or (result == 1 and not fails), (result, said)
        found = json.loads(said[-1])
        assert not fails or (found["is_well"] and found["begun"] == found["ended"] > 0), found
        print("\n".join(said[:-1]), end="\n" if said[:-1] else "", flush=True)
        print(f"# seed {found['seed']}: {found['moves']} moves, {found['ended']} operations, {found['torn']} read torn; "
              f"statuses {found['statuses']}", flush=True)
        return found


def make_cluster(nodes=NODES, dead_ms=10000, **more):
    cluster = Voters(nodes, dead_ms=dead_ms, **more)
    wait_for(cluster.agrees, WAIT_S)
    return cluster


def is_calm(found):
    for mode in ("plain", "moving"):
        for kind, statuses in found["statuses"][mode].items():
            assert set(statuses) <= CALM, (mode, kind, statuses)


# ---- what goes wrong


def stand_still(cluster, fire, rank, chosen, count=20):
    """A node that has chunks, and a client: for less than it takes to be dead."""
    cluster.stop(rank)
    end = time.monotonic() + chosen.uniform(0.03, 0.4)  # nobody sees into it, and who waits for it stands still, too
    wait_for(lambda: time.monotonic() > end, 5)
    cluster.stop(rank, False)
    fire.goes_on(count=count, moves=1)


def die(cluster, fire, rank):
    """Killed, and begun anew: with what of the last two chunks it had, and nothing else."""
    fire.keep_away(rank)
    cluster.kill(rank)
    wait_for(lambda: cluster.agrees(out=(rank,)), WAIT_S)
    fire.goes_on(without=(rank,), moves=5)
    cluster.back(rank)
    wait_for(cluster.agrees, WAIT_S)
    fire.say("avoid none")
    fire.goes_on(moves=5)


def lose_holders(fire, killed=1, stopped=1):
    """Of the lock: one is killed as it holds it, one stands still until others have written under it."""
    for _ in range(killed):
        since = fire.at()
        fire.say("kill-holder")
        fire.goes_on(count=1, killed=1, since=since)
    for _ in range(stopped):
        since = fire.at()
        fire.say("stop-holder")
        fire.goes_on(count=1, stopped=1, since=since)


# ---- tests


def test_moves_lose_nothing():
    cluster = make_cluster()
    fire = Fire(cluster, "calm", SEED)
    for _ in range(3):
        fire.move(MOVES)
        fire.goes_on()
    found = fire.end()
    is_calm(found)
    assert found["moves"] >= 3 * MOVES and found["pauses"]["count"] > 0 and found["locked_writes"] > 0, found
    cluster.close()


def test_every_operation_ends_once():
    cluster = make_cluster(dead_ms=2000)
    fire = Fire(cluster, "faults", SEED + 1)
    chosen = random.Random(SEED)
    fire.say("faults")
    fire.goes_on(moves=5)
    for rank in range(NODES):
        stand_still(cluster, fire, rank, chosen)
    print("# each node stood still", flush=True)
    lose_holders(fire)
    print("# a holder was killed, one stood still", flush=True)
    die(cluster, fire, 1 + SEED % (NODES - 1))
    print("# a node was killed, and is back", flush=True)
    lose_holders(fire)
    found = fire.end()
    assert found["holders_killed"] == found["holders_stopped"] == 2 and found["locks_lost"] > 0, found
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
