"""Which cells of a run have items left after `-k` and similar options, and whether these are whole lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.errors import BadInput, NothingSelected

LAST_ITEM = "::test_gone["


def items_of(cells: Iterable[str], collection: Sequence[str]) -> dict[str, list[int]]:
    """Return the items of each cell that has any, as indices of the collection.

    Args:
        cells: ids.  collection: the names of all items, those of a cell in the order in which they run.

    Raises:
        NothingSelected: no cell has an item.  BadInput: the items of a cell do not end as its life does.
    """
    found = {cell: _items(cell, collection) for cell in cells}
    begun = {cell: items for cell, items in found.items() if items}
    if not begun:
        raise NothingSelected("no check was selected", hint="`--collect-only` lists the checks")
    for cell, items in begun.items():
        if LAST_ITEM not in collection[items[-1]]:
            raise BadInput(
                f"{cell}: the selection leaves out the last step",
                hint="run the whole of tests/cells, or run without -n",
            )
    return begun


def _items(cell: str, collection: Sequence[str]) -> list[int]:
    marks = (f"[{cell}]", f"[{cell}-")
    return [number for number, name in enumerate(collection) if any(mark in name for mark in marks)]
