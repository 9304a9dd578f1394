"""Kept results against the present code: a part of them is computed again, and what is proven equal may stand."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.identity import code_name
from ocgl.benchmark.keep import run_of
from ocgl.benchmark.results import Results, bit_equal, stamp
from ocgl.benchmark.sweep import name_of, shared, tuning_score
from ocgl.types import Json

PLACE = ("kind", "dataset", "stream", "profile", "strategy", "setting", "buffer", "code")


@dataclass(frozen=True)
class Verdict:
    """What was found for the runs (or trials) of one method by one code in one place: those computed again."""

    place: tuple[str, ...]
    kept: tuple[str, ...]
    equal: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all that was computed again came out as it was kept."""
        return not self.different


def again(config: RunConfig, share: float | None, data_root: Path | None) -> Json:
    """Compute a kept run or trial anew."""
    if share is None:
        fresh: Json = json.loads(json.dumps(run_of(config, shared(config, data_root)).finish()))
        return fresh
    value = tuning_score(config, data_root, share)
    return {"score": value if value > float("-inf") else None}


def verify(folder: Path, pool: Executor, each: int = 1, data_root: Path | None = None) -> Iterator[Verdict]:
    """Compute `each` run and `each` trial of every method by every code in every place again, chosen by hash.

    Runs count as equal if everything but clocks and memory is, to the bit; trials by their scores.
    """
    places = _places(folder, data_root)
    chosen = {
        place: sorted(results, key=lambda result: sha256(result["id"].encode()).digest())[:each]
        for place, results in places.items()
    }
    jobs = {
        place: [pool.submit(again, _config(result), result.get("share"), data_root) for result in results]
        for place, results in chosen.items()
    }
    for place, results in chosen.items():
        pairs = [(result["id"], _equal(job.result(), result)) for job, result in zip(jobs[place], results, strict=True)]
        equal, different = (tuple(name for name, same in pairs if same is wanted) for wanted in (True, False))
        yield Verdict(place, tuple(result["id"] for result in places[place]), equal, different)


def carry_over(folder: Path, pool: Executor, data_root: Path | None = None) -> tuple[int, list[Verdict]]:
    """Let what the present code would compute to the bit stand, as shown by a run and a trial of every method.

    Gives how many results stand, and what was found.
    """
    verdicts = list(verify(folder, pool, data_root=data_root))
    return adopt(folder, verdicts, data_root), verdicts


def adopt(folder: Path, verdicts: list[Verdict], data_root: Path | None = None) -> int:
    """Let kept results stand for the present code where those computed again were equal; gives how many.

    Each says by which code it was computed, and what was compared to let it stand. Choices are made of trials and
    come back with the next call of what made them.
    """
    results = Results(folder)
    standing: dict[str, Json] = {}
    for verdict in verdicts:
        for name in verdict.kept if verdict.holds else ():
            result = results.get(name)
            config, share = _config(result), result.get("share")
            fresh = name_of(config, share, data_root)
            origin = result.get("computed_by") or {"code": result.get("code"), "revision": result["revision"]}
            facts = stamp(result, fresh, result["kind"], result["setting"], config, result.get("selection"))
            standing[name] = facts | {"revision": origin["revision"], "computed_by": origin, "compared": verdict.equal}
    results.rename(standing)
    return len(standing)


def _places(folder: Path, data_root: Path | None) -> dict[tuple[str, ...], list[Json]]:
    """Group what other code has left, by method and place; what the present code has computed needs no proof."""
    places: dict[tuple[str, ...], list[Json]] = {}
    results = Results(folder)
    for result in results:
        config = result["config"]
        other = result["kind"] != "choice" and result.get("code") != code_name(config["strategy"])
        if other and name_of(_config(result), result.get("share"), data_root) not in results:
            facts = {"dataset": config["dataset"], "stream": config["stream"]["kind"], "strategy": config["strategy"]}
            facts |= {"profile": config["profile"], "kind": result["kind"], "setting": result["setting"]}
            place = tuple(str((result | facts).get(key)) for key in PLACE)
            places.setdefault(place, []).append(result)
    return places


def _config(result: Json) -> RunConfig:
    return RunConfig.model_validate(result["config"])


def _equal(fresh: Json, kept: Json) -> bool:
    return fresh["score"] == kept["score"] if kept["kind"] == "trial" else bit_equal(fresh, kept)
