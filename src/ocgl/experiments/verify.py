"""Re-run a sample of stored results, and mark the rest as valid for this version if they are bit-equal."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ocgl.experiments.config import RunConfig
from ocgl.experiments.identity import canonical
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import Origin, RunResult, TrialResult, bit_equal
from ocgl.experiments.runner import make_experiment
from ocgl.experiments.trials import name_of, shared, stamped, tuning_score
from ocgl.experiments.trust import needs_trust
from ocgl.types import Json

Checked = RunResult | TrialResult


@dataclass(frozen=True)
class Verdict:
    """What was found for the runs, or the trials, of one method by one version of the code.

    Attributes:
        group: kind, dataset, stream, profile, strategy, setting, buffer and code of the results.
        current: whether the present code has computed, or adopted, them.
        stored: ids of all of them.
        equal: ids of those re-run that are bit-equal.
        different: ids of those re-run that are not.
        failed: why results could not be re-run, by id.
        untrusted: what re-running results would do that needs trust, by id.
    """

    group: tuple[str, ...]
    current: bool
    stored: tuple[str, ...]
    equal: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    untrusted: dict[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether something was re-run, and all of it is bit-equal."""
        return bool(self.equal) and not self.different and not self.failed


def rerun(config: RunConfig, share: float | None, data_root: Path | None, trust: bool = True) -> RunResult | float:
    """Compute a stored run, or the score of a stored trial, again; without trust nothing is downloaded."""
    if share is None:
        return make_experiment(config, shared(config, data_root, download=trust)).finish()
    return tuning_score(config, data_root, share, download=trust)


def verify(
    store: ResultStore,
    pool: Executor,
    each: int = 1,
    data_root: Path | None = None,
    trust: bool = False,
    current: bool = True,
) -> Iterator[Verdict]:
    """Re-run `each` results of every group, chosen by hash.

    Runs are equal if everything but clocks and memory is, to the bit; trials by their scores. What is damaged is
    listed in `store.damaged`.

    Args:
        store: the results.
        pool: where to compute.
        each: results to re-run per group.
        data_root: folder of the datasets.
        trust: execute strategy files, download and load large data that the results name.
        current: also re-run results of the present code.
    """
    groups = _groups(store, current)
    chosen = {
        group: sorted(results, key=lambda result: sha256(result.id.encode()).digest())[:each]
        for group, results in groups.items()
    }
    reasons = {
        result.id: None if trust else needs_trust(result.config, data_root)
        for results in chosen.values()
        for result in results
    }
    jobs = {
        result.id: pool.submit(rerun, result.config, share_of(result), data_root, trust)
        for results in chosen.values()
        for result in results
        if reasons[result.id] is None
    }
    for (is_current, *group), results in chosen.items():
        stored = tuple(result.id for result in groups[is_current, *group])
        untrusted = {result.id: reason for result in results if (reason := reasons[result.id]) is not None}
        equal: list[str] = []
        different: list[str] = []
        failed: dict[str, str] = {}
        for result in (result for result in results if result.id in jobs):
            error = jobs[result.id].exception()
            if error is not None:
                failed[result.id] = f"{type(error).__name__}: {error}".splitlines()[0]
            else:
                (equal if _equal(jobs[result.id].result(), result) else different).append(result.id)
        texts = tuple(str(part) for part in group)
        yield Verdict(texts, bool(is_current), stored, tuple(equal), tuple(different), failed, untrusted)


def verify_and_adopt(folder: Path, pool: Executor, data_root: Path | None = None) -> tuple[int, list[Verdict]]:
    """Re-run one run and one trial of every method that other code has left; adopt the rest where they are bit-equal.

    Return how many results were adopted, and the verdicts.
    """
    store = ResultStore(folder)
    verdicts = list(verify(store, pool, data_root=data_root, trust=True, current=False))
    return adopt(store, verdicts, data_root), verdicts


def adopt(results: ResultStore, verdicts: list[Verdict], data_root: Path | None = None) -> int:
    """Mark verified results of other code as valid for this version; return how many.

    Each says which code it was computed by and which results were compared. Choices are made of trials and are made
    again by the next sweep.
    """
    adopted: dict[str, Checked] = {}
    for verdict in verdicts:
        for name in verdict.stored if verdict.holds and not verdict.current else ():
            result = results.get(name)
            assert isinstance(result, RunResult | TrialResult)
            fresh = name_of(result.config, share_of(result), data_root)
            origin = result.computed_by or Origin(code=result.code, revision=result.revision)
            stamp = stamped(fresh, result.setting, result.config)
            more: Json = {"revision": origin.revision, "computed_by": origin, "compared": verdict.equal}
            more |= {"adopted_unchecked": not result.checked}
            adopted[name] = result.model_copy(update=stamp | more)
    results.rename(adopted)
    return len(adopted)


def share_of(result: Checked) -> float | None:
    """Return the share of the prefix that a trial was run over; None for a run."""
    return result.share if isinstance(result, TrialResult) else None


def _groups(store: ResultStore, current: bool) -> dict[tuple[bool | str, ...], list[Checked]]:
    """Group the runs and trials; those of other code that the present code has computed again are left out."""
    found = [result for result in store if isinstance(result, RunResult | TrialResult)]
    configs = {result.config.method: result.config for result in found}
    codes = {method: config.code for method, config in configs.items()}
    present = {_key(result) for result in found if result.code == codes[result.config.method]}
    groups: dict[tuple[bool | str, ...], list[Checked]] = {}
    for result in found:
        config = result.config
        is_current = result.code is not None and result.code == codes[result.config.method]
        if (is_current and not current) or (not is_current and _key(result) in present):
            continue
        where = (config.dataset, config.stream.kind, config.profile, config.method)
        group = (is_current, result.kind, *where, result.setting, result.buffer, str(result.code))
        groups.setdefault(group, []).append(result)
    return groups


def _key(result: Checked) -> str:
    """Return what a result is of, whatever code has computed it."""
    return json.dumps([result.kind, canonical(result.config), share_of(result)], sort_keys=True)


def _equal(fresh: RunResult | float, stored: Checked) -> bool:
    if isinstance(stored, TrialResult):
        return fresh == (float("-inf") if stored.score is None else stored.score)
    return isinstance(fresh, RunResult) and bit_equal(fresh, stored)
