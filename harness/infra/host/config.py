"""What an instance is made of, given by the caller: where programs come from is not known here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.infra.host.layout import Layout
from harness.infra.host.program import HostCommand

UP_SECONDS = 240.0  # unless instance_up of timeouts.yml is given, for what only looks or takes down


@dataclass(frozen=True)
class HostConfig:
    """One instance's settings.

    Attributes:
        layout: the instance's name and folder.
        binaries: returns the path of a host binary ("etcd", "kube-apiserver", ...).
        mirror: returns how to serve binaries and disk images at host:port.
        registry: returns how to serve images at host:port.
        publish: puts the images into the registry at host:port; called when that answers.
        prepare: obtains everything the above need; may take long, so it is called before anything is started.
        prepared: tells whether `prepare` has nothing to do.
        up_seconds: how long the programs may take together to become ready.
        api_flags: flags of kube-apiserver by name, besides its usual ones: an audit log, another way to log in.
    """

    layout: Layout
    binaries: Callable[[str], Path]
    mirror: Callable[[str], HostCommand]
    registry: Callable[[str], HostCommand]
    publish: Callable[[str], object]
    prepare: Callable[[], object]
    prepared: Callable[[], bool]
    up_seconds: float = UP_SECONDS
    api_flags: Mapping[str, object] = field(default_factory=dict)
