"""A learner in a folder: its state, and its graph.

The folder holds `learner.json`, which names the last save, and `save-N`, which holds it. A new save is written beside
the old one, then `learner.json` is replaced, then the old one is deleted; so a crash leaves one of the two.
"""

import re
import shutil
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from ocgl.checked import read_sealed, sealed
from ocgl.errors import DamagedFileError, StateError, UntrustedError
from ocgl.files import building, locked, make_folder, remove_leftovers, write_json
from ocgl.graph import GraphStore
from ocgl.graph.durable import DurableStore, load_store, write_store
from ocgl.state import State
from ocgl.strategies._core.base import Fanout, Strategy
from ocgl.strategies._core.learner import Learner
from ocgl.strategies._core.registry import is_findable, make_strategy, spec_of
from ocgl.types import Json

FACTS, STATE, GRAPH = "learner.json", "state.safetensors", "graph"
_SAVE = re.compile(r"save-(\d+)")


class Saved(BaseModel):
    """What `learner.json` says.

    Args:
        schema_version: version of the folder's format.
        save: name of the folder that holds the last save.
        strategy: name of the strategy, or `path/to/file.py:Class`.
        hyperparameters: its hyperparameters.
        seed: its seed.
        eval_fanout: fan-out of neighbourhoods for predictions.
        chunk: nodes per neighbourhood sample.
        batch_size: labels per batch.
        state: checksum of the state.
        flushed: which flush of the store in `graph` the save belongs to; None if the save holds the graph itself.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    save: str = Field(pattern=r"^save-\d+$")
    strategy: str
    hyperparameters: dict[str, Any]
    seed: NonNegativeInt
    eval_fanout: Fanout | Literal["same"]
    chunk: PositiveInt
    batch_size: PositiveInt | None
    state: str
    flushed: Json | None


def save(learner: Learner, folder: Path) -> None:
    """Save a learner with its graph."""
    make_folder(folder)
    with locked(folder):
        remove_leftovers(folder)
        store, flushed = learner.store, None
        if isinstance(store, DurableStore) and store.home.resolve() == (folder / GRAPH).resolve():
            store.flush()
            flushed = store.mark
        last = max((int(found[1]) for path in folder.iterdir() if (found := _SAVE.fullmatch(path.name))), default=0)
        new = folder / f"save-{last + 1}"
        state = learner.state()
        with building(new, lambda _: True) as part:
            state.save(part / STATE)
            if flushed is None:
                write_store(store, part / GRAPH)
        facts = Saved(
            save=new.name,
            strategy=spec_of(learner.strategy),
            hyperparameters=learner.strategy.hyperparameters(),
            seed=learner.strategy.seed,
            eval_fanout=learner.eval_fanout,
            chunk=learner.chunk,
            batch_size=learner.batch_size,
            state=state.checksum(),
            flushed=flushed,
        )
        write_json(folder / FACTS, sealed(facts.model_dump(mode="json")))
        _remove_others(folder, new.name)


def load(folder: Path, strategy: Strategy | None, trust: bool, device: str) -> Learner:
    """Load a learner with its graph."""
    if not (folder / FACTS).exists():
        raise DamagedFileError(folder / FACTS, "it is missing: no learner was saved in this folder")
    with locked(folder):  # a save that replaces this one waits
        facts = _read(folder)
        if strategy is None:
            strategy = _strategy_of(facts, trust)
        part = folder / facts.save
        state = State.load(part / STATE)
        if state.checksum() != facts.state:
            raise DamagedFileError(part / STATE, f"it is not the state that {FACTS} was written with")
        if facts.flushed is None:
            store: GraphStore = load_store(part / GRAPH)
        elif not (folder / GRAPH).is_dir():
            raise DamagedFileError(folder / GRAPH, "it is missing: the learner was saved with its graph there")
        else:
            store = DurableStore(folder / GRAPH, flushed=facts.flushed)
    try:
        fanout: Any = tuple(facts.eval_fanout) if isinstance(facts.eval_fanout, list) else facts.eval_fanout
        learner = Learner(strategy, fanout, facts.chunk, store, device, facts.batch_size)
        learner.load_state(state)
    except BaseException:
        if isinstance(store, DurableStore):
            store.close()
        raise
    return learner


def _read(folder: Path) -> Saved:
    path = folder / FACTS
    try:
        return Saved.model_validate(read_sealed(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DamagedFileError(path, f"it does not describe a learner: {where}: {first['msg']}") from error


def _strategy_of(facts: Saved, trust: bool) -> Strategy:
    executed = [text for text in (facts.strategy, str(facts.hyperparameters.get("backbone", ""))) if ":" in text]
    if executed and not trust:
        raise UntrustedError(f"loading this learner executes {executed[0]}; if you trust it, add trust=True")
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.hyperparameters.items()}
    made = make_strategy(facts.strategy, seed=facts.seed, **values)
    if not is_findable(made):
        raise StateError(f"{facts.strategy} cannot be found again; make it yourself, and give it as strategy=")
    return made


def _remove_others(folder: Path, kept: str) -> None:
    for path in folder.iterdir():
        if _SAVE.fullmatch(path.name) and path.name != kept and (path / STATE).exists():
            shutil.rmtree(path, ignore_errors=True)
