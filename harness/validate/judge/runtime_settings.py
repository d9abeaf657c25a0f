"""What containerd runs with: its sandbox image, runtime, registries, control groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.programs import RunningPrograms
from harness.validate.facts.setup import MachineSetup
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

SANDBOX = ("sandbox", "sandbox_image")  # of containerd 2, of containerd 1
DRIVERS = {"systemd": True, "cgroupfs": False}


def wrong_runtime_settings(
    running: Mapping[str, RunningPrograms], setups: Mapping[str, MachineSetup], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return settings of the running containerd that are not those of the product and the cell."""
    said = expected.leaves.runtime_settings
    if said is None or expected.runtime_process != "containerd":
        why = "product.yml does not say them (runtime_settings), or the runtime is another"
        return [unjudged("settings of the container runtime", why, whole=True)]
    driver = expected.kubelet_config.get("cgroupDriver", "systemd")
    wanted: dict[str, Any] = {**said, "SystemdCgroup": DRIVERS.get(driver)}

    def judge(name: str, seen: RunningPrograms) -> Iterator[Mismatch]:
        where = f"{name} containerd"
        if seen.containerd is None:
            yield Mismatch(where, "a running containerd", "none")
            return
        there = dict(cri_settings(seen.containerd.content))
        for key, value in wanted.items():
            yield from differs(where, key, [value], there.get(key, []))
        images = [value for key in SANDBOX for value in there.get(key, [])]
        if expected.variables.get("cluster_pause_version"):
            yield from differs(where, "sandbox image", [_pause(expected)], images)
        else:
            yield unjudged("the sandbox image", "the cell's variables have no cluster_pause_version")

    def trusts(name: str, seen: MachineSetup) -> list[Mismatch]:
        folder = str(said.get("config_path", ""))
        wanted = [expected.registry] if expected.leaves.images_from_mirror else seen.registries
        found = same_set(f"{name} {folder}", "registries", wanted, seen.registries)
        strange = sorted(set(seen.registries) - set(wanted))
        found += [Mismatch(f"{name} {folder}/{one}", "no such folder", "it exists") for one in strange]
        for path, urls in seen.servers.items() if expected.leaves.images_from_mirror else ():
            others = [url for url in urls if urlsplit(url).netloc != expected.registry]
            found += differs(f"{name} {path}", f"servers other than {expected.registry}", [], others)
        return found

    return [*on_every(expected.nodes, running, judge), *on_every(expected.nodes, setups, trusts)]


def cri_settings(config: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the settings of containerd's CRI plugins by their last key, each with all of its values."""
    found: dict[str, list[Any]] = {}

    def walk(table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping):
                walk(value)
            elif value != "" and value not in found.setdefault(key, []):
                found[key].append(value)

    for name, table in config.get("plugins", {}).items():
        if ".cri" in name:
            walk(table)
    yield from found.items()


def _pause(expected: ExpectedGuest) -> str:
    return f"{expected.registry}/pause:{expected.variables.get('cluster_pause_version')}"
