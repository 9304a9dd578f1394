"""The HTTP API of a service."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

import ocgl
from ocgl.errors import (
    EmptyBatchError,
    IdKindError,
    OcglError,
    OverloadedError,
    ServiceError,
    UnknownNodeError,
)
from ocgl.serving.events import Event, Id, Sparse, WrongEventError, parse
from ocgl.serving.keys import Keys
from ocgl.serving.metrics import Metrics, Timed
from ocgl.serving.requests import Guard, ProblemError, decode, media_type, read
from ocgl.serving.service import NotReachedError, Prediction, Service
from ocgl.serving.status import bound_of, cost_of, figures_of, node_of, state_of
from ocgl.types import Json

if TYPE_CHECKING:
    from ocgl.serving.kafka import KafkaSource

NDJSON = "application/x-ndjson"
STATIC = {"uplot.js": "text/javascript", "uplot.css": "text/css"}
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
MOST_IDS = 10_000


class NewNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is not there."""

    x: list[float] | Sparse | bytes
    neighbors: list[Id] = []


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a question: ids of nodes, or a node that is not there."""

    ids: list[Id] | None = None
    node: NewNode | None = None
    scores: bool = False
    min_sequence: int = 0
    candidates: list[Any] | None = None
    neighborhood: bool = False


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a promotion."""

    strategy: str


def make_app(service: Service, keys: Keys, source: "KafkaSource | None" = None) -> FastAPI:
    """Make the application of a service.

    Args:
        service: the service.
        keys: its API keys. Without any at the start, everybody who can connect may do everything, under the names of
            the loopback address only. With some, a key is needed as long as the service runs.
        source: a Kafka topic to read from as well.
    """

    closed = len(keys) > 0

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        if source is not None:
            source.start()
        yield
        if source is not None:
            await asyncio.to_thread(source.stop)
        await asyncio.to_thread(service.stop)

    app = FastAPI(
        title="ocgl", version=ocgl.__version__, lifespan=lifespan, redoc_url=None,
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
        body = await read(request, service.config.most_bytes)
        key = request.headers.get("idempotency-key")
        if key is not None and not (0 < len(key) <= 200 and key.isprintable()):
            raise ProblemError(400, "Bad idempotency key", "an idempotency key has 1 to 200 printable characters")
        parsed = await _parsed(body, kind == NDJSON)
        found = await _wait(lambda: service.ingest(parsed, key))
        return JSONResponse({"accepted": found.accepted, "sequence": found.sequence})

    @app.post("/v1/predict", openapi_extra=_body({"$ref": "#/components/schemas/Question"}, False))
    async def predict(request: Request) -> Response:
        """Answer about nodes, or about a node that is not there."""
        media_type(request, ("application/json",))
        question = decode(Question, await read(request, service.config.most_bytes))
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
        if question.node is not None:
            node = question.node
            found = await _wait(lambda: service.ask_new(node.x, list(node.neighbors), question.min_sequence))
        else:
            ids = question.ids or []
            found = await _wait(lambda: service.ask(ids, question.min_sequence))
        around = None
        if question.neighborhood and question.ids is not None:
            if len(question.ids) != 1:
                raise ProblemError(422, "Wrong question", "a neighbourhood is shown of one node at a time")
            asked = question.ids[0]
            around = await _wait(lambda: service.inspect(lambda engine: engine.neighborhood(asked)))
        return Response(_answer(found, question, around), media_type="application/json")

    @app.get("/v1/nodes/{id:path}")
    async def node(id: str) -> JSONResponse:
        """Tell degree, time, known label and the answer at arrival of a node."""
        return JSONResponse(await _wait(lambda: service.inspect(lambda engine: node_of(engine, id))))

    @app.get("/v1/status")
    async def status() -> JSONResponse:
        """Tell how the service is."""
        return JSONResponse(await _status(service))

    @app.get("/v1/stream")
    async def stream() -> StreamingResponse:
        """Send the status every second as server-sent events."""

        async def send() -> AsyncIterator[str]:
            past: Json = {"history": list(service.history)}
            while service.ready and not service.closing:
                yield f"data: {json.dumps(await _status(service) | past)}\n\n"
                past = {}
                await asyncio.sleep(1)

        return StreamingResponse(send(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    @app.post("/v1/admin/promote", openapi_extra=_body({"$ref": "#/components/schemas/Promotion"}, False))
    async def promote(request: Request) -> JSONResponse:
        """Let a shadow strategy answer from now on."""
        media_type(request, ("application/json",))
        wanted = decode(Promotion, await read(request, 10_000)).strategy
        return JSONResponse({"main": await _wait(lambda: service.promote(wanted))})

    @app.post("/v1/admin/snapshot")
    async def snapshot() -> JSONResponse:
        """Take a snapshot now."""
        return JSONResponse({"sequence": await _wait(service.snapshot)})

    @app.get("/v1/admin/hash")
    async def state_hash() -> JSONResponse:
        """Tell the hash of the whole state, and the record it is of."""
        found = await _wait(lambda: service.inspect(lambda engine: (engine.sequence, engine.state_hash())))
        return JSONResponse({"sequence": found[0], "hash": found[1]})

    @app.get("/healthz", response_class=PlainTextResponse)
    async def health() -> str:
        """Say that the process lives."""
        return "ok"

    @app.get("/readyz")
    async def ready() -> Response:
        """Say whether events and questions are taken."""
        if service.ready:
            return PlainTextResponse("ready")
        return PlainTextResponse(service.failure or service.trouble or "not ready", 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def figures() -> str:
        """Tell figures in the format of Prometheus."""
        return metrics.text(await _status(service))

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


async def _parsed(body: bytes, lines: bool) -> list[Event]:
    """Parse a body of events; a large one in a thread of its own."""
    try:
        return parse(body, lines) if len(body) < 200_000 else await asyncio.to_thread(parse, body, lines)
    except WrongEventError as error:
        raise ProblemError(422, "Wrong event", error.why, line=error.line) from error


async def _status(service: Service) -> Json:
    """Return the state and the figures of a service."""
    state: Json = await _wait(lambda: service.inspect(state_of))
    return state | figures_of(service)


async def _wait(begin: "Callable[[], Future[Any]]") -> Any:
    """Wait for the writer; name what went wrong."""
    try:
        return await asyncio.wrap_future(begin())
    except OverloadedError as error:
        raise ProblemError(429, "Too many requests", str(error), {"retry-after": "1"}) from error
    except NotReachedError as error:
        raise ProblemError(504, "Not reached in time", str(error)) from error
    except ServiceError as error:
        raise ProblemError(503, "Not ready", str(error), {"retry-after": "5"}) from error
    except WrongEventError as error:
        raise ProblemError(422, "Wrong event", error.why, line=error.line) from error
    except UnknownNodeError as error:
        raise ProblemError(404, "Unknown node", str(error)) from error
    except asyncio.CancelledError as error:  # uvicorn has waited long enough
        text = "the service ends before this was answered; it may have been taken: repeat it with its idempotency key"
        raise ProblemError(503, "Not ready", text, {"retry-after": "5"}) from error
    except (IdKindError, EmptyBatchError) as error:
        raise ProblemError(422, "Wrong question", str(error)) from error
    except OcglError as error:
        status = 507 if isinstance(error, OSError) else 422
        raise ProblemError(status, type(error).__name__, str(error)) from error


def _answer(found: Prediction, question: Question, around: Json | None) -> bytes:
    ids: list[Any] = list(question.ids) if question.ids is not None else [None]
    predictions: list[Json] = [{"id": id, "label": _plain(label)} for id, label in zip(ids, found.labels, strict=True)]
    if question.scores:
        names = [str(name) for name in found.classes]
        for one, row in zip(predictions, found.scores.tolist(), strict=True):
            one["scores"] = {
                name: value if math.isfinite(value) else None for name, value in zip(names, row, strict=True)
            }
    if question.node is not None:
        predictions[0].pop("id")
    return msgspec.json.encode(
        {
            "predictions": predictions,
            "sequence": found.sequence,
            "weights_sequence": found.weights_sequence,
            "weights_seconds": round(found.weights_seconds, 4),
            "cost": cost_of(found.cost),
            "bound": bound_of(found.bound),
        }
        | ({} if around is None else {"neighborhood": around})
    )


def _plain(label: Any) -> Any:
    return None if label == -1 else label


def _body(schema: Json, lines: bool) -> Json:
    content: Json = {"application/json": {"schema": schema}}
    if lines:
        content[NDJSON] = {"schema": {"type": "string", "description": "one event per line"}}
    return {"requestBody": {"required": True, "content": content}}
