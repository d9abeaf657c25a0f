"""Container runtime: sandbox image, registries and cgroup driver of containerd and CRI-O; images as in the mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import LoadedConfig, MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, differs, on_every, same_set, unjudged

SANDBOX = ("sandbox", "sandbox_image", "pause_image")  # of containerd 2, of containerd 1, of CRI-O
RUNTIMES: Mapping[str, Callable[[RunningPrograms], LoadedConfig | None]] = {
    "containerd": lambda programs: programs.containerd,
    "crio": lambda programs: programs.crio,
}
# Settings of the cell, in vmatrix's own playbooks.
OF_THE_CELL = {"containerd": "cluster_containerd_config", "crio": "cluster_crio_config"}
DRIVERS = {"systemd": True, "cgroupfs": False}


def wrong_runtime_settings(
    running: Mapping[str, RunningPrograms], setups: Mapping[str, MachineSetup], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return settings of the running container runtime that are not those of the product and the cell."""
    runtime_settings, runtime = expected.leaves.runtime_settings, expected.runtime_process
    if runtime_settings is None or runtime not in RUNTIMES:
        why = "product.yml does not say them (runtime_settings), or the runtime is another"
        return [unjudged("settings of the container runtime", why, whole=True)]
    driver = str(expected.kubelet_config.get("cgroupDriver", "systemd"))
    key, value = ("SystemdCgroup", DRIVERS.get(driver)) if runtime == "containerd" else ("cgroup_manager", driver)
    asked = expected.variables.get(OF_THE_CELL[runtime]) or {}
    settings: dict[str, Any] = {
        name: setting for name, setting in {**runtime_settings, key: value}.items() if name not in asked
    }

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        where, config = f"{name} {runtime}", RUNTIMES[runtime](programs)
        if config is None:
            yield Mismatch(where, f"a running {runtime}", "none")
            return
        there = dict(settings_of(config.content))
        for key, value in settings.items():
            observed = [
                setting[0] if isinstance(setting, list) and len(setting) == 1 else setting
                for setting in there.get(key, [])
            ]
            if isinstance(value, tuple):
                right = len(observed) == 1 and observed[0] in value
                yield from [] if right else [Mismatch(f"{where} {key}", f"one of {', '.join(value)}", str(observed))]
            else:
                yield from differs(where, key, [value], observed)
        images = [value for key in SANDBOX for value in there.get(key, [])]
        if expected.variables.get("cluster_pause_version"):
            yield from differs(where, "sandbox image", [_pause(name, expected)], images)
        else:
            yield unjudged("the sandbox image", "the cell's variables have no cluster_pause_version")
        yield from _file_version(name, programs, expected)

    trusts = _trusts_containerd if runtime == "containerd" else _trusts_crio
    return [
        *on_every(expected.nodes, running, judge),
        *_unpinned(running, setups, expected),
        *on_every(expected.nodes, setups, lambda name, setup: trusts(name, setup, expected)),
    ]


RESTRICT_OOM = "cluster_containerd_restrict_oom_score_adj"
# A default that `crio config --default` prints as a comment, unlike all others (CRI-O 1.34, pkg/config/template.go).
COMMENTED = {("crio", "network", "cni_default_network"): ""}
# What only the machine decides: folders that packages choose, and where what runs is listed.
OF_THE_MACHINE = frozenset(("version", "imports", "root", "state", "version_file", "version_file_persist", "oom_score"))


def other_configuration(running: Mapping[str, RunningPrograms], expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the running runtime's whole configuration has otherwise than its version's defaults and the product.

    Without what `wrong_runtime_settings` judges: values of settings that the product names.
    """
    runtime_settings, runtime = expected.leaves.runtime_settings, expected.runtime_process
    if runtime_settings is None or runtime not in RUNTIMES:
        why = "product.yml does not say what differs from defaults (runtime_settings), or the runtime is another"
        return [unjudged("the whole configuration of the container runtime", why, whole=True)]
    asked = expected.variables.get(OF_THE_CELL[runtime]) or {}
    own = {*runtime_settings, *SANDBOX, "SystemdCgroup", "cgroup_manager", "pause_command", *asked}
    restricts = (
        {"restrict_oom_score_adj": bool(expected.variables.get(RESTRICT_OOM))} if runtime == "containerd" else {}
    )

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        config = RUNTIMES[runtime](programs)
        if config is None or not config.usual or not config.content:
            yield Mismatch(f"{name} {runtime}", "its configuration and its defaults", "none: it cannot read its files")
            return
        usual, there = dict(_leaves(config.usual)), dict(_leaves(config.content))
        decided = _decided_by_crio(name, expected) if runtime == "crio" else _said_by_nothing(usual)
        if runtime == "crio":  # what it runs with lacks what is not installed, and the product says its runtimes
            every = (COMMENTED | usual).items()
            usual = {path: value for path, value in every if path in there and "runtimes" not in path}
            there = {path: value for path, value in there.items() if path in usual}
        for path in sorted({*usual, *there}):
            last = path[-1]
            right = restricts.get(last, usual.get(path))
            if there.get(path) in (right, *_nothing(right), *decided.get(path, ())) or last in OF_THE_MACHINE:
                continue
            if last not in own or path not in usual:
                requirement = f"{'.'.join(path)} {right!r}" if path in usual else f"no {'.'.join(path)}"
                yield Mismatch(f"{name} {runtime}", requirement, repr(there.get(path, "none")))

    return on_every(expected.nodes, running, judge)


def _said_by_nothing(usual: Mapping[tuple[str, ...], Any]) -> Mapping[tuple[str, ...], tuple[Any, ...]]:
    """Return settings of a containerd runtime that it takes at their default where they are empty.

    containerd 1.7, ValidatePluginConfig: "If empty, use default podSandbox mode". A runtime in its file replaces
    that of the defaults whole, and `containerd config dump` shows what is left out as empty.
    """
    return {path: ("",) for path in usual if "runtimes" in path and path[-1] in ("sandbox_mode", "sandboxer")}


def _decided_by_crio(node: str, expected: ExpectedGuest) -> Mapping[tuple[str, ...], tuple[Any, ...]]:
    """Return what CRI-O makes of its defaults when it starts (CRI-O 1.34, `crio status config` beside its file).

    It trusts registries of its own machine, never removes the sandbox image, and does without CRIU where there is none.
    """
    return {
        ("crio", "image", "insecure_registries"): (["127.0.0.0/8"],),
        ("crio", "image", "pinned_images"): ([_pause(node, expected)],),
        ("crio", "runtime", "enable_criu_support"): (False,),
    }


def _leaves(content: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _nothing(value: Any) -> tuple[Any, ...]:
    """Return what says the same as a value: nothing, however it is written. A number or a switch may be left out."""
    return (None, "", [], {}, 0, False) if value in (None, "", [], {}) else (None,) if value in (0, False) else ()


def _file_version(name: str, programs: RunningPrograms, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Judge the form of containerd's file: containerd 2 reads that of containerd 1 as well, but no later one will."""
    file_versions, major = expected.leaves.runtime_file_versions, expected.runtime_version.partition(".")[0]
    if expected.runtime_process == "containerd" and file_versions is not None and major in file_versions:
        yield from differs(f"{name} containerd's file", "version", file_versions[major], programs.config_version)


def _unpinned(
    running: Mapping[str, RunningPrograms], setups: Mapping[str, MachineSetup], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return nodes on which kubelet may remove the sandbox image, without which no pod starts, to make room."""
    if not expected.variables.get("cluster_pause_version"):
        return []  # which is said of the sandbox image already

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        image = _pause(name, expected)
        there = image in setups[name].images if name in setups else False
        if programs.pinned is None or not there:
            why = "nothing on the machine tells" if programs.pinned is None else f"the machine has no {image}"
            yield unjudged(f"{name}: whether the sandbox image is pinned", why)
        elif image not in programs.pinned:
            pinned = ", ".join(sorted(programs.pinned)) or "none"
            yield Mismatch(f"{name} images that are never removed", f"{image}, the sandbox image", pinned)

    return on_every(expected.nodes, running, judge)


def _trusts_containerd(name: str, setup: MachineSetup, expected: ExpectedGuest) -> list[Mismatch]:
    """Judge containerd's folder of registries: the mirror alone, at its own address."""
    folder = str((expected.leaves.runtime_settings or {}).get("config_path", ""))
    others = _further(expected)
    registries = [expected.image_prefix, *others] if expected.leaves.images_from_mirror else setup.registries
    mismatches = same_set(f"{name} {folder}", "registries", registries, setup.registries)
    strange = sorted(set(setup.registries) - set(registries))
    mismatches += [Mismatch(f"{name} {folder}/{registry}", "no such folder", "it exists") for registry in strange]
    for path, urls in setup.servers.items() if expected.leaves.images_from_mirror else ():
        server = others.get(PurePosixPath(path).parent.name, f"http://{expected.registry}")
        strangers = [url for url in urls if urlsplit(url).netloc != urlsplit(server).netloc]
        mismatches += differs(f"{name} {path}", f"servers other than {urlsplit(server).netloc}", [], strangers)
    return mismatches


REGISTRIES = "cluster_registries"  # further ones of the cell, in vmatrix's own playbooks


def _further(expected: ExpectedGuest) -> Mapping[str, str]:
    """Return the URLs of registries that the cell names besides the mirror, by what names of images begin with."""
    asked = expected.variables.get(REGISTRIES) or ()
    return {str(registry["name"]): str(registry.get("server") or f"https://{registry['name']}") for registry in asked}


def _trusts_crio(name: str, setup: MachineSetup, expected: ExpectedGuest) -> list[Mismatch]:
    """Judge CRI-O's files for registries (containers-registries.conf(5)): the mirror alone, at its own address."""
    if not expected.leaves.images_from_mirror:
        return []
    named: set[str] = set()
    further = _further(expected)
    mismatches: list[Mismatch] = []
    for path, configuration in setup.registries_conf.items():
        for registry in configuration.get("registry", []):
            place = str(registry.get("prefix", "")) or str(registry.get("location", ""))
            named.add(place)
            asked = [
                registry.get("location", place),
                *(mirror.get("location") for mirror in registry.get("mirror", [])),
            ]
            server = urlsplit(further[place]).netloc if place in further else expected.registry
            others = [where for where in asked if where != server]
            mismatches += differs(f"{name} {path}", f"servers other than {server}", [], others)
    where = ", ".join(setup.registries_conf) or "no file for registries"
    return [*same_set(f"{name} {where}", "registries", [expected.image_prefix, *further], sorted(named)), *mismatches]


def settings_of(config: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the settings of containerd's CRI plugins, or of CRI-O, by their last key, each with all of its values."""
    values_by_key: dict[str, list[Any]] = {}

    def walk(table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping):
                walk(value)
            elif value != "" and value not in values_by_key.setdefault(key, []):
                values_by_key[key].append(value)

    for name, table in config.get("plugins", {}).items():
        if ".cri" in name:
            walk(table)
    walk(config.get("crio", {}))
    yield from values_by_key.items()


def _pause(node: str, expected: ExpectedGuest) -> str:
    return f"{expected.image_prefix}/pause:{expected.variables_of(node).get('cluster_pause_version')}"


Digests = Mapping[str, str]


def from_mirror(setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[str]:
    """Return the names (repository:tag) of all images on machines that are named after the mirror."""
    return sorted({name for setup in setups.values() for name in _mirrored(setup, expected)})


def other_images(setups: Mapping[str, MachineSetup], digests: Digests, expected: ExpectedGuest) -> list[Mismatch]:
    """Return images on machines whose digest is not the one that the mirror gives for the name.

    Args:
        digests: of the mirror, by repository:tag; without those that it does not have.
    """
    if expected.leaves.images_from_mirror is None or not expected.runtime_process:
        why = "product.yml does not say that images are named after the mirror, or the runtime is not known"
        return [unjudged("the content of images", why, whole=True)]

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        own = _mirrored(setup, expected)
        if not own:
            yield Mismatch(name, f"images of {expected.image_prefix}", "none")
        for image, digest in sorted(own.items()):
            if image in digests:
                yield from differs(f"{name} {image}", "digest of the mirror", digests[image], digest)
            else:
                yield Mismatch(f"{name} {image}", "an image that the mirror has", "it does not")

    return on_every(expected.nodes, setups, judge)


def _mirrored(setup: MachineSetup, expected: ExpectedGuest) -> Digests:
    prefix = f"{expected.image_prefix}/"
    return {name.removeprefix(prefix): digest for name, digest in setup.images.items() if name.startswith(prefix)}
