"""The HTTP API of a service."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

import ocgl
from ocgl.errors import OcglError
from ocgl.serving.calls import Ask, Ingest, Question, Tell, sendable
from ocgl.serving.checks import packed
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import Event, WrongEventError, parse
from ocgl.serving.keys import Keys
from ocgl.serving.log import LOG, Readers
from ocgl.serving.metrics import Metrics, Timed
from ocgl.serving.requests import Guard, ProblemError, decode, media_type, read
from ocgl.types import Json

NDJSON = "application/x-ndjson"
STATIC = {"uplot.js": "text/javascript", "uplot.css": "text/css"}
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
MOST_IDS = 10_000
LONGEST_READY = 10.0
"""Seconds after which a service that does not say whether it is ready is not."""


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a promotion."""

    strategy: str


class Caller(Protocol):
    """Where the service is.

    Attributes:
        config: its configuration; None while it starts.
    """

    config: ServiceConfig | None

    async def call(self, kind: type, *parts: Any) -> Any:
        """Make a call of a kind, and wait for the answer; raise `ProblemError` if there is none."""


def make_app(service: Caller, keys: Keys, folder: Path) -> FastAPI:
    """Make the application of a service.

    Args:
        service: where the service is.
        folder: its folder, whose log is read for those who follow it.
        keys: its API keys. Without any at the start, everybody who can connect may do everything, under the names of
            the loopback address only. With some, a key is needed as long as the service runs.
    """

    closed = len(keys) > 0
    readers = Readers(folder / LOG)

    def config() -> ServiceConfig:
        if service.config is None:
            raise ProblemError(503, "Not ready", "the service is starting", {"retry-after": "1"})
        return service.config

    async def call(kind: type, *parts: Any) -> Any:
        config()
        try:
            return await service.call(kind, *parts)
        except asyncio.CancelledError as error:  # uvicorn has waited long enough
            text = "the service ends before this was answered; it may have been taken: repeat it with its key"
            raise ProblemError(503, "Not ready", text, {"retry-after": "5"}) from error

    async def tell(what: str, *arguments: Any) -> Any:
        return await call(Tell, what, arguments)

    app = FastAPI(
        title="ocgl", version=ocgl.__version__, redoc_url=None,
        description="A service that learns from a growing graph. Events go in, answers come out.",
    )  # fmt: skip

    @app.exception_handler(ProblemError)
    async def problem(_: Request, error: ProblemError) -> Response:
        return JSONResponse(error.body, error.status, error.headers, "application/problem+json")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        detail = "; ".join(str(one.get("msg", "")) for one in error.errors())
        return await problem(_, ProblemError(422, "Wrong request", detail))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return await problem(_, ProblemError(error.status_code, str(error.detail), str(error.detail)))

    metrics = Metrics()
    app.add_middleware(Guard, keys=keys, closed=closed)
    app.add_middleware(Timed, metrics=metrics)

    @app.post(
        "/v1/events", openapi_extra=_body({"type": "array", "items": {"$ref": "#/components/schemas/Event"}}, True)
    )
    async def events(request: Request) -> JSONResponse:
        """Take events, all or nothing. The answer comes when they are durable."""
        kind = media_type(request, ("application/json", NDJSON))
        body = await read(request, config().most_bytes)
        key = request.headers.get("idempotency-key")
        if key is not None and not (0 < len(key) <= 200 and key.isprintable()):
            raise ProblemError(400, "Bad idempotency key", "an idempotency key has 1 to 200 printable characters")
        parsed = await _parsed(body, kind == NDJSON, config())
        try:
            found = await call(Ingest, parsed, key)
        except OverflowError as error:
            line = next(line for line, event in enumerate(parsed, start=1) if not sendable(event))
            raise ProblemError(422, "Wrong event", "an integer needs more than 64 bits", line=line) from error
        return JSONResponse({"accepted": found[0], "sequence": found[1]})

    @app.post("/v1/predict", openapi_extra=_body({"$ref": "#/components/schemas/Question"}, False))
    async def predict(request: Request) -> Response:
        """Answer about nodes, or about a node that is not there."""
        media_type(request, ("application/json",))
        question = decode(Question, await read(request, config().most_bytes))
        if question.candidates is not None:
            raise ProblemError(
                422, "Unsupported", "candidates are not supported: this service chooses among all classes"
            )
        if (question.ids is None) == (question.node is None):
            raise ProblemError(422, "Wrong question", "give either ids or node")
        if question.ids is not None and len(question.ids) > MOST_IDS:
            raise ProblemError(422, "Wrong question", f"at most {MOST_IDS:,} ids can be asked about at once")
        if not 0 <= question.min_sequence < 1 << 63:
            raise ProblemError(422, "Wrong question", "min_sequence must be a sequence number")
        around = question.neighborhood and question.ids is not None
        if around and len(question.ids) != 1:
            raise ProblemError(422, "Wrong question", "a neighbourhood is shown of one node at a time")
        try:
            found = await call(Ask, question)
        except OverflowError as error:
            raise ProblemError(404, "Unknown node", "no node has an id of more than 64 bits") from error
        if around:
            found |= {"neighborhood": await tell("neighborhood", question.ids[0])}
        return Response(msgspec.json.encode(found), media_type="application/json")

    @app.get("/v1/nodes/{id:path}")
    async def node(id: str) -> JSONResponse:
        """Tell degree, time, known label and the answer at arrival of a node."""
        return JSONResponse(await tell("node", id))

    @app.get("/v1/status")
    async def status() -> JSONResponse:
        """Tell how the service is."""
        return JSONResponse(await tell("status"))

    @app.get("/v1/stream")
    async def stream() -> StreamingResponse:
        """Send the status every second as server-sent events."""

        async def send() -> AsyncIterator[str]:
            past = True
            with contextlib.suppress(ProblemError):  # the service ends
                while True:
                    yield f"data: {json.dumps(await tell('status', past))}\n\n"
                    past = False
                    await asyncio.sleep(1)

        return StreamingResponse(send(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    @app.post("/v1/admin/promote", openapi_extra=_body({"$ref": "#/components/schemas/Promotion"}, False))
    async def promote(request: Request) -> JSONResponse:
        """Let a shadow strategy answer from now on."""
        media_type(request, ("application/json",))
        wanted = decode(Promotion, await read(request, 10_000)).strategy
        return JSONResponse({"main": await tell("promote", wanted)})

    @app.post("/v1/admin/snapshot")
    async def snapshot() -> JSONResponse:
        """Take a snapshot now."""
        return JSONResponse({"sequence": await tell("snapshot")})

    @app.get("/v1/admin/hash")
    async def state_hash() -> JSONResponse:
        """Tell the hash of the whole state, and the record it is of."""
        return await hashed(True)

    async def hashed(graph: bool) -> JSONResponse:
        found = await tell("hash", graph)
        return JSONResponse({"sequence": found[0], "hash": found[1]})

    @app.post("/v1/admin/prove")
    async def prove(graph: bool = True) -> JSONResponse:
        """Compare the state with that of the service that this one follows, at the same record."""
        return JSONResponse(await tell("prove", graph))

    @app.get("/v1/log/hash")
    async def hash_to_compare(graph: bool = True) -> JSONResponse:
        """Tell the hash of the state to a service that follows this one, with or without the content of the graph."""
        return await hashed(graph)

    @app.get("/v1/log/head")
    async def head() -> JSONResponse:
        """Tell the last durable record, and where the graph is."""
        names = ("sequence", "store", "owner", "identity")
        return JSONResponse(dict(zip(names, await tell("durable"), strict=True)) | {"version": ocgl.__version__})

    @app.get("/v1/log", response_class=Response)
    async def log(
        after: Annotated[int, Query(ge=0, lt=1 << 63)],
        checksum: Annotated[int, Query(ge=0, lt=1 << 32)] = 0,
        wait: Annotated[float, Query(ge=0, le=30)] = 0.0,
    ) -> Response:
        """Return durable records after one, as they lie in the log, to a service that follows this one."""
        end = asyncio.get_running_loop().time() + min(wait, config().answer_seconds)
        durable = (await tell("durable"))[0]
        while durable <= after and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
            durable = (await tell("durable"))[0]
        if after > durable:
            raise ProblemError(
                409, "Another log", f"this log ends with record {durable}; it has no record {after}: follow it anew"
            )
        try:
            known, records = await asyncio.to_thread(readers.records, after, durable)
        except OcglError as error:
            raise ProblemError(410, "Records are missing", str(error)) from error
        if known != checksum:
            raise ProblemError(409, "Another log", f"record {after} of this log is another one: follow it anew")
        return Response(records, media_type="application/octet-stream", headers={"x-ocgl-durable": str(durable)})

    @app.get("/healthz", response_class=PlainTextResponse)
    async def health() -> str:
        """Say that the process lives."""
        return "ok"

    @app.get("/readyz")
    async def ready() -> Response:
        """Say whether events and questions are taken."""
        asked = asyncio.ensure_future(tell("ready"))
        await asyncio.wait({asked}, timeout=LONGEST_READY)
        try:
            is_ready, why = asked.result()
        except (ProblemError, asyncio.InvalidStateError) as error:
            is_ready, why = False, str(error)
        return PlainTextResponse("ready") if is_ready else PlainTextResponse(why, 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def figures() -> str:
        """Tell figures in the format of Prometheus."""
        return metrics.text(await tell("status"))

    @app.get("/", include_in_schema=False)
    async def dashboard() -> HTMLResponse:
        page = files("ocgl.serving").joinpath("templates", "dashboard.html").read_text()
        return HTMLResponse(page, headers={"content-security-policy": POLICY, "x-frame-options": "DENY"})

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in STATIC:
            raise ProblemError(404, "Not found", "there is no such file")
        content = files("ocgl.serving").joinpath("static", name).read_bytes()
        return Response(content, media_type=STATIC[name], headers={"cache-control": "max-age=86400"})

    def openapi() -> Json:
        if app.openapi_schema is None:
            from fastapi.openapi.utils import get_openapi

            schema = get_openapi(title=app.title, version=app.version, routes=app.routes, description=app.description)
            _, parts = msgspec.json.schema_components(
                [Event, Question, Promotion], ref_template="#/components/schemas/{name}"
            )
            kinds = msgspec.json.schema(Event, ref_template="#/components/schemas/{name}")
            schema.setdefault("components", {}).setdefault("schemas", {}).update(parts)
            schema["components"]["schemas"]["Event"] = {key: v for key, v in kinds.items() if key != "$defs"}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


async def _parsed(body: bytes, lines: bool, config: ServiceConfig) -> list[Event]:
    """Parse and pack a body of events; a large one in a thread of its own."""

    def parsed() -> list[Event]:
        return packed(parse(body, lines), config)

    try:
        return parsed() if len(body) < 200_000 else await asyncio.to_thread(parsed)
    except WrongEventError as error:
        raise ProblemError(422, "Wrong event", error.why, line=error.line) from error


def _body(schema: Json, lines: bool) -> Json:
    content: Json = {"application/json": {"schema": schema}}
    if lines:
        content[NDJSON] = {"schema": {"type": "string", "description": "one event per line"}}
    return {"requestBody": {"required": True, "content": content}}
