# SPDX-License-Identifier: Apache-2.0
"""What tests in the guest have in common: checks that are made one after the other, and what is told of them. TAP."""
import json
import os
import subprocess
import time

KERNEL_LINES = 160  # of the guest's kernel, that a failure shows: who died of what, what memory there was


def kept():
    """What the kernel has of all devices."""
    shown = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], check=True, stdout=subprocess.PIPE).stdout)
    return {what: sum(device.get(what, 0) for device in shown) for what in ("qp", "cm_id", "mr")}


def counted(device, what):
    """By a device, since it is there, under this name of the kernel's."""
    with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{what}", encoding="ascii") as file:
        return int(file.read())


def kernel_said():
    """The last lines of the guest's kernel, and the memory that is left."""
    lines = []
    with open("/dev/kmsg", "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as ring:
        while line := ring.read(8192):
            lines.append(line.decode(errors="replace").split(";", 1)[-1].split("\n", 1)[0])
    with open("/proc/meminfo", encoding="ascii") as file:
        return "\n".join(lines[-KERNEL_LINES:]) + "\n" + " ".join(" ".join(line.split()) for line in list(file)[:24])


def check_all(checks, fates, *given):
    """Makes the checks, with what is given, until one fails: what fates() says is then told. How many failed."""
    for number, check in enumerate(checks, 1):
        name = check.__name__[6:].replace("_", " ")
        begun = time.monotonic()
        try:
            check(*given)
        except (AssertionError, ValueError, OSError, subprocess.SubprocessError) as problem:
            print(f"not ok {number} - {name}")
            for line in "\n".join((repr(problem), *fates(), repr(kept()), kernel_said())).splitlines():
                print("# " + line)
            return 1
        print(f"ok {number} - {name}\n# {time.monotonic() - begun:.1f} s; {kept()}", flush=True)
    return 0
