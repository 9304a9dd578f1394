"""Where trials run: on this machine's cores, or on a dask cluster, behind one interface."""

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


class LocalExecutor(ThreadPoolExecutor):
    """Long-lived spawned processes, one thread each. A process that dies costs only its trial, which is tried again.

    Each thread of this pool owns a process pool of one: a death breaks that one and no other.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, thread_name_prefix="ocgl")
        self._own = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._stopped = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a process of its own."""
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
        if fresh or not hasattr(self._own, "pool"):
            self._own.pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
            self._pools.append(self._own.pool)
        pool: ProcessPoolExecutor = self._own.pool
        return pool

    def stop(self) -> None:
        """End this pool's processes at once; what they have finished is on disk already."""
        self._stopped = True
        super().shutdown(wait=False, cancel_futures=True)
        for pool in self._pools:
            for process in list((pool._processes or {}).values()):
                process.terminate()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes as well."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait, cancel_futures=cancel_futures)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """Give an executor on a dask cluster: its scheduler's address, as dask's own launchers print it."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("a cluster", "cluster") from error
    with Client(address) as client, client.get_executor(retries=TRIES) as executor:
        yield executor


def make_executor(workers: int, cluster: str | None = None) -> AbstractContextManager[Executor]:
    """Give the executor that the user asked for."""
    return cluster_executor(cluster) if cluster else LocalExecutor(workers)
