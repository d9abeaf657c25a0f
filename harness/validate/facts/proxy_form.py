"""What kube-proxy says of its settings, by the names of its configuration file.

Since 1.36 it answers in the form of the file (v1alpha1). Before, it answers with its own structure, which has other
names and other places: https://github.com/kubernetes/kubernetes, pkg/proxy/apis/config/types.go of v1.34.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNKNOWN = object()  # what the older form has no place for
MOVED = {
    "clusterCIDR": "detectLocal.clusterCIDRs",
    "conntrack": "linux.conntrack",
    "oomScoreAdj": "linux.oomScoreAdj",
    "masqueradeAll": "linux.masqueradeAll",
}
MODES = ("iptables", "nftables", "ipvs")


def setting_of(config: Mapping[str, Any], path: str) -> Any:
    """Return a setting by its path in the file; None where it is not set, UNKNOWN where the older form lacks it."""
    if "BindAddress" not in config:
        return _at(config, path, None)
    first, _, rest = path.partition(".")
    if first in MODES and first != config.get("Mode"):
        return UNKNOWN
    if rest == "masqueradeAll":
        first, rest = rest, ""
    found = _at(config, ".".join(filter(None, (MOVED.get(first, first), rest))), UNKNOWN)
    return ",".join(found or ()) if path == "clusterCIDR" and found is not UNKNOWN else found


def _at(config: Any, path: str, missing: object) -> Any:
    """Return what is at a path, whatever the case of its names."""
    for name in path.split("."):
        if not isinstance(config, Mapping):
            return missing
        key = next((key for key in config if key.lower() == name.lower()), None)
        if key is None:
            return missing
        config = config[key]
    return config
