#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of modules in containers, with Podman and, where it is installed, with Docker's client.

Podman uses a storage of its own. Needs root, podman, and the programs that `make test-containers`
builds. Leaves no container, no image and no directory.

Usage: test_containers.py [NAME...]
       runs the functions here and in test_containers_lab.py whose names contain a NAME; without
       names, all
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import test_containers_lab
from container_place import BIN, Fault, PATIENCE, PYTHON, Place, check, summary, wait
from usage import answer_help


def test_each_module_runs_in_a_container_with_few_rights_and_nothing_stays(place):
    report = place.directory / "report"
    graph = place.graph(source="memory: 64 MiB", sink="cpus: [0]")
    with place.run(graph, "--deploy", "containers", "--report", report) as run:
        run.wait_for("printer got 3")
        check(len(place.containers()) == 3, "three containers")
        for module in ("source", "step", "sink"):
            inspected = json.loads(place.podman("inspect", place.module(module)))[0]
            config = inspected["HostConfig"]
            check(config["ReadonlyRootfs"], "the root is read-only")
            most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 1 << 20)
            files = [u for u in config["Ulimits"] if u["Name"] == "RLIMIT_NOFILE"]
            check([u["Hard"] for u in files] == [most], f"limits are the launcher's: {files}")
            check(
                not inspected["EffectiveCaps"] and not inspected["BoundingCaps"],
                "there are no capabilities",
            )
            check("no-new-privileges" in config["SecurityOpt"], "there are no new privileges")
            check(
                config["NetworkMode"] == "none" and config["PidMode"] == "private",
                "namespaces are private",
            )
            check(
                config["IpcMode"] != "host" and not config["Privileged"], "namespaces are private"
            )
            check(inspected["Config"]["User"] == "65532:65532", "the user is not root")
            check(config["RestartPolicy"]["Name"] in ("", "no"), "the engine restarts nothing")
            shared = [m["Source"] for m in inspected["Mounts"] if m["RW"]]
            check(
                len(shared) == 1 and shared[0].endswith("/domain"),
                f"only the domain can be written: {shared}",
            )
        # A module can connect before the client that has started it ends.
        wait(lambda: not engine_clients(), "a client of the engine stays")
        run.end()
    modules = {m["module"]: m for m in summary(report)["modules"]}
    for m in modules.values():
        check(
            m["image"].startswith("localhost/driveline/counting:")
            and m["digest"].startswith("sha256:"),
            f"{m}",
        )
        check(m["user"] == 65532 and m["memory_peak"] > 0 and m["waits"] == "futex_waitv", f"{m}")
    check(
        modules["source"]["memory_limit"] == 64 << 20 and modules["sink"]["cpus"] == "0",
        f"{modules}",
    )
    place.check_that_nothing_stays()


def engine_clients():
    """Returns the process ids of the engine's clients on this machine."""
    found = subprocess.run(["pgrep", "-x", "podman"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_all_modules_in_one_container_are_one_run(place):
    report = place.directory / "report"
    graph = place.graph()
    with place.run(graph, "--deploy", "container", "--report", report) as run:
        run.wait_for("printer got 3")
        check(len(place.containers()) == 1, "one container")
        run.end()
    check(len({m["container"] for m in summary(report)["modules"]}) == 1, "one container")
    place.check_that_nothing_stays()


def test_the_end_of_a_source_ends_the_run_as_bare(place):
    report = place.directory / "report"
    text = place.driveline(
        "run",
        place.graph(),
        "--deploy",
        "containers",
        "--set",
        "counter.limit=100",
        "--report",
        report,
    )
    check("'counter' has finished" in text and "printer got 100" in text, text)
    check(summary(report)["published"]["a"] == 100, "every sample is in the report")


def test_killed_containers_are_started_again_and_their_gaps_are_in_the_report(place):
    report = place.directory / "report"
    with place.run(place.graph(), "--deploy", "containers", "--report", report) as run:
        run.wait_for("printer got 3")
        for number, module in enumerate(("step", "sink"), 1):
            place.podman("kill", place.module(module))
            run.wait_for("works again", number)
        run.end()
    faults = summary(report)["faults"]
    check([f["module"] for f in faults] == ["step", "sink"], f"{faults}")
    check("container was killed" in run.text(), run.text())


def test_a_killed_launcher_leaves_no_container_and_clean_removes_the_rest(place):
    for deployment, containers in (("containers", 3), ("container", 1)):
        with place.run(place.graph(), "--deploy", deployment) as run:
            run.wait_for("printer got 3")
            living = place.directories()
            cleaned = place.driveline("deploy", "clean")
            check("a launcher runs" in cleaned, "a living run is left alone")
            check(
                place.directories() == living and len(place.containers()) == containers,
                "a living run is left alone",
            )
            run.process.kill()
            run.process.wait()
            wait(lambda: not place.containers(), f"{deployment}: it outlives its launcher")
        check(place.directories() == living, "the directory stays")
        place.driveline("deploy", "clean")
        check(not place.directories(), "clean removes it")


def test_a_memory_limit_is_named_as_the_cause(place):
    graph = place.graph(step="memory: 48 MiB")
    with place.run(graph, "--deploy", "containers", "--set", "relay.fill_on=20") as run:
        run.wait_for("reached its memory limit")
        run.wait_for("works again")
        run.end()
    check("module 'step' was killed by SIGKILL" in run.text(), run.text())
    check(
        not (place.directory / "oom").exists(),
        "the engine writes nothing where the run was started",
    )


def test_a_user_per_module_needs_no_open_access(place):
    graph = place.graph(source="user: 1001", step="user: 1002", sink="user: 1003")
    place.driveline("run", graph, "--deploy", "containers", "--set", "counter.limit=50")


def test_work_that_was_not_done_is_exit_code_6_as_bare(place):
    text = place.driveline(
        "run",
        place.graph(),
        "--deploy",
        "containers",
        "--set",
        "counter.limit=50",
        "--set",
        "relay.fail_on=5",
        code=6,
    )
    check("work was not done" in text and "relay" in text, text)


def test_an_access_that_excludes_a_user_is_refused_before_the_start(place):
    graph = place.graph(source="user: 1001", step="user: 1002")
    stated = graph.read_text()
    for access in ("{users: [4242]}", "own_user"):
        graph.write_text(
            stated.replace("a: {reach: host, ", f"a: {{reach: host, access: {access}, ")
        )
        text = place.driveline(
            "run", graph, "--deploy", "containers", "--set", "counter.limit=50", code=3
        )
        check("`source` runs as user 1001, which the `access` of topic `a`" in text, text)
        check("add the user to the `access` of `a`" in text, text)


def test_ends_that_do_not_share_a_directory_are_an_error_with_place_and_remedy(place):
    if not tool("podman-compose"):
        return "podman-compose is not installed"
    manifest = Manifest(place, "compose", bare=False)
    other = place.directory / "other"
    other.mkdir()
    os.chown(other, 65532, 65532)
    text = manifest.file.read_text()
    at = text.index("\n  sink:")
    manifest.file.write_text(
        text[:at] + text[at:].replace(f"{manifest.shared}/domain:", f"{other}:", 1)
    )
    try:
        compose = [tool("podman-compose"), "-f", manifest.file]
        manifest.run([*compose, "up", "--detach"])
        wait((manifest.report / "summary.json").exists, "the collector writes no report")
        name = place.podman(
            "ps",
            "--all",
            "--filter",
            "label=org.driveline.module=collector",
            "--format",
            "{{.Names}}",
        )
        check(place.podman("wait", name) == "6", "the collector ends with exit code 6")
        log = subprocess.run(
            ["podman", "logs", name],
            env=place.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        check("printer never" in log.stdout + log.stderr, log.stdout + log.stderr)
        check("directory" in log.stdout + log.stderr, log.stdout + log.stderr)
        manifest.run([*compose, "down"])
    finally:
        manifest.close()
    return None


def test_a_module_in_another_time_namespace_is_refused(place):
    host = place.directory / "host"
    host.write_text(
        '#!/bin/sh\ncase "$*" in *"--module source"*) '
        f'exec unshare --time --monotonic 1000 {BIN}/driveline-test-host "$@" ;; esac\n'
        f'exec {BIN}/driveline-test-host "$@"\n'
    )
    host.chmod(0o755)
    graph = place.graph()
    environment = {
        **place.environment,
        "DRIVELINE_HOST": str(host),
        "DRIVELINE_DOMAIN_DIR": str(place.directory / "domain-of-two-clocks"),
    }
    done = subprocess.run(
        [BIN / "driveline", "run", graph, "--set", "counter.limit=50"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    text = done.stdout + done.stderr
    check(
        done.returncode == 4 and "'source'" in text and "another time namespace" in text,
        f"{done.returncode}: {text}",
    )


def test_what_is_missing_is_explained_with_its_line(place):
    graph = place.graph(step="image: localhost/nothing:1", sink="mounts: [nowhere]")
    for command in (["validate"], ["run"]):
        text = place.driveline(*command, graph, "--deploy", "containers", code=3)
        check("podman has no image `localhost/nothing:1`" in text and "graph.yaml:1" in text, text)
        check("nowhere does not exist" in text, text)
    check(not place.directories(), "nothing was made")


def test_an_image_without_a_host_program_is_named(place):
    empty = place.directory / "empty.tar"
    subprocess.run(["tar", "cf", empty, "-C", place.directory, "lib"], check=True)
    place.podman("import", str(empty), "localhost/empty:1")
    graph = place.graph(step="image: localhost/empty:1")
    text = place.driveline("run", graph, "--deploy", "containers", code=4)
    check("driveline-host" in text and "'step'" in text, text)
    place.check_that_nothing_stays()


def test_two_builds_have_one_digest_and_a_change_moves_only_its_module(place):
    def digests():
        built = place.driveline("deploy", "build", graph, "--json")
        return {m["module"]: m["digest"] for m in json.loads(built[built.index("[") :])}

    graph = place.graph()
    graph.write_text(
        graph.read_text().replace("library: lib, class: Relay", "library: lib2, class: Relay")
    )
    (place.directory / "lib2").write_text("one")
    first = digests()
    check(first == digests(), "the same files give the same digests")
    (place.directory / "lib2").write_text("two")
    second = digests()
    changed = [m for m in first if first[m] != second[m]]
    check(changed == ["step"], f"only one changes: {changed}")


def test_an_image_of_ones_own_begins_with_the_base_image(place):
    built = place.driveline("deploy", "base", "--json")
    base = json.loads(built[built.index("{") :])
    check(
        base
        == json.loads((again := place.driveline("deploy", "base", "--json"))[again.index("{") :]),
        "two builds have one digest",
    )
    sources = place.directory / "lane"
    sources.mkdir()
    place.driveline("deploy", "init", sources, "--library", "lane")
    text = place.driveline("deploy", "init", sources, "--library", "lane", code=1)
    check("Containerfile" in text and "remove it" in text, text)
    # Builds only the last stage, with empty outputs of the earlier stages, which need a registry
    # and a network.
    last = (
        (sources / "Containerfile")
        .read_text()
        .rsplit("\nFROM ", 1)[1]
        .replace("--from=closure /out/", "")
    )
    (sources / "lib").mkdir()
    (sources / "components").mkdir()
    (sources / "components" / "lib").touch()
    (sources / "Last").write_text(f"ARG BASE={base['image']}\nFROM {last}")
    place.podman(
        "build",
        "--quiet",
        "--tag",
        "localhost/own:1",
        "--file",
        str(sources / "Last"),
        str(sources),
    )
    graph = place.graph(step="image: localhost/own:1")
    place.driveline("run", graph, "--deploy", "containers", "--set", "counter.limit=50")


def test_dockers_client_does_the_same(place):
    if not shutil.which("docker"):
        return "docker's client is not installed"
    with podmans_service(place) as environment:
        place.environment["DOCKER_HOST"] = environment["DOCKER_HOST"]
        try:
            report = place.directory / "report"
            place.driveline(
                "run",
                place.graph(),
                "--deploy",
                "containers",
                "--engine",
                "docker",
                "--set",
                "counter.limit=50",
                "--report",
                report,
            )
            check(
                all(m["waits"] for m in summary(report)["modules"]),
                "the report says how threads wait",
            )
            place.check_that_nothing_stays()
        finally:
            place.environment.pop("DOCKER_HOST", None)
    return None


@contextlib.contextmanager
def podmans_service(place):
    """Starts Podman's service and yields the environment in which Docker's programs use it."""
    at = place.directory / "podman.sock"
    service = subprocess.Popen(
        ["podman", "system", "service", "--time", "0", f"unix://{at}"],
        env=place.environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait(at.exists, "podman's service does not start")
        yield {**place.environment, "DOCKER_HOST": f"unix://{at}"}
    finally:
        service.terminate()
        service.wait()
        at.unlink(missing_ok=True)


def tool(name):
    """Returns a program from tools/packages/containers_python.txt or of this machine, or None."""
    own = PYTHON / "bin" / name
    return str(own) if own.exists() else shutil.which(name)


class Manifest:
    """A graph of 50 samples as a manifest, with a user for one module.

    With `bare`, the graph also runs without containers, for comparison. With `port`, a gateway
    listens there and carries the first topic.
    """

    def __init__(self, place, kind, *options, bare=True, port=None):
        self.place = place
        self.shared = Path("/dev/shm") / f"{place.directory.name}-shared"
        self.report = place.directory / "report-deployed"
        (place.directory / "tuning.yaml").write_text("counter: { limit: 50 }\n")
        graph = place.graph(step="user: 1001")
        graph.write_text(
            graph.read_text()
            .replace("limit: 0, ", "")
            .replace("topics:", "params_files: [tuning.yaml]\ntopics:", 1)
        )
        if port:
            listen = f"network: {{host: roof, listen: [tcp/127.0.0.1:{port}]}}\ntopics:"
            graph.write_text(
                graph.read_text()
                .replace("topics:", listen, 1)
                .replace("a: {reach: host", "a: {reach: network", 1)
            )
        if bare:
            environment = {
                **place.environment,
                "DRIVELINE_DOMAIN_DIR": str(place.directory / "domain"),
            }
            subprocess.run(
                [BIN / "driveline", "run", graph, "--report", place.directory / "report-bare"],
                env=environment,
                capture_output=True,
                check=True,
                timeout=PATIENCE,
            )
        # Built each time: other tests build images of the same names from other libraries.
        place.driveline("deploy", "build", graph)
        shutil.rmtree(self.report, ignore_errors=True)
        printed = place.driveline(
            "deploy", kind, graph, "--directory", self.shared, "--report", self.report, *options
        )
        self.file = place.directory / f"{kind}.yaml"
        self.file.write_text(printed)

    def run(self, command, environment=None):
        done = subprocess.run(
            command,
            env=environment or self.place.environment,
            cwd=self.place.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        check(done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_report(self):
        wait((self.report / "summary.json").exists, "the collector writes no report")
        bare, deployed = summary(self.place.directory / "report-bare"), summary(self.report)
        for key in ("graph", "published", "ended", "problems", "failures"):
            check(bare[key] == deployed[key], f"{key}: {bare[key]} bare, and {deployed[key]} here")
        stages = [[s["stage"] for s in report["stages"]] for report in (bare, deployed)]
        check(stages[0] == stages[1], f"the same components: {stages}")
        check(
            all(m["memory_peak"] for m in deployed["modules"]),
            f"each module's memory is known: {deployed['modules']}",
        )

    def close(self):
        for kind in ("pod", "container"):
            subprocess.run(
                ["podman", kind, "rm", "--all", "--force"],
                env=self.place.environment,
                capture_output=True,
                check=False,
            )
        shutil.rmtree(self.shared, ignore_errors=True)


def test_compose_ends_with_the_report_of_a_bare_run(place):
    if not tool("podman-compose"):
        return "podman-compose is not installed"
    profile = place.directory / "seccomp.json"
    profile.write_text(place.driveline("deploy", "seccomp"))
    manifest = Manifest(place, "compose", "--seccomp", profile)
    try:
        compose = [tool("podman-compose"), "-f", manifest.file]
        manifest.run([*compose, "up", "--detach"])
        manifest.check_report()
        check(
            {m["waits"] for m in summary(manifest.report)["modules"]} == {"futex_waitv"},
            "the profile has futex_waitv",
        )
        manifest.run([*compose, "down"])
    finally:
        manifest.close()
    return None


def test_compose_restarts_a_killed_module_and_stops_the_collector_first(place):
    if not tool("podman-compose"):
        return "podman-compose is not installed"
    manifest = Manifest(place, "compose", "--set", "counter.limit=0", bare=False)
    try:
        compose = [tool("podman-compose"), "-f", manifest.file]
        manifest.run([*compose, "up", "--detach"])
        ready = ["podman", "exec", place.module("collector"), "driveline", "health"]
        manifest.run([*ready, "--wait", "ready"])
        first = int(place.podman("inspect", place.module("step"), "--format", "{{.State.Pid}}"))
        module = Path(f"/proc/{first}/task/{first}/children").read_text().split()[0]
        os.kill(int(module), signal.SIGKILL)
        status = ["podman", "exec", place.module("collector"), "driveline", "status", "--json"]

        def is_back():
            step = next(
                p for p in json.loads(manifest.run(status))["processes"] if p["name"] == "step"
            )
            return step["restarts"] == 1 and step["state"] == "ready"

        wait(is_back, "the engine does not start the module again")
        # podman-compose stops all containers at the same time.
        manifest.run([*compose, "stop", "collector"])
        manifest.run([*compose, "down"])
        faults = summary(manifest.report)["faults"]
        check(
            [f["module"] for f in faults] == ["step"],
            f"one fault, and none from the stop: {faults}",
        )
        check(summary(manifest.report)["ended"]["reason"] == "interrupted", "it was stopped")
    finally:
        manifest.close()
    return None


def test_the_collector_runs_the_gateway_of_a_graph(place):
    if not tool("podman-compose"):
        return "podman-compose is not installed"
    if not (BIN / "driveline-gateway-zenoh").exists():
        return "there is no driveline-gateway-zenoh: `make test-gateways` builds it"
    kept, port = reserved_port()
    manifest = Manifest(place, "compose", "--set", "counter.limit=0", bare=False, port=port)
    try:
        compose = [tool("podman-compose"), "-f", manifest.file]
        manifest.run([*compose, "up", "--detach"])
        collector = ["podman", "exec", place.module("collector"), "driveline"]
        manifest.run([*collector, "health", "--wait", "ready"])

        def carries():
            listed = json.loads(manifest.run([*collector, "gateway", "list", "--json"]))
            return any(t["topic"] == "a" for g in listed for t in g.get("topics", []))

        wait(carries, "the gateway carries no topic")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
            pass
        networks = [
            place.podman("inspect", place.module(name), "--format", "{{.HostConfig.NetworkMode}}")
            for name in ("collector", "source")
        ]
        check(networks == ["host", "none"], f"only the collector has a network: {networks}")
        manifest.run([*compose, "stop", "collector"])
        manifest.run([*compose, "down"])
        check(summary(manifest.report)["ended"]["reason"] == "interrupted", "it was stopped")
    finally:
        manifest.close()
        kept.close()
    return None


def reserved_port():
    """Returns a socket that reserves a TCP port of 127.0.0.1 until it is closed, and the port.

    The socket does not listen. A program can listen on the port if it sets `SO_REUSEADDR`, as Zenoh
    and programs in Go do. Without the socket, another program could take the port before.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept, kept.getsockname()[1]


def test_dockers_compose_ends_with_the_same_report(place):
    if not shutil.which("docker-compose"):
        return "docker-compose is not installed"
    manifest = Manifest(place, "compose")
    try:
        with podmans_service(place) as environment:
            compose = ["docker-compose", "-f", manifest.file]
            manifest.run([*compose, "config", "--quiet"], environment)
            manifest.run([*compose, "up", "--detach"], environment)
            manifest.check_report()
            manifest.run([*compose, "down"], environment)
    finally:
        manifest.close()
    return None


def test_pods_end_with_the_same_report(place):
    manifest = Manifest(place, "kubernetes", "--workload", "pods")
    try:
        manifest.run(["podman", "kube", "play", "--network", "none", manifest.file])
        manifest.check_report()
        manifest.run(["podman", "kube", "down", manifest.file])
    finally:
        manifest.close()


def test_kubernetes_takes_the_objects(place):
    if not tool("kubernetes-validate"):
        return "kubernetes-validate is not installed"
    for workload in ("deployments", "jobs", "pods"):
        manifest = Manifest(place, "kubernetes", "--workload", workload, bare=False)
        manifest.run([tool("kubernetes-validate"), "-k", "1.34", "--strict", manifest.file])
    return None


def test_images_are_pushed_pulled_by_digest_and_run(place):
    if not shutil.which("docker-registry"):
        return "docker-registry is not installed"
    kept, port = reserved_port()
    config = place.directory / "registry.yml"
    config.write_text(
        "version: 0.1\n"
        f'storage: {{filesystem: {{rootdirectory: "{place.directory}/registry"}}}}\n'
        f'http: {{addr: "127.0.0.1:{port}"}}\n'
    )
    registry = subprocess.Popen(
        ["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait(lambda: answers(port), "the registry does not start")
        name = f"127.0.0.1:{port}/pilot"
        built = place.driveline(
            "deploy",
            "build",
            place.graph(),
            "step",
            "--push",
            name,
            "--tag",
            "1.4",
            "--insecure",
            "--json",
        )
        pushed = json.loads(built[built.index("[") :])[0]
        check(pushed["pushed"] == f"{name}/step:1.4", f"{pushed}")
        # The local image is removed, so that the registry has to provide it.
        place.podman("rmi", "--all", "--force")
        manifest = json.loads(fetched(f"http://127.0.0.1:{port}/v2/pilot/step/manifests/1.4"))
        place.podman("pull", "--tls-verify=false", f"{name}/step:1.4")
        digest = json.loads(place.podman("image", "inspect", f"{name}/step:1.4"))[0]["Digest"]
        place.podman("rmi", "--all", "--force")
        place.podman("pull", "--tls-verify=false", f"{name}/step@{digest}")
        config = json.loads(place.podman("image", "inspect", f"{name}/step@{digest}"))[0]
        check(
            config["Id"] == manifest["config"]["digest"].removeprefix("sha256:"),
            "it is the image that was pushed",
        )
        labels = config["Labels"]
        check(
            labels["org.opencontainers.image.version"]
            and labels["org.opencontainers.image.revision"],
            f"{labels}",
        )
        graph = place.graph(step=f"image: '{name}/step@{digest}'")
        place.driveline("run", graph, "--deploy", "containers", "--set", "counter.limit=50")
    finally:
        registry.terminate()
        registry.wait()
        kept.close()
    return None


def answers(port):
    with contextlib.suppress(OSError):
        return fetched(f"http://127.0.0.1:{port}/v2/") is not None
    return False


def fetched(url):
    types = (
        "application/vnd.oci.image.manifest.v1+json, "
        "application/vnd.docker.distribution.manifest.v2+json"
    )
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Accept": types}), timeout=PATIENCE
    ) as answer:
        return answer.read()


def test_quadlet_makes_services_of_the_units(place):
    quadlet = next(
        (
            p
            for p in (
                os.environ.get("DRIVELINE_QUADLET"),
                "/usr/libexec/podman/quadlet",
                "/usr/lib/podman/quadlet",
            )
            if p and Path(p).exists()
        ),
        None,
    )
    if not quadlet:
        return "Podman's generator is not installed (Podman 4.4 and newer have it)"
    units = place.directory / "units"
    units.mkdir()
    place.driveline("deploy", "quadlet", place.graph(), "--output", units)
    generated = subprocess.run(
        [quadlet, "--dryrun", "--no-kmsg-log"],
        env={**place.environment, "QUADLET_UNIT_DIRS": str(units)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    for name in ("prepare", "collector", "source", "step", "sink"):
        check(
            f"---counting-{name}.service---" in generated.stdout,
            generated.stdout + generated.stderr,
        )
    check(
        generated.stdout.count("--cap-drop=all") == 5
        and generated.stdout.count("--network=none") == 5,
        generated.stdout,
    )
    return None


def main(names):
    if os.geteuid() != 0:
        sys.exit("test_containers: error: the separate storage of the containers needs root")
    functions = {**globals(), **vars(test_containers_lab)}
    tests = {
        name.removeprefix("test_"): function
        for name, function in functions.items()
        if name.startswith("test_") and callable(function)
    }
    wanted = {n: f for n, f in tests.items() if not names or any(name in n for name in names)}
    if not wanted:
        sys.exit(f"test_containers: error: no such test: {' '.join(names)}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="driveline-containers-") as directory:
        place = Place(directory)
        try:
            for name, test in wanted.items():
                began = time.monotonic()
                try:
                    left_out = test(place)
                    state = f"left out: {left_out}" if left_out else "ok"
                except (Fault, subprocess.SubprocessError, OSError, ValueError, KeyError) as fault:
                    state = f"FAILED: {fault}"
                    failed.append(name)
                print(f"{time.monotonic() - began:6.1f} s  {name}: {state}", flush=True)
        finally:
            place.close()
    print(f"containers: {len(wanted) - len(failed)} of {len(wanted)} tests passed")
    return 1 if failed else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
