#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A minimal peer over Unix datagrams, 1 to N. It implements docs/protocols/harness.md.

Its variants test that the runner reports faults of peers:
  sound         has no fault
  forgets       loses samples and does not notice
  tears         damages samples
  dies          exits while it sends
  fails         fails at the end
  silent        closes its output and prints nothing
  leaves        leaves a process behind
  loses         loses messages on purpose; its ping-pong continues after a loss
  kept          has a keeper
  orphans       has a keeper that is killed
  confirmed     has a latency tool with a correct result
  contradicted  has a latency tool with a wrong result
  loopback      sends UDP datagrams over the loopback interface
  large         as loopback; each process holds 256 MiB of memory
  shared        has its sockets in /dev/shm
"""

import json
import os
import socket
import struct
import sys
import time
import zlib

HEAD = struct.Struct("<QQQQ")
MAGIC = int.from_bytes(b"drvbench", "little")
END = int.from_bytes(b"drvbend!", "little")
# Directory next to the program. It gets a file for each process or file that a variant leaves
# behind.
LEFT_BEHIND = os.path.join(os.path.dirname(sys.argv[0]), "left")


def describe():
    def variant(name, **more):
        return {
            "name": name,
            "title": f"Unix datagrams, {name}",
            "reach": ["host"],
            "waits": ["block"],
            "reliability": ["best_effort"],
            "loans": False,
            "min_size": 32,
            "max_size": 65536,
            "max_subscribers": 16,
            "settings": [{"name": "SO_SNDBUF", "value": "default", "why": "small messages"}],
            **more,
        }

    names = ["sound", "forgets", "tears", "dies", "fails", "silent", "leaves", "loses"]
    return {
        "protocol": 1,
        "name": os.path.basename(sys.argv[0]),
        "title": "Test peer",
        "version": "0",
        "variants": [variant(n) for n in names]
        + [
            variant("kept", keeper=True),
            variant("orphans", keeper=True),
            variant("confirmed", own_tool="perf", keeper=True),
            variant("contradicted", own_tool="perf", tuning=True),
            variant("loopback", tuning=True, max_size=32768),
            variant("large", max_size=32768),
            variant("shared", tuning=True, needs_pod=True),
        ],
    }


def emit(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


class Link:
    def __init__(self, job):
        self.job, self.variant = job, job["system"].split("/")[1]
        self.is_udp = self.variant in ("loopback", "large")
        # Filled, so that it is resident.
        self.held = b"\xff" * (256 << 20) if self.variant == "large" else b""
        family = socket.AF_INET if self.is_udp else socket.AF_UNIX
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.next = self.expected = 1
        self.sent, self.got, self.arrivals = [], [], 0
        self.bound = None
        self.end = {
            "role": job["role"],
            "index": job["index"],
            "published": 0,
            "first_sequence": 1,
            "received": 0,
            "missed": 0,
            "verified": 0,
            "mismatches": [],
            "mismatched": 0,
            "not_sent": {},
        }

    def path(self, direction, index):
        name = f"{self.job['topic']}.{direction}.{index}"
        if self.variant == "shared":
            run = os.path.basename(os.path.dirname(self.job["domain_dir"]))
            return f"/dev/shm/driveline-test-{run}-{name}"
        return f"{self.job['domain_dir']}/{name}"

    def listen(self, direction, index):
        path = self.path(direction, index)
        if not self.is_udp:
            self.socket.bind(path)
            self.bound = path
            return
        self.socket.bind(("127.0.0.1", 0))
        with open(f"{path}.part", "w") as file:
            file.write(str(self.socket.getsockname()[1]))
        os.rename(f"{path}.part", path)

    def address(self, direction, index):
        path = self.path(direction, index)
        if not self.is_udp:
            return path
        with open(path) as file:
            return ("127.0.0.1", int(file.read()))

    def await_receivers(self, direction, count):
        deadline = time.monotonic() + 60
        while not all(os.path.exists(self.path(direction, i)) for i in range(count)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} receivers did not come within 60 s")
            # time: a pause between polls
            time.sleep(0.001)

    def send(self, direction, count, scheduled=0, mark=MAGIC):
        sequence, self.next = self.next, self.next + 1
        if self.variant == "dies" and sequence == 4:
            os._exit(7)
        body = bytes([sequence % 251]) * (self.job["size"] - HEAD.size)
        before_fill = time.monotonic_ns()
        data = HEAD.pack(mark, sequence, self.job["size"], zlib.crc32(body)) + body
        if self.variant == "tears" and sequence % 3 == 0:
            data = data[:-1] + b"\xff"
        before_publish = time.monotonic_ns()
        if not (self.variant == "forgets" and sequence % 5 == 0):
            for i in range(count):
                self.socket.sendto(data, self.address(direction, i))
        self.end["published"] += 1
        if self.job["pace"] == "ping_pong" and self.job["payload"] != "filled":
            before_publish = 0
        return [sequence, scheduled, before_fill, before_publish, time.monotonic_ns()]

    def is_dropped(self):
        """Returns true if the question or answer that arrived is dropped on purpose."""
        self.arrivals += 1
        return self.job.get("lose_every", 0) > 0 and self.arrivals % self.job["lose_every"] == 0

    def receive(self):
        data = self.socket.recv(65536)
        in_hand = time.monotonic_ns()
        mark, sequence, length, check = HEAD.unpack_from(data)
        self.end["received"] += 1
        # The variant `forgets` does not notice its losses.
        if self.variant != "forgets":
            self.end["missed"] += sequence - self.expected
        self.expected = sequence + 1
        read = 0
        if self.job["payload"] == "filled" and mark != END:
            self.end["verified"] += 1
            if length != len(data) or check != zlib.crc32(data[HEAD.size :]):
                self.end["mismatched"] += 1
                self.end["mismatches"] = [f"sample {sequence}: the checksum does not fit"]
            read = time.monotonic_ns()
        return mark == END, [sequence, in_hand, in_hand, 0, read]

    def finish(self):
        for name, rows in (("sent", self.sent), ("received", self.got)):
            if rows:
                path = f"{self.job['raw_dir']}/{self.job['role']}-{name}-{self.job['index']}.rows"
                with open(path, "wb") as file:
                    file.writelines(struct.pack("<5Q", *row) for row in rows)
                self.end[f"{name}_file"] = path
        if self.variant == "shared" and self.bound:
            os.remove(self.bound)
        emit("done", ends=[self.end])


def publisher(link, job):
    link.await_receivers("out", job["subscribers"])
    link.send("out", job["subscribers"])
    # time: a pause before the first sample, as real peers need it
    time.sleep(0.05)
    link.end["counted_from"] = link.next + job["warm_up"]
    start = time.monotonic_ns()
    for i in range(job["warm_up"] + job["messages"]):
        due = start + int(i * 1e9 / job["pace"]["rate_hz"])
        # time: paces the publisher
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        link.sent.append(link.send("out", job["subscribers"], due))
    # time: a pause after the last sample, as real peers need it
    time.sleep(0.1)
    if link.variant == "forgets" and link.next % 5 == 0:
        link.next += 1
    link.send("out", job["subscribers"], mark=END)


def subscriber(link, job):
    link.listen("out", job["index"])
    emit("ready")
    first = True
    while True:
        last, row = link.receive()
        if last:
            return
        if first:
            link.end["first_sample_ns"], first = row[2], False
        else:
            link.got.append(row)


def ping(link, job):
    link.listen("back", 0)
    emit("ready")
    link.await_receivers("forth", 1)
    link.receive()
    link.end["verified"] = 0  # The greeting does not count as a round.
    for i in range(job["warm_up"] + job["messages"]):
        link.sent.append(link.send("forth", 1))
        link.got.append(link.receive()[1])
        if link.variant == "confirmed":
            # A constant latency of 200 µs, so that the result of the tool is correct.
            link.got[-1][2] = link.sent[-1][2] + 200_000


def ping_that_loses(link, job):
    link.listen("back", 0)
    emit("ready")
    link.await_receivers("forth", 1)
    link.receive()
    link.end.update(verified=0, unanswered=0, late=0, counted_from=1 + job["warm_up"])
    for i in range(job["warm_up"] + job["messages"]):
        link.sent.append(link.send("forth", 1))
        question, deadline = link.sent[-1][0], time.monotonic() + job["answer_timeout_ms"] / 1000
        while True:
            link.socket.settimeout(max(deadline - time.monotonic(), 1e-6))
            counts = dict(link.end)
            try:
                _, row = link.receive()
            except TimeoutError:
                link.end["unanswered"] += 1
                break
            if row[0] < question + 1:
                link.end = {
                    **counts,
                    "received": counts["received"] + 1,
                    "late": counts["late"] + 1,
                }
            elif link.is_dropped():
                link.end = counts
            else:
                link.got.append(row)
                break
    link.end["missed"] = 0
    link.send("forth", 1, mark=END)


def echo_that_loses(link, job):
    link.listen("forth", 0)
    emit("ready")
    link.await_receivers("back", 1)
    link.send("back", 1)
    link.socket.settimeout(25)
    while True:
        counts, expected = dict(link.end), link.expected
        last, row = link.receive()
        if last:
            return
        if link.is_dropped():
            link.end, link.expected = counts, expected
            continue
        link.got.append(row)
        link.next = row[0] + 1
        link.sent.append(link.send("back", 1))


def own_tool(job):
    confirmed = job["system"].endswith("/confirmed")
    result = {
        "name": "perf",
        "version": "3",
        "p50_ns": 105_000 if confirmed else 1,
        "p99_ns": None,
        "mean_ns": 110_000,
        "n": job["messages"],
    }
    emit("done", ends=[{"role": "own_tool", "own_tool": result, "unset": ["a wish of the tool"]}])


def echo(link, job):
    link.listen("forth", 0)
    emit("ready")
    link.await_receivers("back", 1)
    link.send("back", 1)
    for i in range(job["warm_up"] + job["messages"]):
        link.got.append(link.receive()[1])
        link.sent.append(link.send("back", 1))


def keeper(job):
    with open(f"{job['domain_dir']}/kept", "w") as file:
        file.write("here")
    if job["system"].endswith("/orphans"):
        name = f"driveline-test-{os.getpid()}"
        with open(f"{job['domain_dir']}/shared-memory-test", "w") as file:
            file.write(f"{name} {name}_lock\n")
        for path in (
            f"/dev/shm/{name}",
            f"/dev/shm/{name}_lock",
            f"{LEFT_BEHIND}/{name}",
        ):
            open(path, "w").close()
        emit("ready")
        os.kill(os.getpid(), 9)
    emit("ready")
    sys.stdin.readline()
    os.remove(f"{job['domain_dir']}/kept")
    emit("done", ends=[])


def leave_a_process():
    """Starts a process that does not end, and waits until it has noted itself."""
    read, write = os.pipe()
    if os.fork() == 0:
        open(f"{LEFT_BEHIND}/{os.getpid()}", "w").close()
        os.write(write, b"noted")
        # time: sleeps until it is killed
        time.sleep(3600)
    os.close(write)
    os.read(read, 5)


def main():
    if sys.argv[1:] == ["--describe"]:
        print(json.dumps(describe()))
        return 0
    job = json.loads(sys.stdin.readline())
    try:
        if job["role"] == "keeper":
            keeper(job)
            return 0
        if job["system"].endswith(("/kept", "/confirmed")) and not os.path.exists(
            f"{job['domain_dir']}/kept"
        ):
            raise FileNotFoundError("the keeper has not started")
        if job["role"] == "own_tool":
            own_tool(job)
            return 0
        if job["system"].endswith("/silent"):
            os.close(1)
            # time: sleeps until it is killed
            time.sleep(3600)
        if job["system"].endswith("/leaves"):
            leave_a_process()
        link = Link(job)
        roles = {"publisher": publisher, "subscriber": subscriber, "ping": ping, "echo": echo}
        if link.variant == "loses":
            roles.update(ping=ping_that_loses, echo=echo_that_loses)
        roles[job["role"]](link, job)
        link.finish()
        if link.variant == "fails" and job["role"] in ("publisher", "ping"):
            print("the daemon does not answer", file=sys.stderr)
            return 3
        return 0
    except Exception as e:  # Reports any error to the runner.
        emit("failed", error=f"{type(e).__name__}: {e}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
