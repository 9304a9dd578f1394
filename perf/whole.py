"""Whole streams of the sizes of the paper's largest, each in a process of its own: minutes and gigabytes."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ocgl.types import Json
from perf.updates import Row

LINEAR = ["--strategy", "linear", "--eval-cap", "100", "--set", "lr=0.01", "--set", "passes=5"]
RUNS = {
    "linear, whole sbm:products, AAP estimated": (["--dataset", "sbm:products", *LINEAR, "--store", "memory"], 12),
    "linear, whole sbm:products, store on disk": (["--dataset", "sbm:products", *LINEAR, "--store", "disk"], 4),
    "bare, whole sbm:arxiv, AAP exact": (["--dataset", "sbm:arxiv", "--strategy", "bare"], 12),
}
MINUTES = 60


def run(options: list[str]) -> Json:
    """Run with the command line, as a user does; gives the result with the minutes of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        begin = time.perf_counter()
        command = [sys.executable, "-m", "ocgl", "run", *options, "--json", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result: Json = json.loads(path.read_text())
        return result | {"minutes": (time.perf_counter() - begin) / 60}


def measure() -> tuple[list[Row], dict[str, Json]]:
    rows, results = [], {}
    for what, (options, gigabytes) in RUNS.items():
        result = results[what] = run(options)
        rows.append(Row(what, result["minutes"], "limit", MINUTES, 1, "min", at_most=True))
        rows.append(Row(what, result["peak_rss_bytes"] / 1e9, "limit", gigabytes, 1, "GB", at_most=True))
    memory, disk = (results[what] for what in list(RUNS)[:2])
    assert (memory["matrix"], memory["AAP"]) == (disk["matrix"], disk["AAP"]), "disk and memory differ"
    return rows, results
