"""Executors for trials and runs: processes on this machine, or a dask cluster."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import Any, ParamSpec, TypeVar

from ocgl.datasets import cache
from ocgl.errors import ConfigError, MissingExtraError

P = ParamSpec("P")
T = TypeVar("T")
TRIES = 3
"""How often a call is tried if its process dies."""


class LocalExecutor(ThreadPoolExecutor):
    """Runs calls in long-lived spawned processes. If a process dies, only its call is lost, and it is tried again.

    Each thread of this pool has a process pool with one process, because a process that dies breaks its whole pool.
    A process ends when the process that started it ends, however that ends.

    Args:
        workers: number of processes.
        memory: bytes that each process may take, where the system can limit that; None without a limit.
    """

    def __init__(self, workers: int, memory: int | None = None) -> None:
        if workers < 1:
            raise ConfigError(f"there must be at least one worker, not {workers}")
        super().__init__(workers, thread_name_prefix="ocgl")
        self._memory = memory
        self._thread = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._stopped = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in one of the processes."""
        return super().submit(lambda: self._call(fn, *args, **kwargs))

    def _call(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        for attempt in range(TRIES):
            try:
                return self._pool(fresh=attempt > 0).submit(_guarded, fn, args, kwargs).result()
            except BrokenProcessPool:
                if attempt + 1 == TRIES or self._stopped:
                    raise
        raise AssertionError

    def _pool(self, fresh: bool) -> ProcessPoolExecutor:
        if fresh or not hasattr(self._thread, "pool"):
            # what this process has compared with its checksum, the workers need not compare again
            arguments = (cache.checked(), self._memory)
            self._thread.pool = ProcessPoolExecutor(1, get_context("spawn"), _begin_worker, arguments)
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


def _guarded(fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    """Call a function; an exception that cannot be sent to the parent, which would end the process, is replaced."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


class InlineExecutor(Executor):
    """Runs calls in this process, one after the other, when they are submitted: for a debugger."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call now."""
        job: Future[T] = Future()
        try:
            job.set_result(fn(*args, **kwargs))
        except Exception as error:
            job.set_exception(error)
        return job


def _begin_worker(checked: frozenset[cache.Signature], memory: int | None) -> None:
    # Ctrl-C reaches the whole process group; the parent alone decides what to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cache.trust(checked)
    if memory is not None:
        _limit_memory(memory)
    threading.Thread(target=_end_with_parent, name="ocgl-parent", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, even by kill -9."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _limit_memory(size: int) -> None:
    """Let this process take no more than so many bytes of memory of its own, where the system can."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (size if hard < 0 else min(size, hard), hard))


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


def make_executor(
    workers: int, cluster: str | None = None, memory: int | None = None
) -> AbstractContextManager[Executor]:
    """Return an executor on a dask cluster, or on this machine.

    Args:
        workers: processes on this machine; 0 for this process itself.
        cluster: address of a dask scheduler; replaces `workers`.
        memory: bytes that each process on this machine may take.
    """
    if cluster:
        return cluster_executor(cluster)
    return LocalExecutor(workers, memory) if workers else InlineExecutor()
