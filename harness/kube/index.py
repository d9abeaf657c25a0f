"""Which objects have a value: kept with each change, so that nobody has to look at all of them to find a few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

from harness.kube.failures import Json

Key = tuple[str, str]
By = Callable[[Json], Hashable | None]


class Index:
    """Keys of objects by a value of theirs; not thread-safe."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._keys: dict[Hashable, dict[Key, None]] = {}  # in the order in which they came, as in the copy itself
        self._values: dict[Key, Hashable] = {}

    def put(self, key: Key, obj: Json | None) -> None:
        """Take in an object as it is now; None: it is gone."""
        value, before = (self._by(obj) if obj is not None else None), self._values.get(key)
        if before is not None and before != value:
            del self._values[key], self._keys[before][key]
            if not self._keys[before]:
                del self._keys[before]
        if value is not None:
            self._values[key] = value
            self._keys.setdefault(value, {})[key] = None

    def keys(self, value: Hashable) -> Collection[Key]:
        """Return the keys of the objects that have a value."""
        return self._keys.get(value, ())
