"""The admission webhooks of KubeVirt and CDI: the rules as plain functions, and the server that applies them.

Rules: vm.py and instance_spec.py for KubeVirt's kinds, datavolume.py for CDI's; what they answer was recorded from the
real ones (tests/contract/recorded). Devices that vmatrix never renders (GPUs, SEV, SR-IOV gates, NUMA, CPU
pinning) are not judged.
"""

from __future__ import annotations

from harness.embedded.admission.webhooks import configurations, serve

__all__ = ["configurations", "serve"]
