"""What could explain a method that stays outside the threshold, written down before any of it is run.

Each mechanism is a change of one reading of the paper, in a method of profile `paper`. It is tried by the whole
protocol (the method's whole grid, five seeds of selection, five of runs), and every one that is tried is shown on the
page.
"""

from ocgl.types import Json

_ANEW: Json = {"resample_passes": True}
_OFF_BY_ONE: Json = {"reservoir": "off_by_one"}

MECHANISMS: dict[str, dict[str, Json]] = {
    "linear": {
        "the node is one of the ten averaged nodes": {"self_counts": True},
        "a new sample for every pass": _ANEW,
    },
    "lwf": {
        "a new sample for every pass": _ANEW,
        "Glorot instead of Kaiming weights": {"init": "glorot"},
        "distillation of all known classes": {"distil": "known"},
    },
    "mas": {
        "squared gradient of the mean squared output": {"power": 2, "average_outputs": True},
        "a new sample for every pass": _ANEW,
    },
    "pdgnn": {
        "degrees of each hop's block, no self-loops": {"sgc_degrees": "block"},
        "a new sample for every pass": _ANEW,
    },
    "er": {"a new sample for every pass": _ANEW, "reservoir off by one": _OFF_BY_ONE},
    "a-gem": {"a new sample for every pass": _ANEW, "reservoir off by one": _OFF_BY_ONE},
    "ssm-er": {"subgraphs cut out of the store": {"source": "graph"}, "a new sample for every pass": _ANEW},
    "ssm-a-gem": {"subgraphs cut out of the store": {"source": "graph"}, "a new sample for every pass": _ANEW},
    "ewc": {"a new sample for every pass": _ANEW, "Kaiming weights": {"init": "kaiming"}},
    "twp": {"a new sample for every pass": _ANEW, "Kaiming weights": {"init": "kaiming"}},
    "bare": {"a new sample for every pass": _ANEW, "Kaiming weights": {"init": "kaiming"}},
    "joint": {"Kaiming weights": {"init": "kaiming"}, "mini-batches of 128 nodes": {"joint_batch": 128}},
}
