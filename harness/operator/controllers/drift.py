"""Files that the playbooks own: as the last operation left them, and what was changed on the machine since; pure.

Nothing that an operation does is a change. A change that was seen before is forgotten only by an operation that put
the file back, or wrote another one: an operation that passes it by has not made it right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase

from harness.kube.client import Json
from harness.kube.objects import dig, stamp
from harness.operator.api.conditions import SETTINGS_AS_APPLIED, new
from harness.operator.api.machine_health import FILES
from harness.operator.decide.observed import SUCCEEDED

WHOLE = frozenset({"deploy", "upgrade", "reconfigure", "recover", "adopt"})  # they put back all that reconfigure does
QUIET = frozenset({"backup", "certificates", "addons"})  # they write none of the files
# What reconfigure.yml puts back; of the other files, an operation that wants another content writes it.
PUT_BACK = (
    *(f"/etc/kubernetes/manifests/{name}.yaml" for name in ("etcd", "kube-apiserver")),
    *(f"/etc/kubernetes/manifests/kube-{name}.yaml" for name in ("controller-manager", "scheduler")),
    "/etc/kubernetes/kubeadm.yml",
    "/etc/kubernetes/patches/*",
    "/etc/kubernetes/flannel.yml",
    "/etc/kubernetes/pod-routes.yml",
    "/etc/etcd/kubeadm.yml",
    "/var/lib/kubelet/config.yaml",
    "/etc/containerd/*",
    "/etc/containers/registries.conf.d/*",
    "/etc/crictl.yaml",
    "/etc/crio/*",
    "/etc/systemd/system/containerd.service",
    "/etc/systemd/system/crio.service",
    "/etc/systemd/system/etcd.service",
    "/etc/systemd/system/pod-routes.service",
    "/etc/systemd/system/flannel-cni.*",
    "/usr/local/lib/*",
)
GONE = "-"
CHANGED, NOT_PUT_BACK = "Changed", "NotPutBack"
NAMED = 5  # files that a message names


def last_writer(cluster: Json) -> tuple[str, str] | None:
    """Return number and name of the last successful operation that wrote settings, None if none is remembered."""
    for past in dig(cluster, "status", "history") or ():
        if past.get("outcome") == SUCCEEDED and past["operation"] not in QUIET:
            return _number(past), past["operation"]
    return None


def last_end(cluster: Json) -> str:
    """Return the number of the last operation that ended, "" if none did. What was seen before it may be old."""
    return next((_number(past) for past in dig(cluster, "status", "history") or ()), "")


def put_back(path: str) -> bool:
    """Tell whether the operation reconfigure makes a file as it has to be."""
    return any(fnmatchcase(path, pattern) for pattern in PUT_BACK)


def settled(before: Json | None, files: Mapping[str, str], writer: tuple[str, str] | None) -> Json:
    """Return a Machine's `settings` after a look at its files.

    Args:
        before: as they were at the last look.  files: digests by path.  writer: see last_writer.
    """
    number, operation = writer or (dig(before, "operation") or "", "")
    expected, known = _read(dig(before, "files") or ()), _read(dig(before, "changed") or ())
    if before is None or number != before.get("operation"):
        passed_by = {
            path
            for path, digest in known.items()
            if files.get(path, GONE) == digest and not (operation in WHOLE and put_back(path))
        }
        wanted = {path: digest for path, digest in files.items() if path not in passed_by}
        expected = {**wanted, **{path: expected[path] for path in passed_by if path in expected}}
    paths = [path for path in {**expected, **files} if expected.get(path) != files.get(path)]
    return {
        "operation": number,
        "files": _written(expected),
        "changed": _written({path: files.get(path, GONE) for path in paths}),
    }


def as_applied(settings: Json, moment: datetime) -> Json:
    """Return the condition SettingsAsApplied of a Machine with these settings."""
    expected, changed = _read(settings["files"]), _read(settings["changed"])
    if not changed:
        return new(SETTINGS_AS_APPLIED, True, "AsApplied", "files are as the last operation left them", moment, None)
    said = [
        f"{path} {'is gone' if digest == GONE else 'was changed' if path in expected else 'was added'}"
        for path, digest in sorted(changed.items())
    ]
    words = ", ".join([*said[:NAMED], *([f"and {len(said) - NAMED} more"] if len(said) > NAMED else [])])
    words = f"seen at {stamp(moment)}: {words}"
    if any(map(put_back, changed)):
        return new(SETTINGS_AS_APPLIED, False, CHANGED, words, moment, None)
    hint = "no operation puts this back: do it by hand, or replace the machine"
    return new(SETTINGS_AS_APPLIED, False, NOT_PUT_BACK, f"{words}; {hint}", moment, None)


def _number(past: Json) -> str:
    return f"{past['sequence']}-{past.get('attempt', 1)}"


def _read(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition(" ") for line in lines)
    return {path: digest for digest, _, path in pairs}


def _written(digests: Mapping[str, str]) -> list[str]:
    return [f"{digest} {path}" for path, digest in sorted(digests.items())[:FILES]]
