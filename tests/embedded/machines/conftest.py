"""Real machines on instance index 8, from a disk image that is built when it is not cached."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import paths, proc
from harness.artifacts import disk as images
from harness.embedded.machines import Machines, MachineSpec, netns
from harness.infra.host import preflight
from harness.until import Deadline, NotYet, until
from tests.embedded.bridges import instance_address

INDEX = 8
SSH_SECONDS = 60.0
USER = "debian"
MEMORY_MIB = 512


@dataclass(frozen=True)
class Lab:
    """A place for machines: their runtime, a golden disk, a key."""

    machines: Machines
    directory: Path
    golden: Path
    key: Path

    def spec(self, machine_id: str, *, namespace: int, host: int, golden: Path | None = None) -> MachineSpec:
        """Return a machine with a fresh disk, that logs in the lab's key."""
        disk = self.directory / f"{machine_id}.raw"
        proc.run(["cp", "--reflink=auto", "--sparse=always", golden or self.golden, disk], timeout=60)
        public = self.key.with_suffix(".pub").read_text(encoding="utf-8").strip()
        user_data = (
            "#cloud-config\n"
            f"users: [{{name: {USER}, sudo: 'ALL=(ALL) NOPASSWD:ALL', shell: /bin/bash, "
            f"ssh_authorized_keys: ['{public}']}}]\n"
        )
        return MachineSpec(
            id=machine_id,
            namespace_index=namespace,
            hostname=f"host-{machine_id}",
            address=str(self.machines.names.network(namespace)[host]),
            disk=disk,
            cpus=2,
            memory_mib=MEMORY_MIB,
            user_data=user_data,
            network_data="",
            instance_id=f"i-{secrets.token_hex(4)}",
        )

    def ssh(self, spec: MachineSpec, command: str) -> proc.Completed:
        """Run a command in a machine; its status is not checked."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=2"]
        words = [word for option in options for word in ("-o", option)]
        return proc.run(
            ["ssh", "-i", self.key, *words, f"{USER}@{spec.address}", command], timeout=SSH_SECONDS, check=False
        )

    def wait_for_login(self, spec: MachineSpec) -> None:
        """Wait until a machine takes logins and its cloud-init is done."""

        def probe() -> bool | NotYet:
            done = self.ssh(spec, "cloud-init status --wait")
            return True if "status: done" in done.stdout else NotYet(done.stderr.strip() or done.stdout.strip())

        until(probe, deadline=Deadline.after(SSH_SECONDS), what=f"{spec.id} to take logins", interval=0.2)


def remains() -> list[str]:
    """Return everything on the host that carries instance 8's names."""
    found = [str(path) for path in Path("/sys/fs/cgroup").glob("*/vmx8-*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob("vmx8-*")]
    found += [str(path) for path in Path("/sys/class/net").glob("vmx8h*")]
    found += [str(path) for path in Path("/run/systemd/nspawn").glob("*/vmx8-*")]
    found += [name for name in netns.existing() if name.startswith("vmx8-")]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found += [line for line in mounts.splitlines() if "/vmatrix-lab/" in line]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        found += [line for line in [backing.read_text(encoding="utf-8")] if "/vmatrix-lab/" in line]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        found += [words.decode(errors="replace")] if b"--machine=vmx8-" in words else []
    return found


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the raw Debian 13 disk."""
    return raw_image("debian-13", tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def older_golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the raw Debian 12 disk."""
    return raw_image("debian-12", tmp_path_factory.mktemp("older"))


def raw_image(name: str, folder: Path) -> Path:
    """Return an image of the catalogue as a raw disk; fail with what is missing rather than skip."""
    if os.geteuid() != 0:
        pytest.fail("these tests boot real machines and need root")
    missing = preflight.unmet([*preflight.PROGRAMS, *preflight.BUILDERS, *preflight.KERNEL])
    if missing:
        pytest.fail("\n".join(f"{item.what} is missing ({item.why}): {item.remedy}" for item in missing))
    cache = images.ImageCache()
    built = cache.ensure(images.load(paths.project_dir() / "matrix" / "images.yml").find(name))
    raw = folder / f"{name}.raw"
    proc.run(["qemu-img", "convert", "-O", "raw", cache.path(built), raw], timeout=120)
    return raw


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a key pair's private file."""
    path = tmp_path_factory.mktemp("key") / "id"
    proc.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], timeout=20)
    return path


@pytest.fixture(scope="module")
def lab(golden: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a place for machines; afterwards nothing of it may be left on the host."""
    directory = tmp_path_factory.mktemp("place") / "vmatrix-lab"
    directory.mkdir()
    machines = Machines(directory / "state", INDEX)
    machines.sweep()
    with instance_address(machines.names):
        yield Lab(machines, directory, golden, key)
        machines.sweep()
    assert remains() == []


@pytest.fixture(scope="session")
def what_remains() -> Callable[[], list[str]]:
    """Give the search for what is left on the host."""
    return remains
