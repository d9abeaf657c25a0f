"""The host bridge that carries an instance's addresses, for machines without an infra cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.embedded.machines import Names

SECONDS = 20.0


@contextmanager
def instance_address(names: Names) -> Iterator[None]:
    """Have the instance's addresses on a bridge without ports."""
    bridge = f"vmx{names.index}"
    if not Path("/sys/class/net", bridge).exists():
        proc.run(["ip", "link", "add", bridge, "type", "bridge"], timeout=SECONDS)
        Path(f"/proc/sys/net/ipv4/conf/{bridge}/forwarding").write_text("0", encoding="utf-8")
        for key, value in (("disable_ipv6", "0"), ("accept_ra", "0"), ("forwarding", "0")):
            Path(f"/proc/sys/net/ipv6/conf/{bridge}/{key}").write_text(value, encoding="utf-8")
    proc.run(["ip", "addr", "replace", f"{names.instance_address}/32", "dev", bridge], timeout=SECONDS)
    proc.run(["ip", "addr", "replace", f"{names.instance_address6}/128", "dev", bridge, "nodad"], timeout=SECONDS)
    proc.run(["ip", "link", "set", bridge, "up"], timeout=SECONDS)
    try:
        yield
    finally:
        proc.run(["ip", "link", "del", bridge], timeout=SECONDS)
