"""Writes of a status that several controllers write: what is to be written follows from what others wrote before."""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Informer, Key

TRIES = 5  # of a write that meets other writers'


def write_status(api: Cluster, objects: Informer, key: Key, make: Callable[[Json], Json]) -> Json | None:
    """Give keys of an object's status other values; return the object, None if it is gone.

    Args:
        make: returns the keys of an object as it is now, called again where somebody else wrote first.

    Raises:
        ApiFailure: the API refuses the write, or others wrote again and again.
    """
    found = objects.get(*key)
    for number in range(TRIES):
        if found is None:
            return None
        try:
            return objects.merge_status(found, make(found))
        except ApiFailure as failure:
            if failure.not_found:
                return None
            if not failure.conflict or number == TRIES - 1:
                raise
        found = api.get(objects.resource, key[1], key[0])
        if found is not None:
            objects.observe(found)
    return found
