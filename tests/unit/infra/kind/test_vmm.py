"""The guest's code is what its source says, and it is placed where a processor begins."""

from __future__ import annotations

from pathlib import Path

from harness import proc
from harness.infra.kind import vmm

SOURCE = Path(vmm.__file__).with_name("guest.S")


def test_the_code_is_assembled_from_its_source(tmp_path: Path) -> None:
    assembled, linked = tmp_path / "guest.o", tmp_path / "guest.bin"
    proc.run(["as", "--64", "-o", assembled, SOURCE], timeout=60)
    link: list[str | Path] = ["ld", "-m", "elf_x86_64", "--oformat", "binary", "-Ttext", "0", "-e", "_start"]
    proc.run([*link, "-o", linked, assembled], timeout=60)

    assert linked.read_bytes() == vmm.CODE


def test_the_rom_begins_with_the_code_and_ends_with_the_reset_vector() -> None:
    rom = vmm.rom()

    assert len(rom) == vmm.ROM_SIZE
    assert rom.startswith(vmm.CODE)
    assert rom[-16:].startswith(vmm.RESET)


def test_every_stage_is_explained_in_the_source() -> None:
    text = SOURCE.read_text(encoding="utf-8")

    said = [line.split("'")[1] for line in text.splitlines() if line.partition("says")[2].strip().startswith("'")]
    assert [letter for letter in said if letter != "!"] == list(vmm.STAGES)
