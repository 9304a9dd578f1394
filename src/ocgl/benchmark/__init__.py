"""The protocol: what a run is, how it is carried out, and what is kept of it."""

from ocgl.benchmark.config import PROFILES, RunConfig, configure
from ocgl.benchmark.joint import JointRun
from ocgl.benchmark.keep import execute, resume, run_of, stream_of
from ocgl.benchmark.run import Progress, Run
from ocgl.benchmark.sweep import Sweep, Tally, carry_out, finished

__all__ = [
    "PROFILES",
    "JointRun",
    "Progress",
    "Run",
    "RunConfig",
    "Sweep",
    "Tally",
    "carry_out",
    "configure",
    "execute",
    "finished",
    "resume",
    "run_of",
    "stream_of",
]
