"""Level-triggered controllers: a queue of keys, one reconcile at a time per key, retries with growing delay."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Informer, Key, Listener, key_of
from harness.kube.objects import controller_of
from harness.kube.resources import Resource
from harness.until import Deadline

log = logging.getLogger(__name__)
FIRST_RETRY_SECONDS = 0.1  # pacing, doubled with each failure
LAST_RETRY_SECONDS = 15.0  # the longest pause between two tries of one object

# Brings one object's world to its desired state; returns seconds after which to look again, None for "when it changes".
Reconcile = Callable[[Key], float | None]


class Queue:
    """Keys to look at, each at most once, some only later; a key under work is never handed out twice."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._busy: set[Key] = set()
        self._changed = threading.Condition()
        self._closed = False

    def add(self, key: Key, *, delay: float = 0.0) -> None:
        """Ask for a key to be looked at after `delay` seconds; the earliest request wins."""
        due = time.monotonic() + delay
        with self._changed:
            if key in self._due and self._due[key] <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.notify()

    def take(self) -> Key | None:
        """Block until a key is due and hand it out; None when the queue was closed."""
        with self._changed:
            while not self._closed:
                wait = self._next_wait()
                if isinstance(wait, tuple):
                    return wait
                self._changed.wait(wait)
            return None

    def _next_wait(self) -> Key | float | None:
        """Return a key that is due, or the seconds until one will be (None: nothing is waiting)."""
        held: list[tuple[float, Key]] = []
        answer: Key | float | None = None
        while self._heap:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) != due:
                continue
            if key in self._busy:
                held.append((due, key))
                continue
            if due > time.monotonic():
                held.append((due, key))
                answer = max(0.0, due - time.monotonic())
                break
            del self._due[key]
            self._busy.add(key)
            answer = key
            break
        for entry in held:
            heapq.heappush(self._heap, entry)
        return answer

    def done(self, key: Key) -> None:
        """Say that the work on a key has ended."""
        with self._changed:
            self._busy.discard(key)
            self._changed.notify_all()

    def __len__(self) -> int:
        """Return how many keys wait, those that are only due later included."""
        with self._changed:
            return len(self._due)

    def pending(self) -> int:
        """Return how many keys are due or under work, those that are only due later aside."""
        now = time.monotonic()
        with self._changed:
            return len(self._busy | {key for key, due in self._due.items() if due <= now})

    def close(self) -> None:
        """Let every `take` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Controller:
    """Runs one reconcile function over a queue with a few worker threads.

    Attributes: reconciles (how often it was called since the start), errors (how often it failed; a conflict or a
    deletion is not counted).
    """

    def __init__(self, name: str, reconcile: Reconcile, *, workers: int = 2) -> None:
        self.name = name
        self.queue = Queue()
        self._reconcile = reconcile
        self._workers = workers
        self._failures: dict[Key, int] = {}
        self._threads: list[threading.Thread] = []
        self.reconciles = 0
        self.errors = 0

    def start(self) -> None:
        """Start the worker threads (daemons)."""
        for number in range(self._workers):
            self._threads.append(threading.Thread(target=self._work, name=f"{self.name}-{number}", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Let the workers end after what they are doing."""
        self.queue.close()

    def join(self, seconds: float) -> bool:
        """Wait for the workers to end, after `stop`; tell whether they did within so many seconds."""
        deadline = Deadline.after(seconds)
        for thread in self._threads:
            thread.join(deadline.remaining())
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            self.reconciles += 1
            try:
                again = self._reconcile(key)
            except Exception as error:  # noqa: BLE001 - a controller must survive anything one object does to it
                again = self._retry_delay(key, error)
            else:
                self._failures.pop(key, None)
            if again is not None:
                self.queue.add(key, delay=again)
            self.queue.done(key)

    def _retry_delay(self, key: Key, error: Exception) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** (count - 1))
        if isinstance(error, ApiFailure) and (error.conflict or error.terminating or (error.not_found and count == 1)):
            return FIRST_RETRY_SECONDS if not error.terminating else delay  # somebody changed or deleted something
        self.errors += 1
        expected = isinstance(error, VmatrixError)
        level, text = logging.WARNING if expected else logging.ERROR, "%s %s/%s failed, again in %.1f s: %s"
        log.log(level, text, self.name, *key, delay, error, exc_info=not expected)
        return delay


def owner_key(obj: Json, owner: Resource) -> Key | None:
    """Return the key of the object's controller if that is of the kind, in whatever version of its group."""
    reference = controller_of(obj)
    if reference is None or reference.get("kind") != owner.kind:
        return None
    group, slash, _ = str(reference.get("apiVersion", "")).rpartition("/")
    if (group if slash else "") != owner.group:
        return None
    return (obj["metadata"].get("namespace", "") if owner.namespaced else "", str(reference["name"]))


class Followed(Protocol):
    """What tells listeners of changes, as an Informer does."""

    def subscribe(self, listener: Listener) -> None:
        """Add a listener."""


def follow(objects: Followed, queue: Queue) -> None:
    """Have every change of an object put it into a queue; call it before the informers start."""
    objects.subscribe(lambda _, obj: queue.add(key_of(obj)))


def follow_children(children: Informer, owner: Resource, queue: Queue) -> None:
    """Have every change of a child put its owner into a queue; call it before the informers start."""

    def changed(_: str, obj: Json) -> None:
        key = owner_key(obj, owner)
        if key is not None:
            queue.add(key)

    children.subscribe(changed)
