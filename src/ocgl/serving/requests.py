"""Who may ask, and how a request is read: in bounded memory and time, with answers that name what is wrong."""

import asyncio
import re
from typing import Any

import msgspec
from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ocgl.errors import OcglError
from ocgl.serving.calls import Problem
from ocgl.serving.keys import Keys

OPEN = ("/healthz", "/readyz", "/", "/static/uplot.js", "/static/uplot.css")
"""Paths that need no key: the dashboard itself holds no data."""
SCOPES_OF_PATHS = {"/v1/admin": "admin", "/v1/events": "ingest", "/v1/log": "follow"}
"""Scopes that paths need, by their beginnings; all others need `predict`."""
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
SLOWEST_BODY = 30.0
"""Seconds in which a body must have arrived."""


class ProblemError(Exception):
    """An answer as problem+json (RFC 9457)."""

    def __init__(
        self, status: int, title: str, detail: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        self.status, self.headers = status, headers or {}
        self.body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
        super().__init__(detail)

    @classmethod
    def of(cls, problem: Problem) -> "ProblemError":
        """Return the answer that says a problem."""
        return cls(problem.status, problem.title, problem.detail, problem.headers, **problem.more)


class Guard:
    """Lets nobody through who may not, before anything else is done for a request.

    Args:
        app: the application behind it.
        keys: the API keys.
        closed: whether a key is needed.
    """

    def __init__(self, app: ASGIApp, keys: Keys, closed: bool) -> None:
        self._app, self._keys, self._closed = app, keys, closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "http":
            try:
                _check_access(Request(scope), self._keys, self._closed)
            except ProblemError as error:
                refused = JSONResponse(error.body, error.status, error.headers, "application/problem+json")
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _check_access(request: Request, keys: Keys, closed: bool) -> None:
    """Refuse who has no key, or the wrong one."""
    if not closed and not LOOPBACK.fullmatch(request.headers.get("host", "")):
        raise ProblemError(421, "Misdirected request", "this service answers to the names of the loopback address only")
    path = request.url.path
    if path in OPEN:
        return
    try:
        if not closed and not len(keys):
            return
        scopes = keys.scopes_of(_key_of(request))
    except OcglError as error:
        raise ProblemError(503, "Not ready", "the keys of this service cannot be read") from error
    if scopes is None:
        raise ProblemError(401, "Unauthorized", "give a valid key", {"www-authenticate": "Bearer"})
    needed = next((scope for beginning, scope in SCOPES_OF_PATHS.items() if path.startswith(beginning)), "predict")
    if needed not in scopes and "admin" not in scopes:
        raise ProblemError(403, "Forbidden", f"this key has no scope {needed}")


def _key_of(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """Return the media type of a body; refuse others than those allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in allowed:
        raise ProblemError(415, "Unsupported media type", f"send {' or '.join(allowed)}")
    return kind


async def read(request: Request, most: int) -> bytes:
    """Read a body of bounded size in bounded time."""
    length = request.headers.get("content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise ProblemError(413, "Too large", f"a body has at most {most:,} bytes")
    found = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise ProblemError(413, "Too large", f"a body has at most {most:,} bytes")
    except TimeoutError as error:
        raise ProblemError(408, "Too slow", f"a body must arrive within {SLOWEST_BODY:g} seconds") from error
    return bytes(found)


def decode(kind: Any, body: bytes) -> Any:
    """Read a body of JSON as a given type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProblemError(422, "Wrong body", str(error)) from error
