"""The protocol: what a run is, how it is run and evaluated, and what is kept of it."""

from ocgl.experiments.config import PROFILES, RunConfig, configure
from ocgl.experiments.experiment import Experiment, Progress
from ocgl.experiments.offline import OfflineExperiment
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, TrialResult
from ocgl.experiments.runner import evaluate, make_experiment, resume, run_config, stream_of
from ocgl.experiments.sharding import train_sharded
from ocgl.experiments.sweep import Sweep, SweepStatus, finished, run_sweep

__all__ = [
    "PROFILES",
    "ChoiceResult",
    "Experiment",
    "OfflineExperiment",
    "Progress",
    "ResultStore",
    "RunConfig",
    "RunResult",
    "Sweep",
    "SweepStatus",
    "TrialResult",
    "configure",
    "evaluate",
    "finished",
    "make_experiment",
    "resume",
    "run_config",
    "run_sweep",
    "stream_of",
    "train_sharded",
]
