"""The admission webhooks of KubeVirt and CDI: the rules as plain functions, and the server that applies them.

Rules: vm*.py and vmi.py for KubeVirt's kinds, datavolume.py and dv_sources.py for CDI's; what they answer was recorded
from the real ones (tests/contract/recorded). Devices that vmatrix never renders (GPUs, SEV, SR-IOV gates, NUMA, CPU
pinning) are not judged.
"""

from __future__ import annotations

from harness.embedded.admission.configuration import configurations
from harness.embedded.admission.server import serve

__all__ = ["configurations", "serve"]
