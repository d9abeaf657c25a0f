"""Files: permissions and owners, folders that programs write to, and programs that are older than their files."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import FileRights, MachineFiles
from harness.validate.findings import Mismatch, of_each, on_every, unjudged

Files = Mapping[str, MachineFiles]
ROOT = 0
OTHERS, OTHERS_WRITE, NOT_OWNER = 0o007, 0o022, 0o077  # permissions: of others, to write, of all but the owner
# Keys of CAs and credentials of the control plane (kubernetes.io, "PKI certificates and requirements"), as kubeadm and
# kubespray call them: a worker must not have them.
OF_CONTROL_PLANES = {
    *("ca.key", "ca-key.pem", "sa.key", "front-proxy-ca.key", "apiserver.key"),
    *("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf"),
}
OF_PEOPLE = "/.kube/config"  # of whoever uses kubectl, which kubeadm leaves to admins of control planes
SCARCE = 0.05  # share of a disk, below which writes fail soon
NEWER_SECONDS = 3.0  # files are written just before a program starts, and clocks are set meanwhile


def open_files(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return files of the cluster that others may read or change, and those that a machine must not have."""
    strict = expected.leaves.kubeadm is not None  # kubeadm writes keys for root alone; other products for a group
    if files and not strict and not any(file.secret for machine in files.values() for file in machine.files.values()):
        return [unjudged("who may read private keys", "there are none in the places that checks know", whole=True)]

    def judge(name: str, machine: MachineFiles) -> Iterator[Mismatch]:
        if strict and name in expected.nodes and not any(file.secret for file in machine.files.values()):
            yield Mismatch(name, "a private key of kubelet's", "none in the places that checks know")
        for path, file in sorted(machine.files.items()):
            forbidden = _forbidden(file, strict=strict)
            if file.mode & forbidden:
                yield Mismatch(f"{name} {path}", f"permissions {file.mode & ~forbidden:04o}", f"{file.mode:04o}")
            if strict and file.owner != ROOT:
                yield Mismatch(f"{name} {path}", "owner 0 (root)", str(file.owner))
            theirs = PurePath(path).name in OF_CONTROL_PLANES or (strict and path.endswith(OF_PEOPLE))
            if name in expected.workers and theirs and file.kind == "file":
                yield Mismatch(f"{name} {path}", "no such file on a worker", "it exists")

    return on_every(expected.machines, files, judge)


def closed_folders(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return places that programs cannot write to or run from, soon cannot any more, or that a boot empties."""

    def judge(name: str, machine: MachineFiles) -> Iterator[Mismatch]:
        if not machine.written:
            yield Mismatch(name, "folders that programs write to", "none")
        for path, room in sorted(machine.written.items()):
            if room.closed:
                yield Mismatch(f"{name} {path}", "a place that can be written to", room.closed)
            for file in room.locked:
                yield Mismatch(f"{name} {file}", "a file that can be changed", "it is immutable, or mounted read-only")
            if room.runs and room.noexec:
                yield Mismatch(f"{name} {path}", "a place from where programs can be run", "it is mounted noexec")
            if room.passing and expected.leaves.kubeadm is not None:
                yield Mismatch(f"{name} {path}", "a place that outlasts a boot", "it is mounted in memory (tmpfs)")
            for what, share in (("space", room.space), ("files that there may be", room.files)):
                if share < SCARCE:
                    yield Mismatch(f"{name} {path}", f"{SCARCE:.0%} of its {what} free", f"{share:.1%}")

    return on_every(expected.machines, files, judge)


def _forbidden(file: FileRights, *, strict: bool) -> int:
    """Return the permissions that a file must not have."""
    if file.kind == "socket":  # whoever may write to it may connect (unix(7))
        return OTHERS if file.mode & stat.S_IWOTH else 0
    if file.kind == "place":
        return OTHERS_WRITE if strict else OTHERS_WRITE & OTHERS
    if file.kind == "above":
        return 0 if file.mode & stat.S_ISVTX else OTHERS_WRITE & OTHERS  # in /tmp, nobody replaces what is another's
    if file.kind == "data":
        return NOT_OWNER if strict else OTHERS_WRITE & OTHERS
    if file.kind == "folder":
        return OTHERS_WRITE if strict else OTHERS_WRITE & OTHERS
    return (NOT_OWNER if strict else OTHERS) if file.secret else OTHERS_WRITE


def outdated_processes(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return programs that were not restarted after a file that they read changed, or that run another file."""
    if files and expected.leaves.kubelet.unit is None and not any(machine.newer for machine in files.values()):
        return [unjudged("whether programs are older than their files", "none of a known name runs", whole=True)]

    def judge(name: str, machine: MachineFiles) -> Iterator[Mismatch]:
        for program, newer in machine.newer.items():
            for path, seconds in sorted(newer.items()):
                if seconds > NEWER_SECONDS:
                    late = f"the file is {seconds:.0f} s newer than the process"
                    yield Mismatch(f"{name} {program}", f"a start after {path} had changed", late)
        for program, executable in machine.executables.items():
            unit = expected.leaves.kubelet.unit if program == "kubelet" else expected.leaves.runtime_unit
            if executable.own is False or (unit is not None and executable.same is False):
                yield Mismatch(
                    f"{name} {program}", f"a process that runs {executable.found or 'its file'}", executable.runs
                )

    return on_every(expected.machines, files, judge)


@of_each("machines")
def wrong_systems(name: str, machine: MachineFiles, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return machines with another operating system than their image has."""
    system = expected.systems[name]
    if system is None:
        yield unjudged(f"the operating system of {name}", "images.yml does not have its image")
        return
    there = {key: machine.os_release.get(key, "") for key in ("ID", "VERSION_ID", "VERSION_CODENAME")}
    alike = system[0] in there["ID"] or (there["ID"] and there["ID"] in system[0])
    observed_version, other = f"{there['VERSION_ID']}.", f"{system[1]}."
    version = (
        observed_version.startswith(other)
        or other.startswith(observed_version)
        or system[1] == there["VERSION_CODENAME"]
    )
    if not alike or not version:
        observed = f"{there['ID']} {there['VERSION_ID']}".strip()
        yield Mismatch(name, f"{system[0]} {system[1]}, as of its image", observed or "no /etc/os-release")
