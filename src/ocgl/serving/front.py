"""The process of a service that speaks HTTP; the graph is in another one, which starts it.

It reads, checks and packs requests beside the process that learns, and holds nothing that could be lost.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from ocgl.serving.api import make_app
from ocgl.serving.calls import Frames, Reply, frame, reply_of
from ocgl.serving.config import ServiceConfig
from ocgl.serving.keys import Keys
from ocgl.serving.logs import LogFormat, begin_logging
from ocgl.serving.requests import ProblemError

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Link(asyncio.Protocol):
    """Calls to the process that holds the graph."""

    def __init__(self) -> None:
        self.config: ServiceConfig | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._frames = Frames()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand out the answers that have come."""
        for payload in self._frames.put(data):
            reply: Reply = reply_of(payload)
            if reply.number == 0:
                self.config = ServiceConfig.model_validate(reply.value)
                continue
            waiting = self._waiting.pop(reply.number, None)
            if waiting is None or waiting.done():  # its client has gone
                continue
            if reply.problem is None:
                waiting.set_result(reply.value)
            else:
                waiting.set_exception(ProblemError.of(reply.problem))

    def connection_lost(self, error: Exception | None) -> None:
        """End: without the graph there is nothing to say."""
        os._exit(1)

    async def call(self, kind: type, *parts: Any) -> Any:
        """Call, and wait for the answer."""
        number = next(self._numbers)
        message = frame(kind(number, *parts))
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        return await waiting


def main() -> None:
    """Speak HTTP until told to stop, or until the other process is gone."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    options = json.loads(sys.argv[1])
    begin_logging(LogFormat(options["logs"]))
    link = Link()
    folder = Path(options["folder"])
    made = make_app(link, Keys(folder), folder)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.get_running_loop().create_connection(lambda: link, sock=socket.socket(fileno=options["link"]))
        yield

    made.router.lifespan_context = lifespan
    gc.collect()
    gc.freeze()  # the collector need not look at the objects of the libraries again and again
    config = uvicorn.Config(
        made,
        log_level="warning",
        access_log=False,
        log_config=None,
        http="h11",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=60,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=options["listening"])])


if __name__ == "__main__":
    main()
