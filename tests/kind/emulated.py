"""Machines that QEMU emulates without any KVM: a firmware of ours, a stock kernel, a kernel with a real KVM in it.

QEMU's own emulation of AMD's virtualization extensions lets a stock kernel's KVM work on any host.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.infra.kind import vmm

QEMU = "qemu-system-x86_64"
DOWNLOAD_SECONDS = 600.0
UNPACK_SECONDS = 120.0
MODULES = ("rng-core", "irqbypass", "ccp", "kvm", "kvm-amd")  # in the order in which they can be loaded
INIT = """\
#!{python} -S
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None)
libc.mount(b"dev", b"/dev", b"devtmpfs", 0, None)
for module in {modules!r}:
    if os.path.exists("/" + module):
        libc.syscall(313, os.open("/" + module, os.O_RDONLY), b"", 0)  # finit_module
sys.path.insert(0, "/project")
from harness.infra.kind import vmm
print("trial:", flush=True)
vmm.main(Path("/dev/kvm"))
libc.reboot(0x4321FEDC)  # power off
"""


@dataclass(frozen=True)
class Kernel:
    """A stock kernel: its image, and those of its modules by name that make KVM."""

    image: Path
    modules: Mapping[str, Path]


def stock_kernel(folder: Path) -> Kernel:
    """Download Debian's kernel and unpack it; nothing is installed."""
    seen = proc.run(["apt-cache", "depends", "linux-image-amd64"], timeout=UNPACK_SECONDS).stdout
    package = next(line.split()[-1] for line in seen.splitlines() if "Depends: linux-image-" in line)
    folder.chmod(0o755)
    proc.run(["apt-get", "download", package], timeout=DOWNLOAD_SECONDS, cwd=folder)
    proc.run(["dpkg", "-x", next(folder.glob("*.deb")), folder / "files"], timeout=UNPACK_SECONDS)
    found = {path.name.partition(".ko")[0]: path for path in (folder / "files").rglob("*.ko*")}
    image = next((folder / "files" / "boot").glob("vmlinuz-*"))
    return Kernel(image, {name: found[name] for name in MODULES if name in found})


def boot(accel: str, words: Sequence[str | Path], seconds: float, *, memory_mib: int = 256) -> str:
    """Run a machine until it ends, or for so long, and return what it printed on its serial port."""
    argv: list[str | Path] = [QEMU, "-accel", accel, "-m", str(memory_mib), "-nodefaults", "-display", "none"]
    lines: list[str] = []
    with suppress(proc.CommandFailed):  # it was still running
        proc.run([*argv, "-no-reboot", "-serial", "stdio", *words], timeout=seconds, check=False, on_line=lines.append)
    return "\n".join(lines)


def boot_kernel(accel: str, kernel: Kernel, seconds: float) -> str:
    """Boot a kernel that finds no root and ends in a panic; return what it printed."""
    append = "console=ttyS0 earlyprintk=serial,ttyS0 panic=-1 reboot=t"
    return boot(accel, ["-kernel", kernel.image, "-append", append], seconds)


def run_guest(folder: Path, seconds: float) -> str:
    """Run our guest as the firmware of an emulated PC; return the letters that it said."""
    rom, said = folder / "rom.bin", folder / "said"
    rom.write_bytes(vmm.rom())
    ports = ["-debugcon", f"file:{said}", "-device", f"isa-debug-exit,iobase={vmm.ENDS:#x}"]
    boot("tcg", ["-bios", rom, *ports], seconds, memory_mib=16)
    return said.read_text()


def try_in_kernel(folder: Path, kernel: Kernel, seconds: float) -> list[str]:
    """Run our monitor and guest with the KVM of a stock kernel, on an emulated processor; return what it printed."""
    archive = folder / "initramfs"
    archive.write_bytes(b"".join(_archive(dict(_files(kernel)))))
    words: list[str | Path] = ["-cpu", "qemu64,+svm,+npt", "-kernel", kernel.image, "-initrd", archive]
    append = "console=ttyS0 panic=-1 quiet PYTHONHASHSEED=0"  # a variable for init, which starts without random numbers
    printed = boot("tcg", [*words, "-append", append], seconds, memory_mib=1024)
    _, _, after = printed.replace("\r", "").partition("trial:\n")
    return [line for line in after.splitlines() if line and not line.startswith("[")]


def _files(kernel: Kernel) -> Iterator[tuple[str, bytes | Path]]:
    """Yield what the machine has: this Python with its libraries, the kernel's modules, our package, and its init."""
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    yield "init", INIT.format(python=python, modules=MODULES).encode()
    binaries = [python, *(library / "lib-dynload").glob("*.so")]
    for path in {*binaries, *(found for binary in binaries for found in _libraries(binary))}:
        yield str(path).lstrip("/"), path
    sources = [*library.glob("*.py")]
    for name in ("collections", "ctypes", "encodings", "importlib", "json", "re", "urllib"):
        sources += (library / name).rglob("*.py")
    for path in sources:
        yield str(path).lstrip("/"), path
    package = Path(vmm.__file__).parent
    for path in (*package.glob("*.py"), package.parent / "__init__.py", package.parents[1] / "__init__.py"):
        yield f"project/{path.relative_to(package.parents[2])}", path
    for name, path in kernel.modules.items():
        yield name, path


def _libraries(binary: Path) -> Iterator[Path]:
    """Yield the libraries of a program or of another library, under the names by which they are looked for."""
    for line in proc.run(["ldd", binary], timeout=UNPACK_SECONDS, check=False).stdout.splitlines():
        yield from (Path(word) for word in line.split() if word.startswith("/"))


def _archive(files: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """Yield an initramfs: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel."""
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."} | {"dev"}
    for name in sorted(folders):
        yield _entry(name, stat.S_IFDIR | 0o755, b"")
    for name, source in files.items():
        yield _entry(name, stat.S_IFREG | 0o755, source if isinstance(source, bytes) else source.read_bytes())
    yield _entry("TRAILER!!!", 0, b"")


def _entry(name: str, mode: int, content: bytes) -> bytes:
    encoded = os.fsencode(name) + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + encoded
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
