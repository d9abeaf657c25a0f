"""A machine's operating system is that of its disk image."""

from __future__ import annotations

from harness.validate.facts.images import system_of


def test_images_have_a_system() -> None:
    assert system_of("debian-13") == ("debian", "13")
    assert system_of("ubuntu-24.04-cloudimg") == ("ubuntu", "24.04")
    assert system_of("of-nobody") is None
