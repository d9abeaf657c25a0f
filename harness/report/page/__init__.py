"""The nightly report as one HTML file that needs nothing else: no network, no server, no other file."""

from harness.report.page.assemble import MOST_BYTES, render

__all__ = ["MOST_BYTES", "render"]
