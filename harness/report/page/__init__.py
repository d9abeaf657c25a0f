"""The nightly report as one HTML file that needs nothing else: no network, no server, no other file.

`render` is all there is to call. What the document holds is decided by harness.report.output; how it is packed into the
page by `pack`; what is put together, and what the browser may run of it, by `assemble`. assets/ has the page's script,
style and template.
"""

from harness.report.page.assemble import render
from harness.report.page.pack import MOST_BYTES

__all__ = ["MOST_BYTES", "render"]
