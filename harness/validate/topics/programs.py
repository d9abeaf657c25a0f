"""Programs of machines: systemd units, where the control plane and etcd run, flags, health, and installed versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePath

from harness.spec.models.leaves import Tool
from harness.validate.expected import CONTROL_PLANE_PROGRAMS, LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.node import NodeFacts, Process
from harness.validate.facts.programs import MachineSetup, ProcessLimits, UnitSettings
from harness.validate.findings import Mismatch, differs, differs_upstream, on_every, same_set, together, unjudged
from harness.validate.layout import absent, etcd_is_used, running_proxies, runtime_of, static_by_facts

Facts = Mapping[str, NodeFacts]
JOURNAL = "systemd-journald.service"  # writes the logs of all others
SYSTEM_STATES = frozenset({"running", "degraded", "starting"})
NOWHERE = "no process of that name runs, and product.yml does not say how they run"
UNNAMED = "no process of that name shows one, and product.yml does not say what runs it"


def stopped_services(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services that do not run now or would not run after a reboot."""
    runtime = runtime_of(facts, expected)
    units = {"kubelet": expected.leaves.kubelet.unit, runtime or "the container runtime": expected.leaves.runtime_unit}

    def judge(program: str, unit_name: str | None, name: str, node: NodeFacts) -> Iterator[Mismatch]:
        service = unit_name or next((process.unit for process in node.running(program)), "")
        unit = node.units.get(service)
        states = (unit.active, unit.sub, unit.enabled) if unit else ("absent",)
        yield from differs(f"{name} {service or program}", "state", ("active", "running", "enabled"), states)

    local, etcd = expected.leaves.local_api, expected.leaves.etcd.unit
    parts = [
        [unjudged(f"the unit of {program}", UNNAMED)]
        if unit_name is None and (program == "the container runtime" or _without_unit(facts, program))
        else on_every(expected.nodes, facts, partial(judge, program, unit_name))
        for program, unit_name in units.items()
    ]
    proxied = expected.nodes if local.group == "node" else expected.workers
    if local.unit is not None and proxied:
        parts.append(on_every(proxied, facts, partial(judge, "the proxy before the API", local.unit)))
    if not expected.stacked_etcd and not (etcd is None and _without_unit(facts, "etcd")):
        parts.append(on_every(expected.etcd, facts, partial(judge, "etcd", etcd)))
    return together(*parts)


def _without_unit(facts: Facts, program: str) -> bool:
    """Tell whether no machine shows which unit runs a program; false when no machine was looked at."""
    return bool(facts) and not any(process.unit for node in facts.values() for process in node.running(program))


def failed_units(facts: Facts, expected: ExpectedGuest, allowed: Mapping[str, str]) -> list[Mismatch]:
    """Return the units that systemd reports as failed, and a journal that is stopped.

    Args:
        allowed: units that may fail -> why.
    """

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        if node.system_state not in SYSTEM_STATES:
            yield Mismatch(name, "systemd 'running'", repr(node.system_state))
        yield from differs(name, "failed units", [], sorted(set(node.failed_units) - set(allowed)))
        journal = node.units.get(JOURNAL)
        yield from differs(f"{name} {JOURNAL}", "state", "active", journal.active if journal is not None else "absent")

    return on_every(expected.machines, facts, judge)


def misplaced_processes(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the control plane or etcd does not run, runs twice, runs otherwise, or on a machine of no group."""
    leaves = expected.leaves

    def judge(program: str, name: str, node: NodeFacts) -> Iterator[Mismatch]:
        group = expected.etcd if program == "etcd" else expected.control_plane
        running = node.running(program)
        yield from differs(f"{name} {program}", "running processes", int(name in group), len(running))
        static = expected.static(program) if name in expected.control_plane else False
        for process in running if name in group and expected.static(program) is not None else ():
            yield from differs(f"{name} {program}", "runs as", _words(static), _runs(process))

    parts: list[list[Mismatch]] = []
    for programs, runs_as in ((CONTROL_PLANE_PROGRAMS, leaves.control_plane.runs_as), (("etcd",), leaves.etcd.runs_as)):
        unnamed = runs_as is None and all(absent(facts, program) for program in programs)
        if unnamed and not (programs == ("etcd",) and etcd_is_used(facts, expected)):
            parts.append([unjudged(f"where {', '.join(programs)} run", NOWHERE)])
        else:
            parts += [on_every(expected.machines, facts, partial(judge, program)) for program in programs]
    return together(*parts)


def _words(static: bool | None) -> str:
    return "a static pod" if static else "a unit"


def _runs(process: Process) -> str:
    return _words(process.in_pod) if process.in_pod or process.unit else f"neither, in {process.cgroup!r}"


def unhealthy_agents(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubelets and kube-proxies that do not report themselves healthy."""

    def judge(agent: str, name: str, node: NodeFacts) -> Iterator[Mismatch]:
        answer = node.endpoints[agent]
        if answer.status != 200:
            yield Mismatch(f"{name} {agent} /healthz", "200", f"{answer.status} {answer.body[:200]}")

    proxies = on_every(expected.nodes, facts, partial(judge, "kube-proxy"))
    if expected.kube_proxy_mode == LEFT_OUT:
        proxies = running_proxies(facts, expected)
    elif expected.kube_proxy_mode not in PROXY_MODES and absent(facts, "kube-proxy"):
        proxies = [unjudged("kube-proxy's health", f"none runs, in mode {expected.kube_proxy_mode!r}")]
    return together(on_every(expected.nodes, facts, partial(judge, "kubelet")), proxies)


def wrong_manifests(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the static pods' manifests are not exactly those of the machine's role."""
    static = static_by_facts(facts, expected)
    others = expected.leaves.control_plane.other_static_pods
    if expected.leaves.control_plane.runs_as is None and facts and not any(node.manifests for node in facts.values()):
        return [unjudged("the static pods", "no machine has any, and product.yml does not say so", whole=True)]

    def judge(name: str, node: NodeFacts) -> list[Mismatch]:
        role = {program for program, runs in static.items() if runs} if name in expected.control_plane else set()
        there = {PurePath(manifest).stem for manifest in node.manifests}
        allowed = there - set(static) if others is None else set(others)
        folder = expected.leaves.control_plane.manifests or node.kubelet.get("manifests", "manifests")
        return same_set(f"{name} {folder}", "static pods", role, there - (allowed - role))

    return on_every(expected.nodes, facts, judge)


MODES = {"Node", "RBAC"}  # of authorization; a webhook may be added
DEFAULTS = {"leader-elect": "true"}  # of flags that need not be given
ANY = object()  # some value, of a file that the product does not name


def wrong_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the flags of running processes that are not what the cell asked for."""
    every = _wanted_flags(expected)
    mismatches: list[Mismatch] = []
    for program in (*CONTROL_PLANE_PROGRAMS, "etcd", "kubelet"):
        is_named = (
            expected.leaves.kubelet.unit is not None if program == "kubelet" else expected.static(program) is not None
        )
        if not is_named and absent(facts, program):
            mismatches.append(unjudged(f"the flags of {program}", "no process of that name runs"))
            del every[program]
    missing = [flag for flags in every.values() for flag, value in flags.items() if value == ""]
    mismatches += [unjudged(f"--{flag}", "the cell's variables do not say what it should be") for flag in missing]

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        for program, flags in every.items():
            for process in node.running(program):
                for flag, value in flags.items():
                    if value != "":
                        yield from _wrong_flag(f"{name} {program}", flag, value, process.flag(flag))

    seen_programs = {process.name for node in facts.values() for process in node.processes}
    judged = on_every(expected.machines, facts, judge)
    judged += same_set("the cluster", "running programs", every, seen_programs & set(every))
    return together(judged, _other_environment(facts, expected), mismatches) if every else together(mismatches)


def _wanted_flags(expected: ExpectedGuest) -> dict[str, dict[str, object]]:
    """Return the flags that programs must have; "" for what nobody says."""
    leaves = expected.leaves
    own = {"cluster-cidr": expected.pod_cidrs, "allocate-node-cidrs": "true"}
    return {
        "kube-apiserver": {
            "service-cluster-ip-range": expected.service_cidrs,
            "authorization-mode": MODES,
            "client-ca-file": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else ANY,
        },
        "kube-controller-manager": {
            # a plugin that nobody describes may give addresses to pods by itself
            **(own if expected.plugin is not None else {}),
            "service-cluster-ip-range": expected.service_cidrs,
            "use-service-account-credentials": "true",
        },
        "kube-scheduler": {"leader-elect": "true"},
        "etcd": {"client-cert-auth": "true", "peer-client-cert-auth": "true"},
        "kubelet": {"config": leaves.kubelet.config or ANY, "kubeconfig": leaves.kubelet.kubeconfig or ANY},
    }


def _wrong_flag(where: str, flag: str, expected_value: object, observed: str | None) -> list[Mismatch]:
    if expected_value is ANY:
        return [] if observed else [Mismatch(where, f"--{flag} with a value", repr(observed))]
    if isinstance(expected_value, set):
        modes = set((observed or "").split(","))
        return (
            []
            if expected_value <= modes <= expected_value | {"Webhook"}
            else differs(where, f"--{flag}", ",".join(sorted(expected_value)), observed)
        )
    value = observed if observed is not None else DEFAULTS.get(flag)
    return differs(
        where, f"--{flag}", expected_value, value.lower() if expected_value == "true" and value is not None else value
    )


def _other_environment(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running etcd has other variables than the product's file for it: it was not restarted."""
    file = expected.leaves.etcd.environment_file
    if file is None:
        return []

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        if not node.environment:
            yield Mismatch(f"{name} {file}", "ETCD_* variables", repr(node.environment))
            return
        for process in node.running("etcd"):
            running = {key: process.settings.get(key) for key in node.environment}
            for key, value in node.environment.items():
                yield from differs(f"{name} etcd", f"{key} as in {file}", value, running[key])

    return on_every(expected.etcd, facts, judge)


CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
DELETED = " (deleted)"


def wrong_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the installed programs that are missing or have another version than expected."""
    leaves, runtime = expected.leaves, runtime_of(facts, expected)
    every = Tool()
    tools = {
        "kubelet": (expected.kubernetes, every if leaves.kubelet.unit is not None else None),
        "kubeadm": (expected.kubernetes, leaves.kubeadm),
        "kubectl": (expected.kubernetes, leaves.kubectl),
        runtime or "container runtime": (expected.runtime_version, every if leaves.runtime_unit is not None else None),
        "runc": (expected.runc, every if leaves.runtime_unit is not None else None),
    }
    parts = [_program(facts, expected, name, version, tool) for name, (version, tool) in tools.items()]
    return together(*parts, _cni_plugins(facts, expected))


KUBERNETES = ("kubelet", "kubeadm", "kubectl")  # the programs of a node with the version of Kubernetes


def _program(facts: Facts, expected: ExpectedGuest, program: str, version: str, tool: Tool | None) -> list[Mismatch]:
    """Judge one program where it has to be, or wherever it is when the product does not say."""
    installed = tuple(name for name in expected.nodes if name in facts and facts[name].versions.get(program))
    if not version:
        return [unjudged(f"the version of {program}", expected.why_unknown(program))]
    if tool is None and facts and not installed:
        return [unjudged(f"the version of {program}", "it is not in the usual folders of any machine")]
    names = expected.nodes if tool is None or tool.group == "node" else expected.control_plane
    agents = ("kubelet", "runc", runtime_of(facts, expected))  # of the rest, each machine may have it or not
    names = names if tool is not None or program in agents else installed

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        own = expected.kubernetes_of(name) if program in KUBERNETES else version
        yield from differs_upstream(f"{name} {program}", "version", own, node.versions.get(program, ""))

    return on_every(names or expected.nodes, facts, judge)


def _cni_plugins(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    if not expected.cni_plugins:
        return [unjudged("the version of the CNI plugins", expected.why_unknown("cni_plugins"))]
    if expected.leaves.cni_plugins is None and facts and not any(node.cni_plugins for node in facts.values()):
        return [unjudged("the version of the CNI plugins", "there are none in /opt/cni/bin")]

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        for plugin in CNI_PLUGINS:
            version = node.cni_plugins.get(plugin, "")
            yield from differs(f"{name} CNI plugin {plugin}", "version", expected.cni_plugins, version)

    return on_every(expected.nodes, facts, judge)


def replaced_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services that still run an old version of their file, which was replaced."""
    units = {"kubelet": expected.leaves.kubelet.unit, runtime_of(facts, expected): expected.leaves.runtime_unit}

    def judge(program: str, name: str, node: NodeFacts) -> Iterator[Mismatch]:
        running = node.running(program)
        yield from differs(f"{name} {program}", "running processes", 1, len(running))
        for process in running:
            if process.executable.endswith(DELETED):
                yield Mismatch(f"{name} {program}", "a process that runs the installed file", process.executable)

    parts = [
        [unjudged(f"the file of {program or 'the container runtime'}", "no process of a known name runs")]
        if not program or (unit is None and absent(facts, program))
        else on_every(expected.nodes, facts, partial(judge, program))
        for program, unit in units.items()
    ]
    return together(*parts)


Setups = Mapping[str, MachineSetup]


def amended_units(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return files that amend units although the product has none such, and limits of kubelet and the runtime."""
    drop_ins = expected.leaves.drop_ins
    if drop_ins is None:
        why = "product.yml does not say which files amend units (drop_ins)"
        return [unjudged("settings of units", why, whole=True)]

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        for unit, files in setup.drop_ins.items():
            yield from same_set(f"{name} {unit}", "files that amend it", set(drop_ins) & set(files), files)
        for program, path, value in setup.limits:
            yield Mismatch(f"{name} {program}", f"no limit in {path}", value)

    return together(on_every(expected.machines, setups, judge))


MOST_RESTARTS = 3  # of a unit by systemd itself, since somebody started it: a few at its first start are usual
# Limits of processes: as systemd calls them, and as the kernel does (systemd.exec(5), proc_pid_limits(5)).
LIMITS: Mapping[str, str] = {
    "LimitCPU": "cpu time",
    "LimitFSIZE": "file size",
    "LimitDATA": "data size",
    "LimitSTACK": "stack size",
    "LimitRSS": "resident set",
    "LimitCORE": "core file size",
    "LimitNOFILE": "open files",
    "LimitAS": "address space",
    "LimitNPROC": "processes",
    "LimitMEMLOCK": "locked memory",
    "LimitLOCKS": "file locks",
    "LimitSIGPENDING": "pending signals",
    "LimitMSGQUEUE": "msgqueue size",
}
WITHOUT = {"infinity", "unlimited"}
LEAST_FILES = 1024  # that a program of the cluster may open
STOPPED = ("T", "t")


def other_units(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the cluster's services set otherwise than the product, and those that do not stay up."""
    unit_settings = expected.leaves.unit_settings

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        for unit, unit_state in sorted(setup.units.items()):
            where = f"{name} {unit}"
            if unit_state.reload:
                yield Mismatch(where, "a unit that systemd has read since its files changed", "systemd has not")
            if unit_state.restarts > MOST_RESTARTS:
                restarts = f"{unit_state.restarts} restarts by systemd since it was started"
                yield Mismatch(where, f"at most {MOST_RESTARTS} restarts", restarts)
            if unit_settings is not None:
                yield from _other_settings(where, unit_settings.get(unit, {}), unit_state.settings)

    mismatches = on_every(expected.machines, setups, judge)
    if setups and not any(setup.units for setup in setups.values()):
        return [*mismatches, unjudged("the settings of units", "product.yml names no unit that there is", whole=True)]
    why = "product.yml does not say them (unit_settings)"
    return mismatches if unit_settings is not None else [*mismatches, unjudged("the settings of units", why)]


def _other_settings(where: str, settings: Mapping[str, str], observed: Mapping[str, str]) -> Iterator[Mismatch]:
    for key in sorted({*settings, *observed}):
        usual = "systemd's default"
        if key not in settings:
            yield Mismatch(where, f"{key}: {usual}", observed[key])
        elif not fnmatchcase(observed.get(key, ""), settings[key]):
            yield Mismatch(where, f"{key}={settings[key]}", observed.get(key, usual))


def limited_processes(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return processes of the cluster with other limits than their unit's, or that the kernel treats worse."""

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        first = setup.processes.get("1")
        if first is None or len(setup.processes) == 1:
            yield Mismatch(name, "processes of the cluster with their limits", "none")
            return
        for program, process in sorted(setup.processes.items()):
            where = f"{name} {program}"
            if program == "1":
                continue
            unit = setup.units.get(program)
            yield from _treated(where, process, first, unit)
            limits = unit.limits if unit is not None else {}
            for key, kernels in LIMITS.items():
                unit_limits = [limits.get(key + soft, "") for soft in ("Soft", "")]
                yield from _other_limit(
                    f"{where} {kernels}",
                    unit_limits,
                    process.limits.get(kernels),
                    first.limits.get(kernels, ("", "unlimited")),
                )

    return on_every(expected.machines, setups, judge)


def _treated(where: str, process: ProcessLimits, first: ProcessLimits, unit: UnitSettings | None) -> Iterator[Mismatch]:
    """Judge what the kernel gives a process: processors, turns, files, and who is killed first without memory."""
    settings = unit.settings if unit is not None else {}
    if process.oom > max(0, int(settings.get("OOMScoreAdjust", "0"))):
        yield Mismatch(where, "oom_score_adj 0 or less: others are killed before it", str(process.oom))
    if process.nice > max(0, int(settings.get("Nice", "0"))):
        yield Mismatch(where, "niceness 0", str(process.nice))
    if process.state in STOPPED:
        yield Mismatch(where, "a process that runs", "it is stopped (SIGSTOP)")
    if "CPUAffinity" not in settings and process.cpus != first.cpus:
        yield Mismatch(where, f"processors {first.cpus}, those of the machine", process.cpus)
    soft = process.limits["open files"][0]
    if soft not in WITHOUT and int(soft) < LEAST_FILES:
        yield Mismatch(where, f"{LEAST_FILES} open files and more", f"a limit of {soft}")


def _other_limit(
    where: str, unit_limits: Sequence[str], observed: tuple[str, str] | None, first: tuple[str, str]
) -> Iterator[Mismatch]:
    """Judge one limit: the unit's, or the machine's own where that is lower. Programs may raise the soft one."""
    if observed is None or "" in unit_limits:
        return
    soft, hard = (_number(text) for text in unit_limits)
    most = min(hard, _number(first[1]))
    if _number(observed[1]) not in (hard, most):
        yield Mismatch(where, f"the unit's limit {unit_limits[1]}", f"{observed[1]}")
    elif _number(observed[0]) < min(soft, most) - 1:  # Go's runtime leaves one off
        yield Mismatch(where, f"the unit's limit {unit_limits[0]}", f"{observed[0]} (soft)")


def _number(text: str) -> float:
    return float("inf") if text in WITHOUT else float(text)
