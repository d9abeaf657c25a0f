"""What a machine printed is read."""

from __future__ import annotations

import pytest

from harness.validate.facts.node import version_in


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Kubernetes v1.36.3", "1.36.3"),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 0123abc", "2.4.2"),
        ("runc version 1.5.2\nspec: 1.3.0", "1.5.2"),
        ("CNI bridge plugin v1.9.1\nCNI protocol versions supported: 0.1.0", "1.9.1"),
        ("v1.37.0-rc.1", "1.37.0-rc.1"),
        ("failed: timed out", ""),
        (None, ""),
    ],
)
def test_a_version_is_read_from_what_a_program_says(said: str | None, version: str) -> None:
    assert version_in(said) == version
