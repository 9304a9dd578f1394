"""Re-run a sample of stored results, and mark the rest as valid for this version if they are bit-equal."""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ocgl.experiments.config import RunConfig
from ocgl.experiments.identity import code_name
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import Origin, RunResult, TrialResult, bit_equal
from ocgl.experiments.runner import make_experiment
from ocgl.experiments.sweep import name_of, shared, stamped, tuning_score

Checked = RunResult | TrialResult


@dataclass(frozen=True)
class Verdict:
    """What was found for the runs, or the trials, of one method by one version of the code.

    Attributes:
        group: kind, dataset, stream, profile, strategy, setting, buffer and code of the results.
        stored: ids of all of them.
        equal: ids of those re-run that are bit-equal.
        different: ids of those re-run that are not.
    """

    group: tuple[str, ...]
    stored: tuple[str, ...]
    equal: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all that was re-run is bit-equal."""
        return not self.different


def rerun(config: RunConfig, share: float | None, data_root: Path | None) -> RunResult | float:
    """Compute a stored run, or the score of a stored trial, again."""
    if share is None:
        return make_experiment(config, shared(config, data_root)).finish()
    return tuning_score(config, data_root, share)


def verify(folder: Path, pool: Executor, each: int = 1, data_root: Path | None = None) -> Iterator[Verdict]:
    """Re-run `each` results of every group that another version of the code has left, chosen by hash.

    Runs are equal if everything but clocks and memory is, to the bit; trials by their scores.
    """
    groups = _groups(folder, data_root)
    chosen = {
        group: sorted(results, key=lambda result: sha256(result.id.encode()).digest())[:each]
        for group, results in groups.items()
    }
    jobs = {
        group: [pool.submit(rerun, result.config, share_of(result), data_root) for result in results]
        for group, results in chosen.items()
    }
    for group, results in chosen.items():
        pairs = [(result.id, _equal(job.result(), result)) for job, result in zip(jobs[group], results, strict=True)]
        equal, different = (tuple(name for name, same in pairs if same is wanted) for wanted in (True, False))
        yield Verdict(group, tuple(result.id for result in groups[group]), equal, different)


def verify_and_adopt(folder: Path, pool: Executor, data_root: Path | None = None) -> tuple[int, list[Verdict]]:
    """Re-run one run and one trial of every method, and adopt the rest where they are bit-equal.

    Return how many results were adopted, and the verdicts.
    """
    verdicts = list(verify(folder, pool, data_root=data_root))
    return adopt(folder, verdicts, data_root), verdicts


def adopt(folder: Path, verdicts: list[Verdict], data_root: Path | None = None) -> int:
    """Mark verified results as valid for this version; return how many.

    Each says which code it was computed by and which results were compared. Choices are made of trials and are made
    again by the next sweep.
    """
    results = ResultStore(folder)
    adopted: dict[str, Checked] = {}
    for verdict in verdicts:
        for name in verdict.stored if verdict.holds else ():
            result = results.get(name)
            assert isinstance(result, RunResult | TrialResult)
            fresh = name_of(result.config, share_of(result), data_root)
            origin = result.computed_by or Origin(code=result.code, revision=result.revision)
            stamp = stamped(fresh, result.setting, result.config)
            more = {"revision": origin.revision, "computed_by": origin, "compared": verdict.equal}
            adopted[name] = result.model_copy(update=stamp | more)
    results.rename(adopted)
    return len(adopted)


def share_of(result: Checked) -> float | None:
    """Return the share of the prefix that a trial was run over; None for a run."""
    return result.share if isinstance(result, TrialResult) else None


def _groups(folder: Path, data_root: Path | None) -> dict[tuple[str, ...], list[Checked]]:
    """Group what other versions of the code have left; the present code's own results need no check."""
    groups: dict[tuple[str, ...], list[Checked]] = {}
    results = ResultStore(folder)
    for result in results:
        if not isinstance(result, RunResult | TrialResult) or result.code == code_name(result.config.strategy):
            continue
        if name_of(result.config, share_of(result), data_root) not in results:
            config = result.config
            where = (config.dataset, config.stream.kind, config.profile, config.strategy)
            group = (result.kind, *where, result.setting, result.buffer, str(result.code))
            groups.setdefault(group, []).append(result)
    return groups


def _equal(fresh: RunResult | float, stored: Checked) -> bool:
    if isinstance(stored, TrialResult):
        return fresh == (float("-inf") if stored.score is None else stored.score)
    return isinstance(fresh, RunResult) and bit_equal(fresh, stored)
