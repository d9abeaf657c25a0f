"""A virtual machine as KubeVirt starts one: QEMU with virtio devices, a NoCloud volume, a guest agent's channel.

QEMU emulates the CPUs, so the tests need no KVM. `apt-get install qemu-system-x86 ovmf xorriso` installs all of it.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import paths, proc
from harness.cell import manifests
from harness.machines.kubevirt.manifests import GoldenImage, machine
from harness.model import PlannedMachine
from harness.until import Deadline, NotYet, until

PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "xorriso": "xorriso", "ssh": "openssh-client"}
OVMF = Path("/usr/share/OVMF")
SHORT_SECONDS = 30.0
LOGIN_SECONDS = 600.0  # from the start to a login; 60 to 70 s on two idle cores
COMMAND_SECONDS = 120.0  # `cloud-init status --wait` included
AGENT_SECONDS = 60.0
USER = "debian"


def require_programs() -> None:
    """Fail, with what is missing, rather than skip."""
    missing = {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    missing |= set() if (OVMF / "OVMF_CODE_4M.secboot.fd").exists() else {"ovmf"}
    if missing:
        pytest.fail(f"apt-get install {' '.join(sorted(missing))}")


def user_data(public_key: str) -> str:
    """Return what a machine's Secret holds for cloud-init, from the templates that cells use."""
    plan = manifests.CellPlan("cell", {}, public_key, "cluster.local", None, expires_at=0.0)
    image = GoldenImage("image", "http://mirror/image", "sha256:0", "10Gi", USER)
    planned = PlannedMachine(name="cp-0", groups=("control_plane",), cpus=2, memory_mib=1536, disk_gib=14, image="x")
    objects = machine(plan, planned, image, directory=paths.project_dir() / "vm-templates")
    secret = next(each for each in objects if each["kind"] == "Secret")
    return str(secret["stringData"]["userdata"])


@dataclass(frozen=True)
class Guest:
    """A running machine: its folder (key, serial console, agent's socket) and the port that leads to its SSH."""

    folder: Path
    port: int

    def run(self, command: str) -> str:
        """Return what a command on the machine prints."""
        done = proc.run(self._ssh(command), timeout=COMMAND_SECONDS)
        return done.stdout.strip()

    def console(self) -> str:
        """Return what the serial console has shown."""
        return (self.folder / "serial.log").read_text(encoding="utf-8", errors="replace")

    def agent(self, command: str) -> Any:
        """Return the guest agent's answer to a command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(AGENT_SECONDS)
            connection.connect(str(self.folder / "agent"))
            connection.sendall(json.dumps({"execute": command}).encode() + b"\n")
            return json.loads(connection.makefile().readline())["return"]

    def await_login(self) -> None:
        """Wait until the user's key opens a session."""
        until(self._login, deadline=Deadline.after(LOGIN_SECONDS), what="a login", interval=2.0, describe=self._last)

    def _last(self) -> str:
        return self.console()[-2000:]

    def _login(self) -> bool | NotYet:
        done = proc.run(self._ssh("true"), timeout=SHORT_SECONDS, check=False)
        return True if done.returncode == 0 else NotYet(done.stderr.strip())

    def _ssh(self, command: str) -> list[str | Path]:
        options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=20")
        words: list[str | Path] = ["ssh", *(word for option in options for word in ("-o", option))]
        return [*words, "-i", self.folder / "key", "-p", str(self.port), f"{USER}@127.0.0.1", command]


@contextmanager
def booted(image: Path, folder: Path, *, firmware: str) -> Iterator[Guest]:
    """Boot a copy of an image as long as the body runs; it has a login then.

    Args:
        firmware: "bios", or "uefi" with secure boot, which is what KubeVirt starts without further settings.
    """
    folder.mkdir(parents=True)
    guest = Guest(folder, _free_port())
    _seed(folder)
    backing: Mapping[str, str] = {"driver": "qcow2", "file.filename": str(image)}
    base = "json:" + json.dumps(backing)
    create: list[str | Path] = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base]
    proc.run([*create, folder / "disk.qcow2", "14G"], timeout=SHORT_SECONDS)
    argv = [*proc.ending_with_us(), "qemu-system-x86_64", *_hardware(guest.port), *_firmware(folder, firmware)]
    service = proc.spawn(argv, log=folder / "qemu.log", cwd=folder)
    try:
        guest.await_login()
        yield guest
    finally:
        service.stop(grace=1.0)


def _seed(folder: Path) -> None:
    """Make a NoCloud volume as KubeVirt does."""
    proc.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], timeout=SHORT_SECONDS)
    seed = folder / "seed"
    seed.mkdir()
    key = (folder / "key.pub").read_text(encoding="utf-8").strip()
    (seed / "user-data").write_text(user_data(key), encoding="utf-8")
    (seed / "meta-data").write_text("instance-id: cp-0.cell\nlocal-hostname: cp-0\n", encoding="utf-8")
    words: list[str | Path] = ["xorriso", "-as", "mkisofs", "-quiet", "-V", "cidata", "-J", "-R"]
    proc.run([*words, "-o", folder / "seed.iso", seed], timeout=SHORT_SECONDS)


def _hardware(port: int) -> list[str]:
    words = "-machine q35,smm=on -accel tcg -cpu max -smp 2 -m 1536 -nodefaults -display none -no-reboot"
    words += " -drive file=disk.qcow2,if=virtio,format=qcow2"
    words += " -drive file=seed.iso,if=virtio,format=raw,readonly=on"
    words += f" -netdev user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22 -device virtio-net-pci,netdev=net"
    words += " -device virtio-serial -chardev socket,id=agent,path=agent,server=on,wait=off"
    words += " -device virtserialport,chardev=agent,name=org.qemu.guest_agent.0"
    words += " -device virtio-rng-pci -serial file:serial.log"
    return words.split()


def _firmware(folder: Path, firmware: str) -> list[str]:
    if firmware == "bios":
        return []
    shutil.copyfile(OVMF / "OVMF_VARS_4M.ms.fd", folder / "vars.fd")
    words = "-global ICH9-LPC.disable_s3=1 -global driver=cfi.pflash01,property=secure,value=on"
    words += f" -drive if=pflash,unit=0,format=raw,readonly=on,file={OVMF}/OVMF_CODE_4M.secboot.fd"
    words += " -drive if=pflash,unit=1,format=raw,file=vars.fd"
    return words.split()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
