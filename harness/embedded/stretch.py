"""How the process is told to be more patient: by a variable, so that a running one is not started anew for it."""

from __future__ import annotations

STRETCH = "EMBEDDED_STRETCH"  # environment variable: factor for what it waits for at its start and at a machine's
