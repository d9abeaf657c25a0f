"""The nightly report as one HTML file that needs nothing else: no network, no server, no other file."""

from harness.report.page.assemble import render
from harness.report.page.pack import MOST_BYTES

__all__ = ["MOST_BYTES", "render"]
