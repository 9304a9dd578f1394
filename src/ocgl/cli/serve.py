"""Commands of the live service: `serve`, `keys`, `play`, `backup` and `replay`."""

import errno
import gc
import json
import logging
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ocgl.cli.common import DataRoot, StreamKind, app, console, say
from ocgl.errors import ConfigError, MissingExtraError, ServiceError
from ocgl.serving.logs import LogFormat, begin_logging
from ocgl.types import Json

if TYPE_CHECKING:
    from ocgl.serving.config import ServiceConfig
    from ocgl.serving.service import Service

LOOPBACK = ("127.0.0.1", "localhost", "::1")
logger = logging.getLogger("ocgl.serving")
keys_app = typer.Typer(help="API keys of a service.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

Folder = Annotated[Path, typer.Argument(help="Folder of the service.")]
Dir = Annotated[Path, typer.Option("--dir", help="Folder of the service.")]


def needs_extra() -> None:
    """Raise `MissingExtraError` unless the extra `serve` is installed."""
    try:
        import fastapi  # noqa: F401
        import httpx  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("ocgl serve", "serve") from error


@app.command()
def serve(
    folder: Folder,
    strategy: Annotated[str | None, typer.Option(help="Strategy of a new service.")] = None,
    features: Annotated[int | None, typer.Option(help="Number of features of a node, of a new service.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Hyperparameter or option of a new service as key=value; may be repeated."),
    ] = None,
    shadow: Annotated[
        str, typer.Option(help="Strategies of a new service that learn beside the main one, separated by commas.")
    ] = "",
    sparse: Annotated[bool, typer.Option(help="Store features of a new service as sparse rows.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where the graph of a new service is: `folder` (default) or redis://HOST:PORT[,HOST:PORT...]/NAME. "
            "One that follows looks at the graph of the other service, if that is on Redis."
        ),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(help="Address of a service that a new one follows: it applies the same records, and answers."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key of the service that is followed, with scope follow.", envvar="OCGL_KEY")
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="Take events from a Kafka topic too: BROKERS/TOPIC.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than the loopback need keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any.", min=0, max=65535)] = 8000,
    logs: Annotated[
        LogFormat, typer.Option(help="Logs on standard error: json, text, or auto (text at a terminal).")
    ] = LogFormat.auto,
) -> None:
    """Run the service of a folder: it learns from the events that it gets, and answers at any time."""
    needs_extra()
    from ocgl.serving.calls import start_front
    from ocgl.serving.keys import Keys

    if follow is not None:
        from ocgl.serving.following import begin_following

        if strategy or features or overrides or shadow or sparse:
            raise ConfigError(
                "a service that follows another one has its configuration; leave strategy and options out"
            )
        config = begin_following(folder, follow, key, store)
    else:
        config = _config(folder, strategy, features, overrides or [], shadow, sparse, store)
    keys = Keys(folder)
    if host not in LOOPBACK and not len(keys):
        raise ServiceError("without keys a service listens on the loopback address only; `ocgl keys add` makes one")
    begin_logging(logs)
    listening = _bound(host, port)
    url = f"http://{host}:{listening.getsockname()[1]}"
    front, link = start_front(listening, folder, logs.value)
    listening.close()
    try:
        from ocgl.serving.backend import Backend
        from ocgl.serving.config import ServiceConfig
        from ocgl.serving.following import Follower
        from ocgl.serving.kafka import KafkaSource
        from ocgl.serving.service import Service

        follows = (config or ServiceConfig.read(folder)).follows is not None
        service = Follower(folder, config, key) if follows else Service(folder, config)
        if follows and kafka is not None:
            raise ConfigError("a service that follows another one takes no events, from Kafka neither")
        source = None if kafka is None else KafkaSource(service, kafka)
        stopping = _stops(service, front)
        service.start()
        threading.Thread(target=_end_on_failure, args=(service, front), name="watch", daemon=True).start()
        if source is not None:
            source.start()
        threading.Thread(target=_rehearse, args=(service.config,), name="rehearsal", daemon=True).start()
        logger.info("listening", extra={"facts": {"url": url, "keys": len(keys)}})
        Backend(service).run(link)  # until the process that speaks HTTP has ended
        service.close_doors()
        if source is not None:
            source.stop()
        service.stop()
    finally:
        front.terminate()
        front.wait()
    if service.failure is not None:
        raise ServiceError(service.failure)
    if not stopping.is_set():
        raise ServiceError(f"the process that speaks HTTP has ended by itself, with code {front.returncode}")
    logger.info("stopped; everything acknowledged is in the log")


def _stops(service: "Service", front: "subprocess.Popen[bytes]") -> threading.Event:
    """Let SIGTERM and Ctrl-C end a service in order: requests under way are answered first."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()
        service.close_doors()
        front.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return stopping


def _end_on_failure(service: "Service", front: "subprocess.Popen[bytes]") -> None:
    """End a service that cannot go on, a moment after /readyz has said why: a start may mend it."""
    while service.failure is None and front.poll() is None:
        time.sleep(0.5)
    time.sleep(2)
    front.terminate()


def _rehearse(config: "ServiceConfig") -> None:
    """Do once what takes long the first time, beside the first requests."""
    from ocgl.serving.rehearsal import rehearse

    rehearse(config)
    gc.collect()
    gc.freeze()  # the collector need not look at a million objects of the libraries again and again
    time.sleep(5)
    rehearse(config, saved=True)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise `ServiceError`: before anything is begun."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    until = time.monotonic() + 2  # a service that was killed a moment ago may have left its address
    while True:
        try:
            made.bind((host, port))
            made.listen(2048)
            return made
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                made.close()
                raise ServiceError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
            time.sleep(0.05)


def _config(
    folder: Path,
    strategy: str | None,
    features: int | None,
    overrides: list[str],
    shadow: str,
    sparse: bool,
    store: str | None,
) -> "ServiceConfig | None":
    """Return the configuration of a new service, None for one that is there."""
    from pydantic import ValidationError

    from ocgl.experiments.config import parse_override
    from ocgl.serving.config import FILE, ServiceConfig
    from ocgl.serving.graphs import checked_store
    from ocgl.strategies import find
    from ocgl.strategies._core.registry import keys as keys_of
    from ocgl.validation import explained

    there = (folder / FILE).exists()
    given = [
        name
        for name, value in (
            ("--strategy", strategy),
            ("--features", features),
            ("--set", overrides),
            ("--store", store),
        )
        if value
    ]
    if there:
        if given:
            raise ConfigError(f"{', '.join(given)}: the service in {folder} has its configuration; edit {FILE} instead")
        return None
    if strategy is None or features is None:
        raise ConfigError(f"{folder} holds no service yet; give --strategy and --features")
    values: Json = {"strategy": strategy, "features": features, "sparse": sparse, "store": checked_store(store)}
    values["shadows"] = [name for name in shadow.split(",") if name]
    values["hyperparameters"] = {}
    for text in overrides:
        key, value = parse_override(text)
        known = keys_of(find(strategy))
        if key in known:
            values["hyperparameters"][key] = value
        elif key in ServiceConfig.model_fields:
            values[key] = value
        else:
            raise ConfigError(f"{key} is no hyperparameter of {strategy} and no option of a service")
    try:
        return ServiceConfig.model_validate(values)
    except ValidationError as error:
        raise explained(error) from error


@keys_app.command("add")
def keys_add(
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    scope: Annotated[list[str], typer.Option(help="ingest, predict or admin; may be repeated.")],
    folder: Dir = Path(),
) -> None:
    """Make a key and print it; it cannot be shown again."""
    from ocgl.serving.keys import Keys

    say(Keys(folder).add(name, scope))


@keys_app.command("list")
def keys_list(folder: Dir = Path()) -> None:
    """List the keys by name, with their scopes."""
    from ocgl.serving.keys import Keys

    for name, scopes in Keys(folder).names().items():
        say(f"{name}: {', '.join(scopes)}")


@keys_app.command("remove")
def keys_remove(name: Annotated[str, typer.Argument(help="Name of the key.")], folder: Dir = Path()) -> None:
    """Remove a key; it is refused from now on."""
    from ocgl.serving.keys import Keys

    Keys(folder).remove(name)


@app.command()
def play(
    dataset: Annotated[str, typer.Argument(help="A name from `ocgl datasets`, or a path to an .npz file.")],
    url: Annotated[str, typer.Argument(help="Address of a running service.")],
    stream: StreamKind = "class",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the stream as key=value; may be repeated.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Nodes per second; as fast as it goes if not given.")] = None,
    eval_every: Annotated[int, typer.Option(help="Score after every K-th batch.", min=1)] = 1,
    score: Annotated[bool, typer.Option(help="Ask about held-out nodes and score the answers.")] = True,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="OCGL_KEY")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write the scores to.")] = None,
    data_root: DataRoot = None,
) -> None:
    """Stream a benchmark into a running service as a client would, and score its answers."""
    needs_extra()
    from ocgl.datasets import load_dataset
    from ocgl.experiments.config import defaults_of, parse_override
    from ocgl.files import write_json
    from ocgl.serving.client import Client
    from ocgl.serving.play import play as send
    from ocgl.streams import make_stream

    options = {"batch_size": defaults_of(dataset).batch_size} | dict(map(parse_override, overrides or ()))
    made = make_stream(load_dataset(dataset, data_root), stream, **options)
    with Client(url, key) as client, console.status("playing") as shown:
        client.wait_until_ready()
        evaluator = send(
            made, client, rate, eval_every, score, lambda done, of: shown.update(f"batch {done:,} of {of:,}")
        )
        found = evaluator.result() if score else {}
        found |= {"matrix": (100 * evaluator.matrix).tolist() if score else None, "service": client.status()}
    for name in ("AP", "AAP", "AF"):
        if score:
            value = found[name]
            say(f"{name} {'-' if value is None else f'{value:.2f}'}")
    if json_file is not None:
        write_json(json_file, json.loads(json.dumps(found).replace("NaN", "null")))


@app.command()
def backup(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="New folder for the copy.")],
) -> None:
    """Copy a service while it runs; `ocgl serve` starts the copy."""
    from ocgl.serving.backup import backup as copy

    say(f"{out}: everything up to record {copy(folder, out)}")


@app.command()
def replay(
    folder: Folder,
    check: Annotated[bool, typer.Option("--check", help="Compare with the service as it is.")] = False,
    url: Annotated[str | None, typer.Option(help="Address of the running service, for --check.")] = None,
    key: Annotated[str | None, typer.Option(help="API key with scope admin.", envvar="OCGL_KEY")] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Id of a node to forget; may be repeated. Needs --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the service without these nodes.")] = None,
) -> None:
    """Compute the state of a service from its log alone, and say its hash."""
    from ocgl.serving.client import Client
    from ocgl.serving.config import ServiceConfig
    from ocgl.serving.replay import replayed, write_without
    from ocgl.serving.service import Service

    if without:
        if out is None:
            raise ConfigError("--without needs --out, a folder for the service without these nodes")
        kind = replayed(folder).store.id_kind
        ids = {int(text) if kind == "integer" and text.isdigit() else text for text in without}
        say(f"{out}: {write_without(folder, ids, out)} records")
        folder = out
    expected: tuple[int, str] | None = None
    if check and url is not None:
        with Client(url, key) as client:
            expected = client.state_hash()
    elif check:
        if ServiceConfig.read(folder).follows is not None:
            raise ConfigError("this service follows another one: start it, and give its address by --url")
        service = Service(folder)
        expected = service.engine.sequence, service.engine.state_hash()
        service._close()
    engine = replayed(folder, None if expected is None else expected[0])
    found = engine.sequence, engine.state_hash()
    say(f"sequence {found[0]}, state {found[1]}")
    if expected is not None and expected != found:
        say(f"DIFFERENT: the service is at sequence {expected[0]}, state {expected[1]}", error=True)
        raise typer.Exit(1)
    if expected is not None:
        say("equal: the log alone gives the state of the service")
