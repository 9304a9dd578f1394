"""Record every method's scores and final weights with `ocgl run`, and compare two such records bit by bit.

    python studies/baseline.py record FILE.json [--ocgl COMMAND] [--workers 2]
    python studies/baseline.py compare OLD.json NEW.json

The script uses the command line only, so one script measures any version of the code. A record holds, for each run,
the scores, the performance matrix, the anytime curve and a hash of every array of the saved learner. Arrays are
compared by content, not by name: every array of the old record has to be in the new one.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ONLINE = (
    "a-gem", "bare", "er", "ewc", "linear", "lwf", "mas", "pdgnn", "ridge", "slda", "ssm-a-gem", "ssm-er", "twp",
)  # fmt: skip
SCORES = ("AAP", "AP", "AF", "AF_T", "AP_validation", "matrix", "evaluation", "updates", "stream_hash", "graph_hash",
          "memory_bytes", "memory_nodes", "undefined_scores", "nonfinite_losses", "curve")  # fmt: skip
SPARSE = ("bare", "er", "linear", "pdgnn", "ridge", "twp")
EXTRAS: dict[str, str] = {
    "er, passes 5": "--strategy er --set passes=5 --set memory_proportion=3",
    "a-gem, passes 5": "--strategy a-gem --set passes=5 --set memory_proportion=2",
    "ewc, passes 5": "--strategy ewc --set passes=5 --set strength=1000 --set anchor_every=3",
    "mas, power 2": "--strategy mas --set passes=5 --set power=2",
    "twp, passes 5": "--strategy twp --set passes=5",
    "twp, one layer": "--strategy twp --set passes=2 --set layers=1",
    "lwf, every batch": "--strategy lwf --set passes=2 --set update_every=1",
    "lwf, all": "--strategy lwf --set passes=2 --set student=all",
    "ssm-er, graph": "--strategy ssm-er --set buffer=30% --set passes=2 --set neighbors_budget=[5,5]",
    "ssm-a-gem, graph": "--strategy ssm-a-gem --set buffer=30% --set passes=2",
    "linear, view": "--strategy linear --set view=own+mean1+mean2 --set standardise=true --set relu=32"
    " --set project=20",
    "linear, passes 5": "--strategy linear --set passes=5 --set memory_proportion=3 --set lr=0.01",
    "pdgnn, view": "--strategy pdgnn --set view=own+diff1 --set standardise=true --set passes=3",
    "ridge, revisit": "--strategy ridge --set revisit=10 --set buffer=10% --set view=own+mean1+mean2",
    "slda, revisit": "--strategy slda --set revisit=5 --set buffer=5% --set project=32",
    "ridge, counts": "--strategy ridge --set balanced=false",
    "bare, layers 3": "--strategy bare --set layers=3 --set hidden=64",
    "bare, layers 1": "--strategy bare --set layers=1",
    "bare, task": "--strategy bare --stream task",
    "linear, task": "--strategy linear --stream task",
    "er, task": "--strategy er --stream task",
    "er, blurry": "--strategy er --stream blurry",
    "bare, iid": "--strategy bare --stream iid",
    "bare, textbook": "--strategy bare --profile first-reading-textbook",
    "er, textbook": "--strategy er --profile first-reading-textbook --set passes=2",
    "ssm-er, textbook": "--strategy ssm-er --profile first-reading-textbook --set buffer=30%",
    "twp, textbook": "--strategy twp --profile first-reading-textbook --set passes=2",
    "bare, store degrees": "--strategy bare --profile first-reading-textbook --set degrees=store",
    "linear, disk": "--strategy linear --store disk",
    "linear, estimate": "--strategy linear --eval-cap 30",
    "bare, late labels": "--strategy bare --set label_delay=[0,5] --set missing_labels=0.2",
    "bare, straddle": "--strategy bare --set straddle=true --set batch_size=7",
    "bare, caps": "--strategy bare --set fanout=[5,3] --set eval_fanout=all",
    "er, f1": "--strategy er --set metric=f1:1",
}  # fmt: skip


def runs() -> dict[str, str]:
    """List the options of every run by its name."""
    found = {}
    for stream in ("class", "order"):
        for name in ONLINE:
            found[f"digits, {stream}, {name}"] = f"--dataset digits --stream {stream} --strategy {name} --eval-every 5"
            found[f"amazon-computer, {stream}, {name}"] = (
                f"--dataset amazon-computer --stream {stream} --strategy {name} --eval-every 40"
            )
        short = f"--stream {stream} --strategy joint"
        found[f"digits, {stream}, joint"] = f"--dataset digits {short} --set epochs=8"
        found[f"amazon-computer, {stream}, joint"] = f"--dataset amazon-computer {short} --set epochs=2"
    found |= {f"digits, {name}": f"--dataset digits --eval-every 5 {options}" for name, options in EXTRAS.items()}
    for name in SPARSE:
        found[f"coauthor-cs, {name}"] = (
            f"--dataset coauthor-cs --strategy {name} --eval-every 100 --set batch_size=50 --set project=256"
            if name == "ridge"
            else f"--dataset coauthor-cs --strategy {name} --eval-every 100 --set batch_size=50"
        )
    first = "--profile first-reading"
    return {name: options if "--profile" in options else f"{options} {first}" for name, options in found.items()}


def hashed(values: Any) -> str:
    return hashlib.sha256(f"{values.dtype} {values.shape} ".encode() + values.tobytes()).hexdigest()[:16]


def measured(command: str, options: str) -> dict[str, Any]:
    """Run once and read what the run left."""
    import polars as pl
    from safetensors import safe_open

    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        full = [*shlex.split(command), "run", *shlex.split(options), "--out", str(out)]
        done = subprocess.run(full, capture_output=True, text=True, env=os.environ | single)
        if done.returncode:
            return {"failed": done.stderr[-400:]}
        result = json.loads((out / "result.json").read_text())
        curves = pl.read_parquet(out / "anytime.parquet").select("step", "^AP_t$", "^task_.*$")
        with safe_open(out / "model.safetensors", framework="numpy") as file:
            arrays = {name: hashed(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a mapping
    found = {name: result.get(name) for name in SCORES}
    found["curves"] = hashlib.sha256(curves.write_csv(float_precision=17).encode()).hexdigest()[:16]
    return found | {"arrays": arrays, "seconds": [result["learn_seconds"], result["evaluate_seconds"]]}


def record(path: Path, command: str, workers: int) -> int:
    """Run everything and write the record."""
    wanted = runs()
    with ThreadPoolExecutor(workers) as pool:
        jobs = {name: pool.submit(measured, command, options) for name, options in wanted.items()}
        found = {name: {"options": wanted[name], **job.result()} for name, job in jobs.items()}
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    failed = [name for name, run in found.items() if "failed" in run]
    print(f"{len(found)} runs, {len(failed)} failed: {failed}")
    return len(failed)


def same(before: Any, after: Any) -> bool:
    """Compare two values; of a mapping, what the old record knows."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(same(value, after.get(key)) for key, value in before.items())
    return bool(before == after)


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Say which runs differ, and in what."""
    wrong = 0
    for name, before in old.items():
        after = new.get(name, {})
        known = [key for key in (*SCORES, "curves") if key in before]  # hashes of streams that were renamed are not
        different = [key for key in known if not same(before[key], after.get(key))]
        lost = [key for key, value in before.get("arrays", {}).items() if value not in after.get("arrays", {}).values()]
        if different or lost or "failed" in after:
            wrong += 1
            print(f"DIFFERENT {name}: {different} {lost} {after.get('failed', '')}")
    print(f"{len(old) - wrong} of {len(old)} runs are bit-equal")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--ocgl", default=f"{sys.executable} -m ocgl")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.action == "record":
        sys.exit(record(given.files[0], given.ocgl, given.workers))
    sys.exit(compare(*(json.loads(file.read_text()) for file in given.files)))
