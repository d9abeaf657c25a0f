"""What the trial says of a KVM is true: shown with emulated processors, with a stock kernel's KVM, and on this host.

Everything but the last test is the same on a host with a good KVM, a bad one, and none. Needs Debian's qemu-system-x86
and its package mirror.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.infra.kind import kvm, vmm
from harness.infra.kind.kvm import KvmState, Trial, read
from tests.kind import emulated
from tests.kind.emulated import Kernel

GUEST_SECONDS = 120.0  # half a second on an idle host
TRIAL_SECONDS = 600.0  # 30 s: a kernel boots on an emulated processor
KERNEL_SECONDS = 60.0  # of a kernel on KVM or emulated: 2 s; on a KVM that does not work it prints nothing for minutes
PANIC = "Kernel panic - not syncing: VFS: Unable to mount root fs"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    assert shutil.which(emulated.QEMU), "apt-get install --yes qemu-system-x86"
    return emulated.stock_kernel(tmp_path_factory.mktemp("kernel"))


def test_the_guest_gets_to_its_end_on_a_processor_that_is_right(tmp_path: Path) -> None:
    assert shutil.which(emulated.QEMU), "apt-get install --yes qemu-system-x86"

    assert emulated.run_guest(tmp_path, GUEST_SECONDS) == "".join(vmm.STAGES)


def test_a_kvm_that_works_is_found_to_work(tmp_path: Path, kernel: Kernel) -> None:
    lines = emulated.try_in_kernel(tmp_path, kernel, TRIAL_SECONDS)

    assert read(Trial(lines, 0)).state is KvmState.WORKS, lines


def test_the_verdict_on_this_host_is_that_of_a_stock_kernel(tmp_path: Path, kernel: Kernel) -> None:
    found = kvm.judge_kvm(kept=tmp_path / "kvm.json")

    booted = {accel: PANIC in emulated.boot_kernel(accel, kernel, KERNEL_SECONDS) for accel in ("tcg", "kvm")}

    assert booted == {"tcg": True, "kvm": found.state is KvmState.WORKS}, found
