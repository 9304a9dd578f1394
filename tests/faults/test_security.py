"""docs/security.md: every sentence about a file names a test, and the tests that are about the page itself."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ocgl.checked import sealed
from ocgl.errors import DamagedFileError
from ocgl.experiments.result_store import ResultStore
from ocgl.parquet import parse_unchecked, read_parquet
from tests.test_cli import ocgl as cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/\S+?)::(\w+)`", PAGE.read_text())
    assert len(named) > 12
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


def test_every_promise_of_the_page_has_a_test() -> None:
    text = PAGE.read_text()
    for part in ("## Not trusted", "## What a checksum is"):
        section = text.partition(part)[2].partition("\n## ")[0]
        for item in re.split(r"\n- ", section)[1:]:
            assert "::test_" in item, item


def test_nothing_is_unpickled_from_a_file() -> None:
    """Pickle is used between a worker and its parent, and for nothing that lies on disk."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        if path.name != "executors.py":
            assert "import pickle" not in text and "torch.load(" not in text and "allow_pickle=True" not in text, path
        for load in re.findall(r"np\.load\([^)]*\)", text):
            assert "allow_pickle=False" in load, f"{path}: {load}"


def test_a_forged_result_with_a_right_checksum_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bench",
        "sbm:nodes=200,edges=500,classes=4,width=4",
        "--strategies",
        "slda",
        "--seeds",
        "1",
        "--tune-seeds",
        "1",
    ]
    assert cli(*arguments, "--grids", "coarse", "--set", "batch_size=40", "--out", str(tmp_path), "--workers", "0") == 0
    run = next(ResultStore(tmp_path).runs)
    path = tmp_path / run.id / "result.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | {"updates": 1})))
    assert cli("results", str(tmp_path)) == 0
    assert cli("verify", str(tmp_path), "--workers", "0") == 1
    assert "DIFFERENT" in capsys.readouterr().out


ABSURD = Path(__file__).with_name("data") / "absurd.parquet"
"""A curve with a few changed bytes; a size in it makes polars ask for 2^61 bytes, which ends the process."""


def test_a_parquet_file_that_ends_the_process_is_refused() -> None:
    code = f"parse_parquet(Path({str(ABSURD)!r}).read_bytes(), 'a file')"
    command = [sys.executable, "-c", f"from pathlib import Path; from ocgl.parquet import parse_parquet; {code}"]
    assert subprocess.run(command, capture_output=True, check=False).returncode < 0
    with pytest.raises(DamagedFileError, match=r"absurd.parquet cannot be used.*ends the process"):
        read_parquet(ABSURD)
    with pytest.raises(DamagedFileError, match="no Parquet file"):  # the next one is read by a new child
        parse_unchecked(b"PAR1", "another")
    with pytest.raises(DamagedFileError, match="changed"):  # with a checksum it is not even parsed
        read_parquet(ABSURD, ["sha256:0"])
