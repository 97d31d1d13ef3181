#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Words of spaces that clients of all nodes read, write, add to, exchange and swap, and blocks that they lock, while a node
stands still or dies and clients are killed: what they found, and who held what, can have been, one operation after the other.
Each round is a space of its own and a fault."""
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
SEED = int(os.environ.get("NIGH_SEED") or os.environ.get("NIGH_RUN_SEED") or random.randrange(1, 1 << 30))


class Load:
    """space-linear at all nodes, until it is ended."""

    def __init__(self, cluster, fault, seed, victim):
        self.path = os.path.join(cluster.folder.name, f"linear-{seed}")
        self.victim = victim
        print(f"# {fault}: seed {seed}, node {victim}", flush=True)
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen([os.environ["SPACE_LINEAR"], f"{fault}-{seed}", str(seed),
                                             *(cluster.socket(rank) for rank in range(NODES))],
                                            stdin=subprocess.PIPE, stdout=output, stderr=output)
        raw.Node.running.append(self.process)
        self.goes_on()

    def text(self):
        with open(self.path, encoding="utf-8") as output:
            return output.read()

    def at(self):
        """How many operations ended well at each node, and how many clients were killed."""
        assert self.process.poll() is None, self.text()[-8000:]
        lines = [line.split() for line in self.text().split("\n")[:-1] if line.startswith("at ")]
        return [int(word) for word in lines[-1][1:] if word != "kills"] if lines else [0] * (NODES + 1)

    def goes_on(self, without=(), count=200):
        """Until so many more operations ended at each node but those."""
        before = self.at()
        wait_for(lambda: all(now >= was + count for rank, (now, was) in enumerate(zip(self.at()[:NODES], before))
                             if rank not in without), 60)

    def kill(self):
        """A client, whatever it is about."""
        before = self.at()[NODES]
        self.process.stdin.write(b"k")
        self.process.stdin.flush()
        wait_for(lambda: self.at()[NODES] > before, 20)

    def end(self):
        self.process.stdin.close()
        result = self.process.wait(timeout=120)
        raw.Node.running.remove(self.process)
        said = [line for line in self.text().split("\n") if not line.startswith("at ")]
        print("\n".join(said), flush=True)
        assert result == 0, result


def stand_still(cluster, load, chosen):
    """Nodes that stand still for less than it takes to be dead: all that want what they have wait for them."""
    for turn in range(6):
        cluster.stop(turn % NODES)
        end = time.monotonic() + chosen.uniform(0.03, 0.4)  # nobody sees into it, and who waits for it stands still, too
        if turn % 2 == 0:
            load.kill()
        wait_for(lambda: time.monotonic() > end, 5)
        cluster.stop(turn % NODES, False)
        load.goes_on(count=100)


def be_taken_for_dead(cluster, load, _):
    """A node that stands still for so long, and goes on with what others do without."""
    others = [rank for rank in range(NODES) if rank != load.victim]
    cluster.stop(load.victim)
    load.kill()
    wait_for(lambda: all(cluster.views(rank)[load.victim] == "out" for rank in others), 30)
    load.goes_on(without=(load.victim,))
    cluster.stop(load.victim, False)
    wait_for(cluster.agrees, 30)
    load.kill()


def die(cluster, load, _):
    """A node that is killed, with what it had, and is there again."""
    cluster.kill(load.victim)
    wait_for(lambda: cluster.agrees(out=(load.victim,)), 30)
    load.goes_on(without=(load.victim,))
    load.kill()
    cluster.back(load.victim)
    wait_for(cluster.agrees, 30)


FAULTS = (stand_still, be_taken_for_dead, die)


def test_words_and_locks_are_linearizable():
    cluster = Voters(NODES, flags=("--space-memory", "16M"))
    wait_for(cluster.agrees, 20)
    end = time.monotonic() + float(os.environ.get("NIGH_BUDGET_SECONDS") or 0)
    number = 0
    while number < len(FAULTS) or time.monotonic() < end:
        fault = FAULTS[number % len(FAULTS)]
        load = Load(cluster, fault.__name__, SEED + number, 1 + (SEED + number) // len(FAULTS) % (NODES - 1))
        fault(cluster, load, random.Random(SEED + number))
        load.goes_on()
        evictions = [cluster.stats(rank)["space_evictions"] for rank in range(NODES)]
        load.end()
        print("# so many copies were given up for others:", evictions, flush=True)
        assert evictions[0] > 10, "the cache had room for all: the round was of nothing"
        cluster.nigh(0, "space", "rm", f"{fault.__name__}-{SEED + number}")
        number += 1
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
