"""Solving for weights in a thread of its own, for a bounded share of the time."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ocgl.serving.published import Model

SHARE = 0.1
"""Most of the time that solving for the weights of a strategy may take."""


class Solver:
    """Solves for the weights of closed forms beside everything else.

    Args:
        done: called in the solving thread when weights are there.
    """

    def __init__(self, done: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="solve")
        self._done = done
        self._solved: deque[tuple[str, Future[Any]]] = deque()
        self._not_before: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._fresh: dict[str, float] = {}
        self._began = time.monotonic()

    def rests(self, name: str) -> bool:
        """Return whether the weights of a strategy have had their share of the time for now."""
        return time.monotonic() < self._not_before.get(name, 0.0)

    def begin(self, name: str, solving: Callable[[], Any]) -> None:
        """Solve for the weights of a strategy as of now."""
        self._since[name] = time.monotonic()

        def solve() -> Any:
            begin = time.thread_time()  # not the time on the clock: on a busy machine that would put off the next solve
            try:
                return solving()
            finally:
                spent = time.thread_time() - begin
                self._not_before[name] = time.monotonic() + (1 / SHARE - 1) * spent

        def end(future: "Future[Any]") -> None:
            self._solved.append((name, future))
            self._done()

        self._pool.submit(solve).add_done_callback(end)

    def finish(self, models: Mapping[str, Model]) -> None:
        """Solve now for what was being solved for when the service ended."""
        for name, model in models.items():
            if model.solving is not None:
                found: Future[Any] = Future()
                try:
                    found.set_result(model.solving() if callable(model.solving) else model.solving)
                except Exception as error:
                    found.set_exception(error)
                self._solved.append((name, found))

    def solved(self) -> Iterator[tuple[str, "Future[Any]"]]:
        """Return what was solved for since the last call; what the caller cannot publish is there again."""
        while self._solved:
            yield self._solved[0]
            self._solved.popleft()

    def published(self, name: str) -> None:
        """Note that the weights that were last solved for answer from now on."""
        self._fresh[name] = self._since.get(name, time.monotonic())

    def age(self, name: str) -> float:
        """Return the seconds since the answering weights of a strategy were up to date."""
        return time.monotonic() - self._fresh.get(name, self._began)

    def close(self) -> None:
        """End the thread, after what it is doing."""
        self._pool.shutdown(wait=True)
