"""The protocol: what a run is, how it is carried out, and what is kept of it."""

from ocgl.benchmark.config import PROFILES, RunConfig, configure
from ocgl.benchmark.keep import execute, resume, stream_of
from ocgl.benchmark.run import Progress, Run

__all__ = ["PROFILES", "Progress", "Run", "RunConfig", "configure", "execute", "resume", "stream_of"]
