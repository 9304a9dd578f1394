"""Damages files that the package writes or reads, and checks what every command makes of it.

    python -m tests.faults.damage COUNT [--seed N] [--workers N] [--out FILE.json]

For every case the command must name the file, or give the result that it gives without the damage. It must never give
another number, print a traceback, crash or hang.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ocgl.experiments.executors import LocalExecutor
from tests.faults.zygote import Ended, Zygote
from tests.helpers import COARSE

GRAPH = "sbm:nodes=200,edges=500,classes=4,width=4"
OTHER = "sbm:nodes=200,edges=500,classes=4,width=4,seed=1"
SHORT = ["--set", "batch_size=40"]
BENCH = ["bench", "--strategies", "linear,slda", *COARSE, *SHORT, "--workers", "0"]
SCORES = ("AAP", "AP", "AF", "AF_T", "matrix", "prequential", "stream_hash", "hyperparameters")

INTERRUPTED = """
import ocgl

def stop(progress):
    if progress.step == {stop}:
        raise SystemExit(0)

ocgl.evaluate("linear", {data!r}, seed={seed}, out={out!r}, checkpoint_every={stop}, callbacks=[stop], batch_size=20)
"""
SAVE_GRAPH = """
import numpy as np
import ocgl

g = ocgl.load_dataset({name!r})
edges = np.stack([np.repeat(np.arange(g.nodes), np.diff(g.indptr)), g.indices])
np.savez("g.npz", x=g.x, y=g.y, edge_index=edges, time=g.time, domain=g.domain)
"""
LOAD_MODEL = """
from pathlib import Path
from ocgl.state import State
from ocgl.strategies import Learner, make_strategy

state = State.load(Path("run/model.safetensors"))
learner = Learner(make_strategy("linear", buffer_size=8))
learner.load_state(state)
print(state.checksum())
"""
PLAY_STREAM = """
import ocgl

result = ocgl.evaluate(ocgl.strategies.find("linear")(), ocgl.Stream.load("s.npz"))
print(result.AAP, result.matrix)
"""
KEEP = """
import numpy as np
import ocgl

def fill(target):
    rng = np.random.default_rng({seed})
    for number in range(6):
        new = [f"n{{number}}-{{i}}" for i in range(8)]
        edges = [new[:1] * 2, [f"n{{number - 1}}-{{i}}" for i in range(2)]] if number else ((), ())
        target.add(new, rng.normal(size=(8, 4)), edges)
    target.remove(["n1-3"])

with ocgl.GraphStore.open("g") as store:
    fill(store)
learner = ocgl.Learner("slda")
fill(learner)
learner.learn([f"n2-{{i}}" for i in range(8)], ["a", "b"] * 4)
learner.save("l")
"""
OPEN_STORE = """
import ocgl

with ocgl.GraphStore.open("g") as store:
    found = store.sample(store.ids[:20], ocgl.NeighborSampling(2, 3), 7)
    print(store.ids.tolist(), store.edges, found.nodes.tolist(), found.aggregated.tolist())
"""
LOAD_LEARNER = """
import ocgl

learner = ocgl.Learner.load("l")
ids = learner.store.ids
print(learner.state().checksum(), ids.tolist(), learner.answer(ids).scores.tolist(), learner.classes.tolist())
"""
SERVE = """
import json
from pathlib import Path
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import parse
from ocgl.serving.keys import Keys
from ocgl.serving.service import Service

chosen = dict(features=2, seed={seed}, batch_size=4, hyperparameters=dict(shrinkage=0.2))
service = Service(Path("s"), ServiceConfig(strategy="slda", **chosen))
Keys(Path("s")).add("mine", ["admin"])
service.start()
for i in range(30):
    events = [dict(type="node", id=f"n{{i}}", x=[i % 3 + {seed}, 1.0], neighbors=[f"n{{i - 1}}"] if i else [])]
    events.append(dict(type="label", id=f"n{{i}}", label="ab"[i % 2]))
    service.ingest(parse(json.dumps(events).encode(), False), f"key {{i}}").result(30)
    if i == 12:
        service.snapshot().result(30)
service.stop()
"""
START = """
from pathlib import Path
from ocgl.serving.keys import Keys
from ocgl.serving.service import Service

service = Service(Path("s"))
print(service.engine.sequence, service.engine.state_hash(), service.config.strategy)
service._close()
"""
READ_KEYS = """
from pathlib import Path
from ocgl.serving.keys import Keys

print(Keys(Path("s"))._keys)
"""
SAY_ERRORS = """
from ocgl.errors import OcglError
import sys
try:
    exec({code!r})
except OcglError as error:
    print(f"{{type(error).__name__}}: {{error}}", file=sys.stderr)
    sys.exit(2)
"""


def scenes(folder: Path) -> None:
    """Make one folder per scene, and files of the same kinds from other runs to swap in."""
    with Zygote(OCGL_CACHE=str(folder / "scratch")) as ocgl:

        def run(*arguments: str, cwd: Path, **more: Any) -> None:
            ended = ocgl(*arguments, cwd=cwd, **more)
            assert ended.code == 0, (arguments, ended)

        def python(code: str, cwd: Path, **more: Any) -> None:
            ended = ocgl.python(code, cwd, **more)
            assert ended.code == 0, (code, ended)

        for name in (
            "loose",
            "packed",
            "unfinished",
            "own",
            "finished",
            "cached",
            "graph",
            "stream",
            "raw",
            "kept",
            "served",
            "other",
        ):
            (folder / name).mkdir()
        for where, seed in ((folder / "kept", 0), (folder / "other", 1)):
            python(KEEP.format(seed=seed), cwd=where)
        for where, seed in ((folder / "served", 0), (folder / "other", 1)):
            python(SERVE.format(seed=seed), cwd=where)
        other = folder / "other"
        for where, data in ((folder / "loose", GRAPH), (other, OTHER)):
            run(*BENCH, data, "--out", "b", cwd=where)
        shutil.copytree(folder / "loose" / "b", folder / "packed" / "b")
        shutil.copytree(other / "b", other / "p")
        run("results", "b", "--pack", cwd=folder / "packed")
        run("results", "p", "--pack", cwd=other)
        for scene in ("graph", "own", "other"):
            python(SAVE_GRAPH.format(name=OTHER if scene == "other" else GRAPH), cwd=folder / scene)
        python(f"import ocgl; ocgl.class_stream(ocgl.load_dataset({GRAPH!r})).save('s.npz')", cwd=folder / "stream")
        python(INTERRUPTED.format(data=GRAPH, seed=0, out="run", stop=3), cwd=folder / "unfinished")
        python(INTERRUPTED.format(data="g.npz", seed=0, out="run", stop=3), cwd=folder / "own")
        python(INTERRUPTED.format(data=GRAPH, seed=1, out="begun", stop=3), cwd=other)
        single = ["run", "--dataset", GRAPH, "--strategy", "linear", *SHORT]
        run(*single, "--out", "run", cwd=folder / "finished")
        run(*single, "--seed", "1", "--out", "run", cwd=other)
        for where, data in ((folder / "cached", GRAPH), (other, OTHER)):
            run("run", "--dataset", data, *single[3:], cwd=where, env={"OCGL_CACHE": str(where / "cache")})
        raw = folder / "raw" / "data" / "Computers" / "raw"
        raw.mkdir(parents=True)
        (raw / "amazon_electronics_computers.npz").write_bytes((folder / "graph" / "g.npz").read_bytes())


@dataclass(frozen=True)
class Command:
    """A command on a scene.

    Attributes:
        name: what it is called in the counts.
        arguments: of `ocgl`, or Python code as the only one.
        outcome: reads what the command has produced, to be compared with the same without a damage.
        partial: whether, after an exit code of 3, a part of the outcome is a correct outcome.
    """

    name: str
    arguments: tuple[str, ...]
    outcome: Callable[[Ended, Path], Any]
    partial: Callable[[Any, Any], bool] | None = None


def _json_rows(ended: Ended, cwd: Path) -> Any:
    return sorted(json.loads(ended.out), key=lambda row: str(row["id"]))


def _is_part(part: Any, whole: Any) -> bool:
    return all(row in whole for row in part)


def _stored_rows(ended: Ended, cwd: Path) -> Any:
    from ocgl.experiments.result_store import ResultStore

    return sorted(ResultStore(cwd / "b").rows(), key=lambda row: str(row["id"]))


def _scores(ended: Ended, cwd: Path) -> Any:
    values = json.loads((cwd / "out.json").read_text())
    return {key: values[key] for key in SCORES}


def _page(ended: Ended, cwd: Path) -> Any:
    return (cwd / "r.html").read_text()


def _says_so(part: Any, whole: Any) -> bool:
    return "damaged files were left out" in part


def _printed(ended: Ended, cwd: Path) -> Any:
    return ended.out


def _verdicts(ended: Ended, cwd: Path) -> Any:
    return sorted(ended.out.splitlines())


def _no_difference(part: Any, whole: Any) -> bool:
    return not any("DIFFERENT" in line for line in part)


def _table(ended: Ended, cwd: Path) -> Any:
    return (cwd / "e.csv").read_text()


def _python(code: str) -> tuple[str, ...]:
    return (SAY_ERRORS.format(code=code),)


RESULTS = Command("results", ("results", "b", "--format", "json"), _json_rows, _is_part)
REPORT = Command("report", ("report", "b", "--out", "r.html"), _page, _says_so)
VERIFY = Command("verify", ("verify", "b", "--workers", "0"), _verdicts, _no_difference)
SWEEP = Command("bench", (*BENCH, GRAPH, "--out", "b"), _stored_rows, _is_part)
RESUME = Command("resume", ("run", "--resume", "run", "--json", "out.json"), _scores)
RUN = Command("run", ("run", "--dataset", GRAPH, "--strategy", "linear", *SHORT, "--json", "out.json"), _scores)
OWN = Command("run", ("run", "--dataset", "g.npz", "--strategy", "linear", *SHORT, "--json", "out.json"), _scores)
EXPANSION = Command("expansion", ("expansion", "--dataset", GRAPH, "--out", "e.png"), _table)
OWN_EXPANSION = Command("expansion", ("expansion", "--dataset", "g.npz", "--out", "e.png"), _table)
NEW_SWEEP = Command("bench", (*BENCH, GRAPH, "--out", "b"), _stored_rows, _is_part)
DATASETS = Command("datasets", ("datasets", "--data-root", "data"), _printed)
RAW = Command("run", ("run", "--dataset", "amazon-computer", "--data-root", "data", "--strategy", "linear"), _printed)
MODEL = Command("load a state", _python(LOAD_MODEL), _printed)
STREAM = Command("load a stream", _python(PLAY_STREAM), _printed)
STORE = Command("open a store", _python(OPEN_STORE), _printed)
LEARNER = Command("load a learner", _python(LOAD_LEARNER), _printed)
SERVICE = Command("start a service", _python(START), _printed)
KEYS = Command("read keys", _python(READ_KEYS), _printed)
READERS = (RESULTS, REPORT, VERIFY, SWEEP)


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: what it is called in the counts.
        scene: the folder it is in.
        files: pattern of the files of that kind.
        commands: commands that read it.
        others: pattern of files to swap in, from the scene `other` or from the scene itself; empty if another file of
            the kind is simply other data.
        chosen: which of the files are of the kind.
    """

    name: str
    scene: str
    files: str
    commands: tuple[Command, ...]
    others: str = ""
    chosen: Callable[[Path], bool] = lambda _: True


def _holds(kind: str) -> Callable[[Path], bool]:
    return lambda path: f'"kind": "{kind}"' in path.read_text()


def _is_filled(path: Path) -> bool:
    return path.stat().st_size > 0


_RESULTS = "other/b/*/result.json loose/b/*/result.json"
_CURVES = "other/b/*/anytime.parquet loose/b/*/anytime.parquet"
_BEGUN = "other/begun/config.json other/run/config.json"
_LOADERS = (RUN, EXPANSION, NEW_SWEEP)
KINDS = (
    Kind("result of a run", "loose", "b/*/result.json", READERS, _RESULTS, _holds("run")),
    Kind("result of a trial", "loose", "b/*/result.json", READERS, _RESULTS, _holds("trial")),
    Kind("choice", "loose", "b/*/result.json", READERS, _RESULTS, _holds("choice")),
    Kind("curve of a run", "loose", "b/*/anytime.parquet", READERS, _CURVES),
    Kind("pack of results", "packed", "b/packed.parquet", READERS, "other/p/packed.parquet"),
    Kind("pack of curves", "packed", "b/packed-curves.parquet", READERS, "other/p/packed-curves.parquet"),
    Kind("manifest of a pack", "packed", "b/packed.json", READERS, "other/p/packed.json"),
    Kind("description of a run", "unfinished", "run/config.json", (RESUME,), _BEGUN),
    Kind("checkpoint", "unfinished", "run/checkpoint.safetensors", (RESUME,), "other/begun/checkpoint.safetensors"),
    Kind("description of a run that has ended", "finished", "run/config.json", (RESUME,), "other/run/config.json"),
    Kind("result in a run's folder", "finished", "run/result.json", (RESUME,), "other/run/result.json"),
    Kind("curve in a run's folder", "finished", "run/anytime.parquet", (RESUME,), "other/run/anytime.parquet"),
    Kind("model", "finished", "run/model.safetensors", (MODEL,)),
    Kind("manifest of a cached graph", "cached", "cache/*/manifest.json", _LOADERS, "other/cache/*/manifest.json"),
    Kind("array of a cached graph", "cached", "cache/*/*.npy", _LOADERS, "other/cache/*/*.npy"),
    Kind("graph of a user", "graph", "g.npz", (OWN, OWN_EXPANSION)),
    Kind("graph of a run that goes on", "own", "g.npz", (RESUME,), "other/g.npz"),
    Kind("stream", "stream", "s.npz", (STREAM,)),
    Kind("description of a store", "kept", "g/store.json", (STORE,), "other/g/store.json"),
    Kind("journal of a store", "kept", "g/journal-1", (STORE,), "other/g/journal-1"),
    Kind("description of a learner", "kept", "l/learner.json", (LEARNER,), "other/l/learner.json"),
    Kind("state of a learner", "kept", "l/save-1/state.safetensors", (LEARNER,), "other/l/save-1/state.safetensors"),
    Kind("graph of a learner", "kept", "l/save-1/graph/*", (LEARNER,), "other/l/save-1/graph/*"),
    Kind("log of a service", "served", "s/log/*.log", (SERVICE,), "other/s/log/*.log"),
    Kind("snapshot of a service", "served", "s/snapshots/*/*", (SERVICE,), "other/s/snapshots/*/*"),
    Kind("graph of a service", "served", "s/graph/*", (SERVICE,), "other/s/graph/*", _is_filled),
    Kind("description of a service", "served", "s/config.toml", (SERVICE,), "other/s/config.toml"),
    Kind("keys of a service", "served", "s/keys.json", (KEYS,)),
    Kind("raw file of a dataset", "raw", "data/*/raw/*.npz", (RAW, DATASETS), "other/g.npz"),
)


def truncated(data: bytes, rng: random.Random) -> bytes:
    """Cut a file short."""
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Change between one bit and 400 bytes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 40, 400))):
        changed[rng.randrange(len(changed))] ^= rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
    return bytes(changed)


def blanked(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a stretch with zeros, as a lost block does."""
    begin = rng.randrange(len(data))
    end = min(len(data), begin + rng.choice((1, 16, 512, 4096)))
    return data[:begin] + bytes(end - begin) + data[end:]


def emptied(data: bytes, rng: random.Random) -> bytes:
    """Leave nothing."""
    return b""


def foreign(data: bytes, rng: random.Random) -> bytes:
    """Replace by something that was never of this kind."""
    random_bytes = rng.randbytes(rng.randrange(1, 5000))
    texts = (b"{}", b"[]", b"null", b"hello\n", b'{"checksum": 1}', b"\xff\xfe" * 50)
    beginnings = (b"\x93NUMPY\x01\x00", b"PAR1PAR1", b"PK\x05\x06" + bytes(18))
    deep = (b"[" * 100_000, b'{"a":' * 50_000)
    return rng.choice((*texts, *beginnings, *deep, random_bytes))


def swapped(data: bytes, rng: random.Random) -> bytes:
    """Stands for another file of the same kind; `case` takes one."""
    raise AssertionError


DAMAGES = (truncated, flipped, blanked, emptied, foreign, swapped)


@dataclass(frozen=True)
class Case:
    """One damage: a kind of file, a damage and a command, with a seed for the rest."""

    kind: Kind
    damage: Callable[[bytes, random.Random], bytes]
    command: Command
    seed: int

    def __str__(self) -> str:
        return f"{self.kind.name}, {self.damage.__name__}, {self.command.name}, seed {self.seed}"


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Yield damages, spread evenly over kinds of files, damages and commands."""
    combinations = [
        (kind, damage, command)
        for kind in KINDS
        for damage in DAMAGES
        for command in kind.commands
        if kind.others or damage is not swapped
    ]
    for number in range(count):
        turn, place = divmod(number, len(combinations))
        yield Case(*combinations[place], seed * 1_000_003 + turn)


class Bench:
    """Runs cases on copies of the scenes."""

    def __init__(self, scenes: Path) -> None:
        self.scenes = scenes
        self.folder = Path(tempfile.mkdtemp(prefix="ocgl-damage-"))
        self.ocgl = Zygote(OCGL_CACHE=str(self.folder / "scratch"), OCGL_OFFLINE="1")
        self.references: dict[tuple[str, str], tuple[int | None, Any]] = {}

    def __enter__(self) -> "Bench":
        self.ocgl.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.ocgl.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _request(self, command: Command, cwd: Path) -> dict[str, Any]:
        what = {"code": command.arguments[0]} if len(command.arguments) == 1 else {"arguments": command.arguments}
        return what | {"cwd": str(cwd), "timeout": 60, "env": {"OCGL_CACHE": str(cwd / "cache")}}

    def _copy(self, scene: str, place: int = 0) -> Path:
        target = self.folder / str(place) / scene
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.scenes / scene, target)
        return target

    def _reference(self, scene: str, command: Command) -> tuple[int | None, Any]:
        key = (scene, " ".join(command.arguments))
        if key not in self.references:
            cwd = self._copy(scene)
            (ended,) = self.ocgl.many([self._request(command, cwd)])
            assert ended.code == 0 or command is RAW, ended
            self.references[key] = (ended.code, command.outcome(ended, cwd))
        return self.references[key]

    def check(self, chosen: list[Case]) -> list[tuple[str, str | None]]:
        """Run cases; return how each ended (`same`, `named`, `unchanged`), and what is wrong with that, if anything."""
        references = [self._reference(case.kind.scene, case.command) for case in chosen]
        prepared = [self._prepare(case, place) for place, case in enumerate(chosen)]
        requests = [self._request(case.command, cwd) for case, (cwd, _, _) in zip(chosen, prepared, strict=True)]
        found: list[tuple[str, str | None]] = []
        answers = self.ocgl.many(requests)
        for case, (cwd, path, changed), (code, right), ended in zip(chosen, prepared, references, answers, strict=True):
            if not changed:
                found.append(("unchanged", None))
            else:
                how = "same" if ended.code == code else "named"
                found.append((how, self._judge(case, ended, cwd, path, code, right)))
        return found

    def _prepare(self, case: Case, place: int) -> tuple[Path, Path, bool]:
        """Copy a scene and damage a file in it; return the folder, the file, and whether it was changed."""
        rng = random.Random(f"{case.kind.name} {case.damage.__name__} {case.command.name} {case.seed}")
        cwd = self._copy(case.kind.scene, place)
        path = rng.choice(sorted(p for p in cwd.glob(case.kind.files) if case.kind.chosen(p)))
        before = path.read_bytes()
        after = self._other(case.kind, path, before, rng) if case.damage is swapped else case.damage(before, rng)
        path.write_bytes(after)
        return cwd, path, after != before

    def _other(self, kind: Kind, path: Path, before: bytes, rng: random.Random) -> bytes:
        found = [p for pattern in kind.others.split() for p in sorted(self.scenes.glob(pattern))]
        found = [p for p in found if p.name == path.name and p.read_bytes() != before]
        return rng.choice(found).read_bytes() if found else before

    def _judge(self, case: Case, ended: Ended, cwd: Path, path: Path, code: int | None, right: Any) -> str | None:
        said = " ".join(ended.text.split())
        if ended.code is None:
            return f"hangs: {said[-300:]}"
        if ended.code < 0:
            return f"crashes with signal {-ended.code}: {said[-300:]}"
        if "Traceback" in ended.text:
            return f"traceback: {said[-600:]}"
        if ended.code not in (0, 1, 2, 3):
            return f"exit code {ended.code}: {said[-300:]}"
        named = str(path.relative_to(cwd)) in said or path.parent.name in said
        if ended.code == code:
            try:
                outcome = case.command.outcome(ended, cwd)
            except (OSError, ValueError, KeyError) as error:
                return f"exit code {ended.code}, but no outcome: {error!r}"
            return None if outcome == right else f"another outcome: {str(outcome)[:300]} instead of {str(right)[:300]}"
        if not named:
            return f"exit code {ended.code}, and the file {path.name} is not named: {said[-400:]}"
        if ended.code == 3 and case.command.partial is not None:
            outcome = case.command.outcome(ended, cwd)
            if not case.command.partial(outcome, right):
                return f"a part of another outcome: {str(outcome)[:300]}"
        debris = [p.name for p in cwd.rglob(".*.part")]
        return f"leaves {debris}" if debris else None


TOGETHER = 12
"""Cases that share a child process, as long as none ends it."""
Row = tuple[str, str, str, str, str | None]
"""Kind of file, damage, command, how it ended, and what is wrong."""


def work(scenes: Path, chosen: Iterable[int], count: int, seed: int) -> list[Row]:
    """Run some of the cases."""
    wanted = set(chosen)
    found = []
    with Bench(scenes) as bench:
        mine = [case for number, case in enumerate(cases(count, seed)) if number in wanted]
        for begin in range(0, len(mine), TOGETHER):
            together = mine[begin : begin + TOGETHER]
            for case, (ended, wrong) in zip(together, bench.check(together), strict=True):
                names = (case.kind.name, case.damage.__name__, case.command.name, ended)
                found.append((*names, wrong and f"{case}: {wrong}"))
    return found


def main() -> int:
    """Run many cases and write how many there were of each kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: list[Row] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ocgl-scenes-") as folder:
        scenes(Path(folder))
        parts = [range(start, min(start + 1000, options.count)) for start in range(0, options.count, 1000)]
        with LocalExecutor(options.workers) as pool:
            for rows in pool.map(partial(work, Path(folder), count=options.count, seed=options.seed), parts):
                found += rows
                wrong = [verdict for *_, verdict in rows if verdict]
                sys.stdout.write(f"{len(found):,} of {options.count:,} damages; wrong among the last: {len(wrong)}\n")
                sys.stdout.writelines(f"  {verdict}\n" for verdict in wrong)
                sys.stdout.flush()
    heads = ("kinds", "damages", "commands", "ended")
    counts = {name: dict(Counter(row[i] for row in found)) for i, name in enumerate(heads)}
    wrong = [verdict for *_, verdict in found if verdict]
    record = {
        "count": len(found),
        "wrong": len(wrong),
        "seed": options.seed,
        "minutes": (time.monotonic() - begin) / 60,
    }
    if options.out is not None:
        options.out.write_text(json.dumps(record | counts, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
