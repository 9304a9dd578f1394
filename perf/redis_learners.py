"""Several learners on one graph on Redis: what 1, 2 and 4 processes need to learn the same stream.

    python -m perf.redis_learners [--page]

The stream goes to three masters with a replica each, all on this machine. Then each process learns its share of the
batches, sampled as of their steps, and the sums are added. The figures go to docs/cluster/learners.json, and the table
in docs/cluster.md is made of them; --page only writes the table.
"""

import json
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path
from typing import cast

import numpy as np
from tests.redis.servers import Cluster

from ocgl.experiments import configure, stream_of
from ocgl.experiments.config import RunConfig
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.sharding import _empty, _loaded, _merged, train_shard_on
from ocgl.state import State
from ocgl.strategies import ClosedForm, Learner
from ocgl.types import Json
from perf.pages import figures, fill, markdown_table
from perf.redis_model import processor_seconds

OUT, PAGE_FILE = Path("docs/cluster/learners.json"), Path("docs/cluster.md")
DATA, METHODS, LEARNERS, ROUNDS = "amazon-computer", ("ridge", "slda"), (1, 2, 4), 3


def timed_shard(config: RunConfig, shard: int, shards: int, address: str) -> tuple[State, float, float]:
    """Learn a share; return its state, and the seconds on the clock and of the processor."""
    begin, spent = time.perf_counter(), time.process_time()
    state = train_shard_on(config, shard, shards, None, address)
    return state, time.perf_counter() - begin, time.process_time() - spent


def measure() -> Json:
    """Learn with 1, 2 and 4 processes in turn; return the medians."""
    found: Json = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder)) as cluster,
        LocalExecutor(max(LEARNERS)) as pool,
    ):
        for method in METHODS:
            config = configure(DATA, method)
            stream = stream_of(config)
            store = _loaded(stream, cluster.address(f"learners-{method}"))
            address = store.address.text
            warm = [pool.submit(timed_shard, config, shard, 64, address) for shard in range(max(LEARNERS))]
            [one.result() for one in warm]
            seconds: dict[int, list[Json]] = {count: [] for count in LEARNERS}
            reference: Learner | None = None
            worst = 0.0
            for _ in range(ROUNDS):
                for count in LEARNERS:
                    servers, begin = processor_seconds(cluster), time.perf_counter()
                    shards = [pool.submit(timed_shard, config, shard, count, address) for shard in range(count)]
                    done = [one.result() for one in shards]
                    learned = time.perf_counter() - begin
                    parts = []
                    for state, _, _ in done:
                        parts.append(_empty(config, stream))
                        parts[-1].load_state(state)
                    whole = reduce(_merged, parts)
                    total = time.perf_counter() - begin
                    seconds[count].append(
                        {
                            "seconds": total,
                            "merge": total - learned,
                            "processor": sum(spent for *_, spent in done),
                            "servers": processor_seconds(cluster) - servers,
                        }
                    )
                    if reference is None:
                        whole.store, reference = store, whole
                    worst = max(worst, difference(reference, whole))
            found[method] = {
                str(count): {key: float(np.median([one[key] for one in rounds])) for key in rounds[0]}
                for count, rounds in seconds.items()
            }
            found[method]["updates"] = sum(stream.labels_at(i) is not None for i in range(len(stream)))
            found[method]["difference"] = worst
            store.drop()
    return found


def difference(one: Learner, other: Learner) -> float:
    """Return the largest difference of the weights of two learners, as a part of the largest weight."""
    first, second = cast(ClosedForm, one.strategy), cast(ClosedForm, other.strategy)
    orders = np.argsort(first.labels), np.argsort(second.labels)
    pairs = zip(first.classifier(), second.classifier(), strict=True)
    return max(float(np.abs(a[..., orders[0]] - b[..., orders[1]]).max() / np.abs(a).max()) for a, b in pairs)


def write_page(found: Json) -> None:
    """Write the table of the page."""
    lines = []
    for method, of in found.items():
        alone = of["1"]["seconds"]
        for count in LEARNERS:
            one = of[str(count)]
            lines.append(
                (
                    method, str(count), f"{one['seconds']:.2f} s", f"{alone / one['seconds']:.2f}",
                    f"{one['merge']:.2f} s", f"{one['processor']:.2f} s", f"{one['servers']:.2f} s",
                )
            )  # fmt: skip
    head = ("method", "learners", "time", "speed-up", "merging among it", "processor, learners", "processor, masters")
    fill(PAGE_FILE, "learners", markdown_table(head, lines))


def main() -> int:
    found = figures(__doc__, OUT, measure)
    write_page(found)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
