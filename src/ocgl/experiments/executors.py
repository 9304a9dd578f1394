"""Executors for trials and runs: processes on this machine, or a dask cluster."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import Any, ParamSpec, TypeVar

from ocgl.errors import MissingExtraError

P = ParamSpec("P")
T = TypeVar("T")
TRIES = 3
"""How often a call is tried if its process dies."""


class LocalExecutor(ThreadPoolExecutor):
    """Runs calls in long-lived spawned processes. If a process dies, only its call is lost, and it is tried again.

    Each thread of this pool has a process pool with one process, because a process that dies breaks its whole pool.

    Args:
        workers: number of processes.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, thread_name_prefix="ocgl")
        self._thread = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._stopped = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in one of the processes."""
        return super().submit(lambda: self._call(fn, *args, **kwargs))

    def _call(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        for attempt in range(TRIES):
            try:
                return self._pool(fresh=attempt > 0).submit(fn, *args, **kwargs).result()
            except BrokenProcessPool:
                if attempt + 1 == TRIES or self._stopped:
                    raise
        raise AssertionError

    def _pool(self, fresh: bool) -> ProcessPoolExecutor:
        if fresh or not hasattr(self._thread, "pool"):
            self._thread.pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_ignore_interrupts)
            self._pools.append(self._thread.pool)
        pool: ProcessPoolExecutor = self._thread.pool
        return pool

    def stop(self) -> None:
        """Terminate the processes without waiting for their calls."""
        self._stopped = True
        super().shutdown(wait=False, cancel_futures=True)
        for pool in self._pools:
            for process in list((pool._processes or {}).values()):
                process.terminate()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down the threads and the processes."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait, cancel_futures=cancel_futures)


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole process group; the parent alone decides what to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """Yield an executor on a dask cluster.

    Args:
        address: address of the dask scheduler, such as `tcp://host:8786`.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("a dask cluster", "cluster") from error
    with Client(address) as client, client.get_executor(retries=TRIES) as executor:
        yield executor


def make_executor(workers: int, cluster: str | None = None) -> AbstractContextManager[Executor]:
    """Return an executor on a dask cluster, or on this machine.

    Args:
        workers: processes on this machine.
        cluster: address of a dask scheduler; replaces `workers`.
    """
    return cluster_executor(cluster) if cluster else LocalExecutor(workers)
