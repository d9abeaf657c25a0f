"""Background work: prepare what will be needed, or tidy up, while something else is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness import threads
from harness.errors import VmatrixError


@contextmanager
def alongside(call: Callable[[], object], tell: Callable[[str], None]) -> Iterator[None]:
    """Do something in a thread while the body runs, and wait for it where that ends well; otherwise it is ended.

    A failure of it ends nothing: whoever needs what it was to make tries again, and says what is wrong then.

    Args:
        tell: told why it failed.
    """

    def work() -> None:
        try:
            call()
        except (VmatrixError, OSError) as error:
            tell(f"{error}; it is tried again when it is needed")

    with threads.begun(work) as ended:
        yield
        ended()


def in_background(call: Callable[[], object], tell: Callable[[str], None]) -> threading.Thread:
    """Do something in a thread that nobody has to wait for; it ends with this process at the latest.

    Args:
        call: may end anywhere, and does the rest the next time.
        tell: told why it failed.
    """

    def work() -> None:
        try:
            call()
        except (VmatrixError, OSError) as error:
            tell(f"{error}; it is tried again after the next build")

    thread = threading.Thread(target=work, name="behind", daemon=True)
    thread.start()
    return thread
