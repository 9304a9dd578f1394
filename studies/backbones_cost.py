"""What an update costs with each network and method, all with the same options: docs/backbones/cost.json.

    python -m studies.backbones_cost

The first batches of Amazon Computer's class stream, one pass, default hyperparameters, one thread. The time is that of
the processor, so that other work on the machine hardly counts.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from ocgl.experiments import configure, stream_of
from ocgl.experiments.stepping import arrivals
from ocgl.strategies import Learner, make_strategy
from ocgl.types import Json
from studies.backbones import NETWORKS, ONLINE, Network

OUT = Path("docs/backbones/cost.json")
WARM, UPDATES = 30, 120


def measured(network: Network, method: str) -> Json:
    """Return the milliseconds of an update, and the bytes of the parameters."""
    overrides: Json = {"passes": 1} | ({} if network.backbone == "gcn" else {"backbone": network.backbone})
    config = configure("amazon-computer", method, profile=network.profile, overrides=overrides)
    stream = stream_of(config)
    learner = Learner(make_strategy(method, seed=0, **config.resolved(stream.base)))
    seconds: list[float] = []
    for step, batch in arrivals(learner, stream):
        begin = time.process_time()
        learner.learn(batch)
        seconds.append(time.process_time() - begin)
        if step.index + 1 >= WARM + UPDATES:
            break
    model = learner.strategy.model  # type: ignore[attr-defined]
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    return {"ms": 1000 * float(np.median(seconds[WARM:])), "parameter_bytes": parameters}


def main() -> int:
    torch.set_num_threads(1)
    found = {network.name: {method: measured(network, method) for method in ONLINE} for network in NETWORKS}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
