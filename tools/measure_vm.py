#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests that need a special machine in qemu.

The machine has two NUMA nodes, an isolated core and Debian's PREEMPT_RT kernel.

Usage: measure_vm.py [--tcg] [FILTER]    FILTER: only tests with this in their names
       --tcg emulates the processors instead of using KVM: slow, for function only

The machine has no disk: it boots a kernel from Debian's archive (kept in build/vm) and an initial
file system with the test program. Nothing is installed. Without KVM, qemu or Debian's archive the
program prints the reason and the remedy, and exits with 0.
Packages: qemu-system-x86 busybox-static cpio. Exit codes: 0 passed or skipped, 1 failed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/vm"
KERNEL = PLACE / "vmlinuz"
META_PACKAGE = "linux-image-rt-amd64"
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
RESULT = "MACHINE-RESULT:"
# Only a machine that hangs reaches these limits: for the whole run, and for the start.
LONGEST_S = 600
START_S = 60
MEMORY_MIB = 1024

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mkdir -p /dev/shm /dev/pts
/bin/busybox mount -t tmpfs none /dev/shm
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp RUST_BACKTRACE=0
nodes=$(cat /sys/devices/system/node/online)
isolated=$(cat /sys/devices/system/cpu/isolated)
echo "machine: $(uname -r) $(uname -v), nodes $nodes, isolated $isolated"
{program} --include-ignored --nocapture --test-threads=1 {filter}
echo "{result} $?"
poweroff -f
"""


def skipped(why, remedy):
    print(f"SKIPPED: measure-vm: {why}; {remedy}")
    sys.exit(0)


def check(emulates):
    absent = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if absent:
        skipped(f"{', '.join(absent)} not installed", f"`apt-get install {' '.join(absent)}`")
    if not emulates and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        skipped(
            "/dev/kvm is not usable",
            "run it on a machine with KVM, as a user of the group kvm, or with --tcg",
        )


def output(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def fetch_kernel():
    if KERNEL.exists():
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        package = re.search(
            r"Depends: (linux-image-\S+-rt-amd64)", output("apt-cache", "depends", META_PACKAGE)
        )
        if package is None:
            skipped(
                f"the archive has no {META_PACKAGE}", "use Debian's archive, and `apt-get update`"
            )
        output("apt-get", "download", package[1], cwd=PLACE)
    except subprocess.CalledProcessError as e:
        skipped(
            f"{META_PACKAGE} cannot be fetched: {e.stderr.strip()[-200:]}",
            "`apt-get update`, with a network",
        )
    archive = next(PLACE.glob("linux-image-*.deb"))
    subprocess.run(
        f"dpkg-deb --fsys-tarfile {archive} | tar -x -C {PLACE} --wildcards './boot/vmlinuz-*'",
        shell=True,
        check=True,
    )
    archive.unlink()
    next((PLACE / "boot").glob("vmlinuz-*")).rename(KERNEL)


def build():
    """Builds and returns the test program and the host that it starts."""
    words = [
        "cargo",
        "test",
        "--locked",
        "-p",
        "driveline-runtime",
        "--test",
        "real_time",
        "--no-run",
        "--message-format=json",
    ]
    found = {}
    for line in output(*words, cwd=ROOT).splitlines():
        message = json.loads(line)
        if message.get("executable"):
            found[message["target"]["name"]] = Path(message["executable"])
    return found["real_time"], found["driveline-test-host"]


def file_system(program, host, filter):
    """Returns an archive with the two programs and their libraries.

    The archive has them at the same paths as this machine, because the path of the host is compiled
    into the test program.
    """
    root = PLACE / "root"
    shutil.rmtree(root, ignore_errors=True)
    libraries = re.findall(r"(/\S+) \(0x", output("ldd", str(program)) + output("ldd", str(host)))
    for file in [program, host, *map(Path, sorted(set(libraries)))]:
        inside = root / file.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, inside)
        if file in (program, host):
            subprocess.run(["strip", inside], check=False)
    (root / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    init = root / "init"
    init.write_text(INIT.format(program=program, filter=filter, result=RESULT))
    init.chmod(0o755)
    archive = PLACE / "root.cpio"
    with archive.open("wb") as to:
        files = subprocess.run(
            ["find", ".", "-print0"], cwd=root, check=True, capture_output=True
        ).stdout
        subprocess.run(
            ["cpio", "--null", "--create", "--format=newc", "--quiet"],
            cwd=root,
            input=files,
            stdout=to,
            check=True,
        )
    shutil.rmtree(root)
    return archive


def machine(archive, emulates):
    half = MEMORY_MIB // 2
    # Nested KVM rejects the register that `arch-capabilities` sets.
    processor = (
        ["-accel", "tcg,thread=multi"]
        if emulates
        else ["-enable-kvm", "-cpu", "host,-arch-capabilities"]
    )
    return [
        *[
            "qemu-system-x86_64",
            *processor,
            "-display",
            "none",
            "-serial",
            "stdio",
            "-nic",
            "none",
            "-no-reboot",
        ],
        *["-smp", "4,sockets=2,cores=2", "-m", f"{MEMORY_MIB}M"],
        *[
            "-object",
            f"memory-backend-ram,id=m0,size={half}M",
            "-numa",
            "node,nodeid=0,cpus=0-1,memdev=m0",
        ],
        *[
            "-object",
            f"memory-backend-ram,id=m1,size={half}M",
            "-numa",
            "node,nodeid=1,cpus=2-3,memdev=m1",
        ],
        *[
            "-kernel",
            str(KERNEL),
            "-initrd",
            str(archive),
            "-append",
            "console=ttyS0 quiet panic=-1 no_timer_check isolcpus=3",
        ],
    ]


def main():
    arguments = [a for a in sys.argv[1:] if a != "--tcg"]
    emulates = len(arguments) < len(sys.argv) - 1
    filter = arguments[0] if arguments else ""
    if filter.startswith("-"):
        print(__doc__)
        return 0
    check(emulates)
    fetch_kernel()
    archive = file_system(*build(), filter)
    code, started = None, False
    try:
        # A machine that hangs prints nothing more, so reading alone would never end.
        words = ["timeout", "--kill-after=10", str(LONGEST_S), *machine(archive, emulates)]
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as qemu:
            start = threading.Timer(START_S, qemu.terminate)
            start.start()
            for line in qemu.stdout:
                line = re.sub(r"\x1b\S*", "", line).rstrip()
                if line.startswith("machine: "):
                    started = True
                    start.cancel()
                if line.startswith(RESULT):
                    code = int(line.removeprefix(RESULT))
                else:
                    print(line, flush=True)
            start.cancel()
    finally:
        archive.unlink(missing_ok=True)
    if not started and not emulates:
        skipped(
            f"the machine has not started within {START_S} s: KVM does not work here",
            "run it elsewhere, or with --tcg",
        )
    if code is None:
        print(
            f"measure_vm.py: the machine ended without a result, or hung for {LONGEST_S} s",
            file=sys.stderr,
        )
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
