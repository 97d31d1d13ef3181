#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark over many nodes: it runs, its rows are whole, it ends with a sentence when it cannot, and leaves
nothing behind. No figure is looked at: that one is fast is no promise of a test."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402

SKIPPED = 77
RUN_S = 60 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))
SOURCE, PROGRAM = os.environ["NIGH_SOURCE"], os.environ.get("BENCH_CLUSTER", "")
SERIES = ["ping/nigh", "ping/MPI_Send and MPI_Recv", "pairwise/nigh", "pairwise/MPI_Sendrecv",
          "pairwise/MPI_Isend and MPI_Irecv", "all-to-all/nigh", "all-to-all/MPI_Alltoall"]
RATIOS = ["ping/nigh against MPI_Send and MPI_Recv", "pairwise/nigh against MPI_Sendrecv",
          "pairwise/nigh against MPI_Isend and MPI_Irecv", "all-to-all/nigh against MPI_Alltoall"]


class Run:
    """bench/cluster/run in a folder of its own, which is its place for temporary files too."""

    def __init__(self, ranks, *flags, command=None):
        self.folder = tempfile.mkdtemp(prefix="nigh-test-")
        self.rows, self.log = os.path.join(self.folder, "out", "rows.json"), os.path.join(self.folder, "log")
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        command = command or [os.path.join(SOURCE, "bench/cluster/run"), PROGRAM, self.rows, *flags]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env={**os.environ, "TMPDIR": temporary, "RANKS": str(ranks)},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def processes(self):
        """Who has this run's folder in its command line: the script, mpirun, the ranks."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.folder.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def ranks(self):
        found = []
        for pid in self.processes():
            try:
                if os.path.samefile(f"/proc/{pid}/exe", PROGRAM):
                    found.append(pid)
            except OSError:
                pass
        return found

    def end(self):
        """Its exit code, when it has ended by itself and nothing of it is left but the rows."""
        try:
            code = self.process.wait(timeout=RUN_S)
            wait_for(lambda: not self.processes())
            left = os.listdir(os.path.join(self.folder, "tmp"))
            assert not left, left
            return code
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            self.process.wait()

    def close(self):
        shutil.rmtree(self.folder)


def refused(code, sentence, ranks, *flags):
    run = Run(ranks, *flags)
    ended = run.end()
    assert ended == code and sentence in run.said(), (ended, run.said())
    assert not os.path.exists(run.rows)
    run.close()


def rows_of(run, sizes):
    """The rows by name, after a look at what every row must have."""
    with open(run.rows, encoding="utf-8") as file:
        rows = {row["name"]: row for row in json.load(file)}
    rates = [name + "/rate" for name in SERIES if not name.startswith("ping/")]
    assert set(rows) == {f"{size}/{name}" for size in sizes for name in SERIES + RATIOS + rates}, set(rows)
    for name, row in rows.items():
        slow = [row["min"], row["p99"]] if name.endswith("/rate") else [row["p99"], row["max"]]
        assert 0 < row["min"] <= row["median"] <= row["max"] and slow == sorted(slow), row
        assert "against" not in name or (row["ratio"] > 0 and row["baseline"] > 0 and row["pairs"] == 2), row
    return rows


def test_two_ranks_write_rows_that_can_be_drawn():
    run = Run(2, "--sizes", "64,4K", "--rounds", "2")
    assert run.end() == 0, run.said()
    rows = rows_of(run, ["64 B", "4 KiB"])
    assert "2 ranks on 1 machine" in rows["64 B/ping/nigh"]["path"]
    drawn = []
    for name in ("a.svg", "b.svg"):
        path = os.path.join(run.folder, name)
        subprocess.run([os.path.join(SOURCE, "bench/plot"), run.rows, path], check=True)
        xml.dom.minidom.parse(path)
        with open(path, "rb") as file:
            drawn.append(file.read())
    assert drawn[0] == drawn[1] and b"all to all" in drawn[0]
    run.close()


def test_an_odd_rank_more_and_large_objects_read_in_place():
    run = Run(3, "--sizes", "1,300000", "--rounds", "2", "--transfer", "one-sided", "--fabric", "tcp",
              "--window", "5")
    assert run.end() == 0, run.said()
    assert "tcp, transfer one-sided" in rows_of(run, ["1 B", "300000 B"])["1 B/all-to-all/nigh"]["path"]
    run.close()


def test_every_way_that_nighd_knows():
    for way in ("two-sided", "push", "register"):
        run = Run(2, "--sizes", "300000", "--rounds", "2", "--transfer", way)
        assert run.end() == 0, run.said()
        assert f"tcp, transfer {way}" in rows_of(run, ["300000 B"])["300000 B/ping/nigh"]["path"]
        run.close()


def devices():
    """RDMA devices of the guest, and what each has sent."""
    sent = {}
    for device in os.listdir("/sys/class/infiniband") if os.path.isdir("/sys/class/infiniband") else ():
        with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts", encoding="ascii") as file:
            sent[device] = int(file.read())
    return sent


def test_ranks_on_rdma_devices():
    """Each on its own; every byte that nodes get goes over them."""
    hosts = os.environ.get("RDMA_GUEST_HOSTS", "").split()
    if not hosts:
        raise raw.Skipped("no RDMA guest (make test-rdma)")
    before = devices()
    interfaces = ",".join("h" + host.rsplit(".", 1)[1] for host in hosts)
    run = Run(len(hosts), "--sizes", "16K", "--rounds", "2", "--fabric", "verbs", "--interface", interfaces,
              "--transfer", "one-sided")
    assert run.end() == 0, run.said()
    path = rows_of(run, ["16 KiB"])["16 KiB/all-to-all/nigh"]["path"]
    sent = {device: count - before[device] for device, count in devices().items()}
    print(f"# {path}; packets: {sent}", flush=True)
    assert "verbs, transfer one-sided" in path, path
    assert len(sent) == len(hosts) and min(sent.values()) > 64 * 16 // 4, sent
    run.close()


def test_wrong_flags_are_told():
    refused(2, 'no flag is called "--nonsense"', 2, "--nonsense")
    refused(2, '--sizes cannot be "64,4X"', 2, "--sizes", "64,4X")
    refused(2, '--fabric cannot be "ipx"', 2, "--fabric", "ipx")
    refused(2, '--transfer cannot be "both"', 2, "--transfer", "both")
    refused(2, "--rounds needs a value", 2, "--rounds")
    refused(2, "one rank has nobody to get from", 1)
    refused(2, 'RANKS cannot be "two"', "two")


def test_a_rank_that_cannot_start_ends_all():
    refused(1, "interface none0 has no IPv4 address", 2, "--interface", "none0")
    # One of two: the other one's node has started, and must not wait for it.
    folder = tempfile.mkdtemp(prefix="nigh-test-")
    rows = os.path.join(folder, "rows.json")
    rank = [PROGRAM, rows, "--sizes", "64", "--lanes"]
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    run = Run(2, command=["mpirun", *root, "--oversubscribe", "-n", "1", *rank, "1", ":", "-n", "1", *rank, "3"])
    code, said = run.end(), run.said()
    assert code == 1 and "rank 1 on" in said and "its node does not start: 3 lanes" in said, (code, said)
    assert "rank 0 on" not in said, said
    run.close()
    shutil.rmtree(folder)


def interrupted(ranks, who, number):
    """Ends somebody in the middle of the rounds; the exit code."""
    run = Run(ranks, "--sizes", "64K", "--rounds", "100", "--timeout-s", "30")
    wait_for(lambda: "64 KiB: " in run.said())
    os.kill(who(run), number)
    code = run.end()
    assert code != 0 and not os.path.exists(run.rows), run.said()
    run.close()
    return code


def test_a_rank_that_dies_ends_all():
    interrupted(3, lambda run: run.ranks()[0], signal.SIGKILL)


def test_a_run_that_is_ended_leaves_nothing():
    assert interrupted(2, lambda run: run.process.pid, signal.SIGTERM) == 128 + signal.SIGTERM
    assert interrupted(2, lambda run: run.process.pid, signal.SIGINT) == 128 + signal.SIGINT


if __name__ == "__main__":
    if PROGRAM == "" or shutil.which("mpirun") is None:
        print("skipped: no mpirun, or built without MPI (tools/setup mpi, then configure again)")
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
