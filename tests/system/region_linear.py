#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Words of regions that clients of all nodes read, write, add to and swap, while their chunks move and nodes die and stand
still: what they found can have been, one operation after the other. Each round is a region of its own and a fault."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_views import Voters  # noqa: E402

NODES = 3
CHUNKS = 4
SEED = int(os.environ.get("NIGH_SEED") or os.environ.get("NIGH_RUN_SEED") or random.randrange(1, 1 << 30))


class Load:
    """region-linear at all nodes, until it is ended."""

    def __init__(self, cluster, fault, seed, victim, away=CHUNKS // 2):
        self.path = os.path.join(cluster.folder.name, f"linear-{seed}")
        self.victim, self.met = victim, 1
        print(f"# {fault}: seed {seed}, node {victim}", flush=True)
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen([os.environ["REGION_LINEAR"], f"{fault}-{seed}", str(seed), str(victim), str(away),
                                             *(cluster.socket(rank) for rank in range(NODES))],
                                            stdin=subprocess.PIPE, stdout=output, stderr=output)
        raw.Node.running.append(self.process)
        self.goes_on()

    def text(self):
        with open(self.path, encoding="utf-8") as output:
            return output.read()

    def at(self):
        """How many operations ended well at each node, and how many moves."""
        assert self.process.poll() is None, self.text()[-8000:]
        lines = [line.split() for line in self.text().split("\n")[:-1] if line.startswith("at ")]
        return [int(word) for word in lines[-1][1:] if word != "moves"] if lines else [0] * (NODES + 1)

    def goes_on(self, without=(), count=200, moves=3):
        """Until so many more operations ended at each node but those, and so many chunks have moved."""
        before = self.at()
        wait_for(lambda: all(now >= was + (count if rank < NODES else moves)
                             for rank, (now, was) in enumerate(zip(self.at(), before)) if rank not in without), 60)

    def end(self):
        self.process.stdin.close()
        result = self.process.wait(timeout=120)
        raw.Node.running.remove(self.process)
        said = [line for line in self.text().split("\n") if not line.startswith("at ")]
        print("\n".join(said), flush=True)
        assert result == 0, result


def stand_still(cluster, load, chosen):
    """Nodes that have chunks and stand still for less than it takes to be dead: all changes wait for them."""
    for turn in range(6):
        cluster.stop(turn % NODES)
        end = time.monotonic() + chosen.uniform(0.03, 0.4)  # nobody sees into it, and who waits for it stands still, too
        wait_for(lambda: time.monotonic() > end, 5)
        cluster.stop(turn % NODES, False)
        load.goes_on(count=50, moves=1)


def refused(cluster):
    return sum(cluster.stats(rank)["region_parts_refused"] for rank in range(NODES))


def stand_aside(cluster, load, _):
    """A node that only uses the region: chunks move while it stands still, and it goes on with handles that are none any more,
    until some were refused."""
    before, turn = refused(cluster), 0
    while turn < 10 or (turn < 40 and refused(cluster) == before):
        cluster.stop(load.victim)
        load.goes_on(without=(load.victim,), count=20, moves=6)
        cluster.stop(load.victim, False)
        load.goes_on(count=20, moves=1)
        turn += 1
    load.met = refused(cluster) - before


def die(cluster, load, _):
    """A node that is killed, with the chunks that it had, or none."""
    cluster.kill(load.victim)
    wait_for(lambda: cluster.agrees(out=(load.victim,)), 30)
    load.goes_on(without=(load.victim,))
    cluster.back(load.victim)
    wait_for(cluster.agrees, 30)
    load.goes_on(without=(NODES,))


def be_taken_for_dead(cluster, load, _):
    """A node that stands still for so long, and goes on: what it had posted before does not land any more."""
    others = [rank for rank in range(NODES) if rank != load.victim]
    cluster.stop(load.victim)
    wait_for(lambda: all(cluster.views(rank)[load.victim] == "out" for rank in others), 30)
    load.goes_on(without=(load.victim,))
    cluster.stop(load.victim, False)
    wait_for(cluster.agrees, 30)
    load.goes_on(without=(NODES,))


def begin(cluster, fault, seed):
    """What a fault is of. Who only uses a region is not its home, which would have to move chunks."""
    victim = 1 + seed // len(FAULTS) % (NODES - 1)
    if fault != stand_aside:
        return Load(cluster, fault.__name__, seed, victim)
    homes = [cluster.stats(rank)["region_homes"] for rank in range(NODES)]
    load = Load(cluster, fault.__name__, seed, victim, away=CHUNKS)
    while cluster.stats(victim)["region_homes"] != homes[victim]:
        load.end()
        seed += 1 << 32
        load = Load(cluster, fault.__name__, seed, victim, away=CHUNKS)
    return load


FAULTS = (stand_still, stand_aside, die, be_taken_for_dead)


def test_words_are_linearizable():
    cluster = Voters(NODES)
    wait_for(cluster.agrees, 20)
    end = time.monotonic() + float(os.environ.get("NIGH_BUDGET_SECONDS") or 0)
    number = 0
    while number < len(FAULTS) or time.monotonic() < end:
        fault = FAULTS[number % len(FAULTS)]
        load = begin(cluster, fault, SEED + number)
        fault(cluster, load, random.Random(SEED + number))
        load.goes_on(without=(NODES,))
        load.end()
        assert load.met > 0  # nothing was refused: the round was of nothing
        number += 1
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
