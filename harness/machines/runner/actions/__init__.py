"""The folder from which ansible-playbook loads our action plugin."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
ACTION = "vmatrix_connection"
