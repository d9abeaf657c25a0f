"""What holds for every unit test: hypothesis judges results, never times, which a busy host decides."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
