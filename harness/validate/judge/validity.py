"""Whether certificates are where a cell wants them, and valid for as long as it asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import PurePosixPath

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles
from harness.validate.facts.keys import MachineKeys
from harness.validate.facts.node import Certificate, NodeFacts
from harness.validate.findings import Mismatch, on_every
from harness.validate.judge.keys import AUTHORITIES, KUBELET
from harness.validate.variables import CA_VALIDITY, VALIDITY, hours_of

USUAL = "/etc/kubernetes/pki"
BACKDATED = timedelta(hours=1)  # at most: kubeadm lets certificates begin a few minutes ago
KUBEADMS = (".crt", ".key", ".pub")


def other_validity(
    facts: Mapping[str, NodeFacts], keys: Mapping[str, MachineKeys], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return certificates of kubeadm's, in files and in kubeconfigs, that are valid for another time than asked for."""
    wanted = {name: expected.variables.get(name) for name in (VALIDITY, CA_VALIDITY)}
    folder = expected.leaves.certificates or USUAL
    authorities = {f"{folder}/{one}" for one in AUTHORITIES}
    machines = tuple(dict.fromkeys((*expected.control_plane, *expected.etcd)))

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        held = keys[name].kubeconfigs.items() if name in keys else ()
        there = [one for one in seen.certificates if one.path.startswith(f"{folder}/")]
        there += [one.certificate for path, one in held if one.certificate and not path.endswith(f"/{KUBELET}")]
        if not there:
            yield Mismatch(f"{name} {folder}", "certificates", "none")
        for one in there:
            asked = wanted[CA_VALIDITY if one.path in authorities else VALIDITY]
            yield from _other(name, one, hours_of(str(asked))) if asked else ()

    return on_every(machines, {one: facts[one] for one in machines if one in facts}, judge)


def _other(machine: str, one: Certificate, hours: int) -> Iterator[Mismatch]:
    lasts = one.not_after - one.not_before
    if not timedelta(0) <= lasts - timedelta(hours=hours) <= BACKDATED:
        seen = f"{lasts / timedelta(hours=1):.0f} hours"
        yield Mismatch(f"{machine} {one.path} ({one.subject})", f"valid for {hours} hours", seen)


def strayed_certificates(files: Mapping[str, MachineFiles], expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates and keys in kubeadm's usual folder, although the cell has another one."""
    folder = expected.leaves.certificates or USUAL

    def judge(name: str, seen: MachineFiles) -> Iterator[Mismatch]:
        if name in expected.nodes and f"{folder}/ca.crt" not in seen.files:
            yield Mismatch(f"{name} {folder}/ca.crt", "the cluster's CA", "none")
        for path in sorted(seen.files):
            if path.startswith(f"{USUAL}/") and folder != USUAL and PurePosixPath(path).suffix in KUBEADMS:
                yield Mismatch(f"{name} {path}", f"no such file: the cell's are in {folder}", "it exists")

    return on_every(expected.machines, files, judge)
