#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the example's README, and checks their output and their log files.

One command is changed: instead of the pause, the script waits until the hosts have found each
other.

Usage: check_two_hosts.py BIN LIBRARIES
  BIN        directory of `driveline`
  LIBRARIES  directory of libfirst_component.so
DRIVELINE_GATEWAY names the gateway. Needs root, for network namespaces.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
BEGIN, END = "<!-- commands:begin -->\n```\n", "```\n<!-- commands:end -->"
TIME_OUT = 180
PAUSE = "\nsleep 4\n"
# Waits for the end of the run under the roof.
WAIT = "\nwait %2\n"
ENDED = "@ended"


class CheckError(Exception):
    """A failed check; the text describes it for the user."""


def commands():
    text = (HERE / "README.md").read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise CheckError("README.md must hold one block of commands between its markers")
    return text.split(BEGIN)[1].split(END)[0]


def must(condition, what, output):
    if not condition:
        raise CheckError(f"{what}; this was printed:\n{output}")


def check(output, roof, trunk):
    """Checks the output of the commands, and the logs of both runs."""
    ages = [int(us) for us in re.findall(r"% edges, picture is (-?\d+) us old", roof)]
    # 1000 images take 20 s, and five results come back per second.
    must(25 <= len(ages) <= 150, f"expected about 100 results, but {len(ages)} came back", roof)
    must(min(ages) >= 0, "a picture is from the future: the clocks are not translated", roof)
    must(
        "ended: 'pattern' has finished" in roof,
        "the run under the roof does not end as it should",
        roof,
    )
    must(
        "host 'roof' is gone" in trunk,
        "the gateway in the trunk does not report that the roof is gone",
        trunk,
    )
    during, after = output.split(ENDED)
    check_list_during_run(during, output)
    for listed, what in ((during, "lanes"), (after, "pictures")):
        must(
            re.search(r"the newest took -?[\d.]+ ms ± [\d.]+ ms", listed),
            f"the age of the newest of the {what} and its error are not reported",
            output,
        )
    must(
        re.search(r"trunk\.[0-9a-f]{16}\s+there for", during),
        "the other host is not shown",
        output,
    )
    must(
        re.search(r"roof\.[0-9a-f]{16}\s+gone for", after),
        "the trunk's gateway does not report that the roof is gone",
        output,
    )


def check_list_during_run(listed, output):
    """Checks the roof's `gateway list --explain` while both runs are going."""
    for topic, route in (
        ("camera/image", "→ trunk (best effort, volatile): "),
        ("perception/lanes", "← trunk, published there by 'lane'"),
    ):
        must(
            topic in listed and route in listed,
            f"`gateway list --explain` does not report that '{topic}' is carried",
            output,
        )
    must(
        re.search(r"→ trunk \(.*\): [1-9][\d.]* samples/s", listed),
        "the list shows no rate",
        output,
    )
    clock = re.search(r"trunk\.[0-9a-f]{16}\s+there for.*?\s(-?[\d.]+ ms) ± ([\d.]+ ms)", listed)
    must(clock, "the other host is shown without its clock offset and the error of it", output)
    offset, error = (float(text.split()[0]) for text in clock.groups())
    # Two namespaces of one machine have one clock.
    must(
        0 < error < 100 and abs(offset) <= error,
        f"the clock offset is {offset} ± {error} ms instead of 0",
        output,
    )


def adapted_script(bin_dir, logs):
    """Returns the README's commands with the programs and log files of this test."""
    tool = bin_dir / "driveline"
    script = commands().replace("build/bin/driveline", str(tool))
    carries = (
        f"examples/two_hosts/hosts.sh on roof {tool} gateway list"
        " | grep -q '→ trunk *carried'"
    )
    for line in (PAUSE, WAIT):
        must(script.count(line) == 1, f"the README has no `{line.strip()}`", script)
    script = script.replace(PAUSE, f"\nuntil {carries}; do sleep 0.2; done\n")
    script = script.replace(WAIT, f"{WAIT}echo {ENDED}\n")
    for log in logs:
        must(script.count(f"> {log.name} 2>&1") == 1, f"the README writes no {log.name}", script)
        script = script.replace(f"> {log.name}", f"> {log}")
    return script


def main():
    bin_dir, libraries = (Path(a).resolve() for a in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        logs = [Path(scratch) / name for name in ("roof.log", "trunk.log")]
        script = adapted_script(bin_dir, logs)
        environment = os.environ | {
            "DRIVELINE_COMPONENT_PATH": str(libraries),
            "TWO_HOSTS": f"dl{os.getpid()}",
            "TMPDIR": scratch,
        }
        out = Path(scratch) / "output"
        try:
            with out.open("w") as to:
                # -m: `wait %2` needs job control. -e: the first failure ends the script.
                done = subprocess.run(
                    ["bash", "-e", "-m", "-c", script],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=to,
                    stderr=to,
                    timeout=TIME_OUT,
                )
            output = out.read_text()
            must(
                done.returncode == 0,
                f"the commands of the README end with status {done.returncode}",
                output,
            )
            check(output, *(log.read_text() for log in logs))
        except subprocess.TimeoutExpired as e:
            raise CheckError(
                f"the commands of the README take longer than {TIME_OUT} s; "
                f"this was printed:\n{out.read_text()}"
            ) from e
        finally:
            subprocess.run([HERE / "hosts.sh", "down"], env=environment, capture_output=True)
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CheckError as e:
        print(f"error: {e}", file=sys.stderr)
        print("0 passed, 1 failed")
        sys.exit(1)
