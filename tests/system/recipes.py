#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/running.md, as far as a machine without Slurm and Kubernetes can run them: MPI by mpirun, Slurm's script with
programs that play srun and scontrol, the three machines by hand on three addresses of this one, and of Kubernetes' manifest that
nighd takes the options which stand there."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402

SOURCE, BUILD = os.environ["NIGH_SOURCE"], os.environ["NIGH_BUILD"]
PATIENCE_S = 120 * int(os.environ.get("NIGH_TEST_PATIENCE", "1"))

# Each rank puts an object, and gets those of all, whichever node they are at.
EXCHANGE = ('echo "of $1" | "$NIGH" put "rank-$1" - && for other in $(seq 0 $(($2 - 1))); do '
            '[ "$("$NIGH" get --timeout 60s "rank-$other")" = "of $other" ] || exit 9; done; echo "rank $1 has all of $2"')


def run(folder, words, **env):
    environment = {key: value for key, value in os.environ.items() if key != "NIGH_SOCKET"}
    environment.update({"TMPDIR": os.path.join(folder, "tmp"), **env})
    os.makedirs(environment["TMPDIR"], exist_ok=True)
    return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=PATIENCE_S)


def nothing_is_left(folder, *words):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
            found += [line] if line.startswith(b"nighd") and folder.encode() in line else []
        except OSError:
            pass
    assert not found, found
    for path in words:
        assert not os.path.exists(path), path


def mpi(folder, ranks, each_rank, command):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    shared = os.path.join(folder, "run")
    result = run(folder, ["mpirun", *root, "--oversubscribe", "-n", str(ranks), os.path.join(SOURCE, "examples/mpi-nodes"), shared,
                          "bash", "-c", command], NIGH_BUILD=BUILD, NIGH_HOST="127.0.0.1", NIGH_PORT=str(min(raw.free_ports(1)[0], 65000)),
                 NIGH_EACH_RANK=each_rank, NIGH_NODE_FLAGS="--memory 64M")
    raw.wait_for(lambda: not os.path.exists(shared))
    nothing_is_left(folder, shared, *[os.path.join(folder, "tmp", name) for name in os.listdir(os.path.join(folder, "tmp"))
                                      if name.startswith("nigh-mpi")])
    return result


def test_a_node_for_all_ranks_of_a_machine_and_one_for_each():
    if shutil.which("mpirun") is None:
        raise raw.Skipped("no mpirun: tools/setup mpi")
    for each_rank in ("0", "1"):
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            command = f"set -- $OMPI_COMM_WORLD_RANK 3; {EXCHANGE}; \"$NIGH\" nodes --json | grep -c '\"up\"'"
            result = mpi(folder, 3, each_rank, command)
            assert result.returncode == 0, (result.stdout, result.stderr)
            lines = sorted(result.stdout.splitlines())
            nodes = "3" if each_rank == "1" else "1"
            assert lines == [nodes] * 3 + [f"rank {rank} has all of 3" for rank in range(3)], result.stdout


def test_a_rank_that_fails_ends_the_nodes():
    if shutil.which("mpirun") is None:
        raise raw.Skipped("no mpirun: tools/setup mpi")
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        assert mpi(folder, 2, "1", "exit $((5 * OMPI_COMM_WORLD_RANK))").returncode != 0


def test_a_folder_that_was_there_is_left_as_it_is():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        shared = os.path.join(folder, "run")
        os.mkdir(shared)
        with open(os.path.join(shared, "thesis"), "w", encoding="ascii") as file:
            file.write("years of work")
        result = run(folder, ["bash", os.path.join(SOURCE, "examples/mpi-nodes"), shared, "true"], NIGH_BUILD=BUILD, RANK="0", SIZE="1",
                     LOCAL_RANK="0")
        assert result.returncode != 0 and shared in result.stderr, result.stderr
        assert os.listdir(shared) == ["thesis"], os.listdir(shared)


def fake_slurm(folder):
    """Programs that play Slurm, of three machines that are this one; what $PATH is to be."""
    fakes = os.path.join(folder, "fakes")
    os.mkdir(fakes)
    for name, text in (
            ("scontrol", 'printf "127.0.0.%s\\n" 1 2 3\n'),
            # A process for each of three machines, until all have ended; a signal goes on to them.
            ("srun", 'while [ "${1#--}" != "$1" ]; do shift; done\npids=\n'
                     'trap \'kill $pids 2>/dev/null; wait $pids; exit 143\' TERM\n'
                     'for id in 0 1 2; do SLURM_NODEID=$id SLURM_PROCID=$id "$@" & pids="$pids $!"; done\n'
                     'status=0\nfor pid in $pids; do wait "$pid" || status=$?; done\nexit $status\n')):
        path = os.path.join(fakes, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
    for program in (os.environ["NIGH"], os.environ["NIGHD"]):
        os.symlink(program, os.path.join(fakes, os.path.basename(program)))
    return fakes + ":" + os.environ["PATH"]


def test_slurms_script_with_programs_that_play_slurm():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path = fake_slurm(folder)
        job = f"test{os.getpid()}"
        result = run(folder, ["bash", os.path.join(SOURCE, "examples/slurm.sbatch"), "bash", "-c",
                              f"set -- $SLURM_PROCID 3; {EXCHANGE}"],
                     PATH=path, SLURM_JOB_ID=job, SLURM_JOB_NODELIST="three", SLURM_JOB_NUM_NODES="3",
                     NIGH_SHARED=folder, NIGH_PORT=str(raw.free_ports(1)[0]), NIGH_NODE_FLAGS="--memory 64M")
        assert result.returncode == 0, (result.stdout, result.stderr)
        assert sorted(result.stdout.splitlines()) == [f"rank {rank} has all of 3" for rank in range(3)], result.stdout
        nothing_is_left(job, os.path.join(folder, f".nigh-{job}"), *[f"/tmp/nigh-{job}-{rank}" for rank in range(3)])


def test_slurms_script_where_another_has_made_the_folder():
    """Nodes do not start in it, nothing in it is asked, and it stays."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path, job = fake_slurm(folder), f"squat{os.getpid()}"
        squatted = [f"/tmp/nigh-{job}-{rank}" for rank in range(3)]
        with open(os.path.join(folder, "fakes", "seq"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho 1\n")  # tasks wait for less than a minute
        os.chmod(os.path.join(folder, "fakes", "seq"), 0o755)
        for name in squatted:
            os.symlink(folder, name)
        try:
            result = run(folder, ["bash", os.path.join(SOURCE, "examples/slurm.sbatch"), "touch", os.path.join(folder, "ran")], PATH=path,
                         SLURM_JOB_ID=job, SLURM_JOB_NODELIST="three", SLURM_JOB_NUM_NODES="3", NIGH_SHARED=folder,
                         NIGH_PORT=str(raw.free_ports(1)[0]), NIGH_NODE_FLAGS="--memory 64M")
            assert result.returncode != 0 and "File exists" in result.stderr, result.stderr
            assert not os.path.exists(os.path.join(folder, "ran")) and not os.path.exists(os.path.join(folder, "sock"))
            assert all(os.path.islink(name) for name in squatted)
            nothing_is_left(job, os.path.join(folder, f".nigh-{job}"))
        finally:
            for name in squatted:
                os.unlink(name)


def stand_ins(folder, text):
    """Its files, where this machine has some."""
    for name, data in (("nodes", "10.0.0.1:7470\n10.0.0.2:7470\n10.0.0.3:7470\n"), ("cluster.key", "5e" * 32)):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(data)
        os.chmod(os.path.join(folder, name), 0o600)
    text = re.sub(r"/etc/nigh(-key)?/|/run/credentials/nighd.service/", folder + "/", text)
    return text.replace("/var/lib/nigh", folder).replace("/run/nigh", folder).replace("64G", "64M").replace("8G", "64M")


def test_kubernetes_manifest():
    try:
        import yaml
    except ImportError as error:
        raise raw.Skipped("no python3-yaml") from error
    with open(os.path.join(SOURCE, "examples/kubernetes.yaml"), encoding="utf-8") as file:
        kinds = {part["kind"]: part for part in yaml.safe_load_all(file)}
    assert set(kinds) == {"ConfigMap", "DaemonSet", "Pod"}
    pod = kinds["DaemonSet"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert kinds["DaemonSet"]["spec"]["selector"]["matchLabels"] == kinds["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    for some in (pod, kinds["Pod"]["spec"]):
        mounted = {mount["name"] for mount in some["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in some["volumes"]}, mounted
    # Whatever the options name is mounted there.
    places = [mount["mountPath"] for mount in container["volumeMounts"]]
    for option in container["args"]:
        path = re.sub(r"^--[a-z-]+=@?", "", option)
        assert not path.startswith("/") or any(path.startswith(place + "/") for place in places), option
    assert pod["volumes"][3]["secret"]["defaultMode"] == 0o400
    assert kinds["ConfigMap"]["data"]["nodes"].split() == [f"10.0.0.{n}:7470" for n in (1, 2, 3)]
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        words = [stand_ins(folder, option).replace("$(HOST_ADDRESS)", "10.0.0.2") for option in container["args"]]
        result = run(folder, [os.environ["NIGHD"], "--check", *words])
        assert result.returncode == 0 and result.stderr == "", (result.stdout, result.stderr)


def commands_of(heading):
    """The blocks of commands under a heading of the page."""
    with open(os.path.join(SOURCE, "docs/running.md"), encoding="utf-8") as file:
        section = re.search(rf"^## {heading}\n(.*?)^## ", file.read(), re.M | re.S)[1]
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```$", section, re.M | re.S)]


class Machine:
    """One of three that are this one, with an address and folders of its own; scp to another is cp."""

    SCP = 'scp() { to=${2#*:}; cp "$1" "${to/10.0.0.1/${2%%:*}}"; }\n'

    def __init__(self, folder, number, addresses):
        self.folder, self.root, self.number, self.addresses = folder, os.path.join(folder, f"10.0.0.{number}"), number, addresses
        self.config, self.socket = os.path.join(self.root, "etc/nigh/nighd.conf"), os.path.join(self.root, "s")
        self.http, self.process = raw.free_ports(1)[0], None
        os.makedirs(os.path.join(self.root, "var/lib/nigh"))

    def types(self, text):
        """The page's commands, as they are meant for this one."""
        text = text.replace("member = 10.0.0.1:", f"member = 10.0.0.{self.number}:")
        for number, address in enumerate(self.addresses, 1):
            text = text.replace(f"10.0.0.{number}:7470", address)
        text = re.sub("/(etc|var/lib)/nigh", rf"{self.root}/\1/nigh", text)
        text = text.replace("64G", "64M").replace("http = 7707", f"http = {self.http}")
        result = run(self.folder, ["bash", "-e", "-c", self.SCP + text])
        assert result.returncode == 0, (text, result.stderr)

    def starts(self):
        words = [os.environ["NIGHD"], "--config", self.config, "--socket", self.socket]
        checked = run(self.folder, [*words, "--check"])
        assert checked.returncode == 0 and checked.stderr == "", (checked.stdout, checked.stderr)
        with open(os.path.join(self.root, "log"), "wb") as log:
            self.process = subprocess.Popen(words, stderr=log)
        raw.Node.running.append(self.process)

    def nigh(self, *words):
        return run(self.folder, [os.environ["NIGH"], *words, "--socket", self.socket])

    def sees_all(self):
        """Whether nigh nodes shows three that are up and vote."""
        said = self.nigh("nodes", "--json")
        return said.returncode == 0 and [node["state"] for node in json.loads(said.stdout) if node["votes"]] == ["up"] * 3

    def ends(self):
        self.process.terminate()
        raw.Node.running.remove(self.process)
        assert self.process.wait(timeout=PATIENCE_S) == 0, self.process.returncode


def test_three_machines_by_hand():
    key, configuration = commands_of("Three machines")[:2]
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        addresses = [f"127.0.0.{n}:{raw.free_ports(1, f'127.0.0.{n}')[0]}" for n in (1, 2, 3)]
        machines = [Machine(folder, n, addresses) for n in (1, 2, 3)]
        for machine in machines:
            machine.types(key.splitlines()[0])
        machines[0].types(key)
        for machine in machines:
            machine.types(configuration)
            machine.starts()
        for machine in machines:
            raw.wait_for(machine.sees_all, 60)
        hello = os.path.join(machines[0].root, "etc/nigh/nodes")
        put = machines[0].nigh("put", "hello", hello)
        got = machines[2].nigh("get", "hello")
        with open(hello, encoding="ascii") as file:
            assert (put.returncode, got.returncode, got.stdout) == (0, 0, file.read()), (put.stderr, got.stderr)
        for machine in machines:
            machine.ends()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
