"""The folder from which ansible-playbook loads our callback plugin, beside those of the product."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
EVENTS = "ANSIBLE_VMATRIX_EVENTS"  # the environment variable with the file that the plugin writes
CHANGES = "ANSIBLE_VMATRIX_CHANGES"  # set where tasks that change something are written, too
