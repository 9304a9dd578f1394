"""A folder that somebody else has prepared is read without executing, downloading, writing outside or taking memory."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import open_page
from tests.faults.damage import BENCH, GRAPH
from tests.faults.zygote import Zygote

pytestmark = pytest.mark.slow
GIGABYTE = 1_000_000_000
EVIL = """
from pathlib import Path
from typing import ClassVar
from ocgl.strategies import Bare, strategy

Path({marker!r}).write_text("executed")

@strategy
class Evil(Bare):
    name: ClassVar[str] = "evil"
"""
NAMES = (
    "<script>document.title = 'executed'</script>",
    "<img src=x onerror=\"document.title='executed'\">",
    "{{ 7 * 7 }}{% for x in y %}",
    "[red]bold[/red] [link=file:///etc/passwd]x[/link]",
    "\x1b[31mred\x1b]0;title\x07",
    "$(touch executed) `touch executed` ; touch executed",
    r"\input{/etc/passwd} \write18{touch executed} $\frac{",
    "=cmd|' /C calc'!A0",
    "../../../../outside",
    "x" * 180,
)


@pytest.fixture(scope="module")
def ocgl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    environment = {"OCGL_CACHE": str(tmp_path_factory.mktemp("cache"))}
    with Zygote(**environment, http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9") as zygote:
        yield zygote


@pytest.fixture(scope="module")
def honest(ocgl: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    assert ocgl(*BENCH, GRAPH, "--out", "b", cwd=folder).code == 0
    return folder / "b"


def forge(folder: Path, source: Path, name: str, **values: Any) -> Path:
    """Add a result of a stranger's making, with a right checksum, made of an honest one."""
    from ocgl.checked import sealed

    target = folder / name
    shutil.copytree(source, target)
    found = json.loads((target / "result.json").read_text())
    config = found["config"] | values.pop("config", {})
    values = {"id": name, "config": config, "dataset": config["dataset"], "strategy": config["strategy"]} | values
    (target / "result.json").write_text(json.dumps(sealed(found | values)))
    return target


def a_run(folder: Path) -> Path:
    return next(p.parent for p in sorted(folder.glob("*/result.json")) if '"kind": "run"' in p.read_text())


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture
def evil(honest: Path, tmp_path: Path) -> Path:
    """A folder with a result that names a strategy file."""
    folder = tmp_path / "evil"
    folder.mkdir()
    (tmp_path / "evil.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    config = {"strategy": f"{tmp_path / 'evil.py'}:Evil", "hyperparameters": {}}
    forge(folder, a_run(honest), "e" * 16, config=config, code=None)
    return folder


@pytest.mark.parametrize("command", ["results", "report", "verify", "reproduce"])
def test_reading_executes_no_strategy_file(command: str, ocgl: Zygote, evil: Path, tmp_path: Path) -> None:
    arguments = {
        "results": ["results", str(evil)],
        "report": ["report", str(evil), "--export", "e"],
        "verify": ["verify", str(evil), "--workers", "0"],
        "reproduce": ["reproduce", "eeee", "--out", str(evil)],
    }[command]
    ended = ocgl(*arguments, cwd=tmp_path)
    assert not (tmp_path / "marker").exists()
    assert "Traceback" not in ended.text
    if command in ("verify", "reproduce"):
        assert ended.code == (3 if command == "verify" else 2)
        assert f"would execute {tmp_path / 'evil.py'}" in ended.text and "--trust" in ended.text
        ocgl(*arguments, "--trust", cwd=tmp_path)
        assert (tmp_path / "marker").exists(), "--trust allows it"
    else:
        assert ended.code == 0, ended


def test_resuming_executes_a_strategy_file_only_with_trust(ocgl: Zygote, evil: Path, tmp_path: Path) -> None:
    begin = ["run", "--dataset", GRAPH, "--strategy", f"{tmp_path / 'evil.py'}:Evil", "--set", "batch_size=40"]
    assert ocgl(*begin, "--out", "run", cwd=tmp_path).code == 0
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "marker").unlink()
    ended = ocgl("run", "--resume", "run", cwd=tmp_path)
    assert ended.code == 2 and "evil.py; if you trust it, add --trust" in ended.err
    assert not (tmp_path / "marker").exists()
    assert ocgl("run", "--resume", "run", "--trust", cwd=tmp_path).code == 0


def test_a_pipe_or_a_device_as_strategy_file_does_not_hang(ocgl: Zygote, honest: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    for name in ("pipe.py", "zero.py"):
        config = {"strategy": f"{tmp_path / name}:X"}
        forge(tmp_path / "b", a_run(honest), name.replace(".", "-"), config=config)
    for command in (["results", "b"], ["report", "b"], ["verify", "b", "--workers", "0"]):
        ended = ocgl(*command, cwd=tmp_path, timeout=20)
        assert ended.code in (0, 3) and "Traceback" not in ended.text, ended


HUGE = "sbm:nodes=50000000,edges=400000000,width=500,classes=10"


@pytest.mark.parametrize("dataset", [HUGE, "products", "corafull", "/nowhere/else.npz", "sbm:nodes=x"])
def test_reading_loads_and_downloads_no_dataset(
    dataset: str, ocgl: Zygote, honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "b"
    forge(folder, a_run(honest), "h" * 16, config={"dataset": dataset})
    (tmp_path / "data").mkdir()
    env = {"OCGL_DATA": str(tmp_path / "data")}
    for command in (["results", "b"], ["report", "b"], ["verify", "b", "--workers", "1"]):
        ended = ocgl(*command, cwd=tmp_path, env=env)
        assert ended.code in (0, 1, 3) and "Traceback" not in ended.text, ended
        assert ended.peak < GIGABYTE, ended
        assert "download" not in ended.text or "would download" in ended.text or "downloads are" in ended.text
    assert list((tmp_path / "data").rglob("*")) == []
    ended = ocgl("reproduce", "hhhh", "--out", "b", cwd=tmp_path, env=env)
    assert ended.code == 2 and ended.peak < GIGABYTE, ended


def test_a_re_run_that_takes_too_much_memory_is_stopped(ocgl: Zygote, honest: Path, tmp_path: Path) -> None:
    """A network of three million units has 3 GB of weights."""
    source = next(p.parent for p in sorted(honest.glob("*/result.json")) if '"strategy": "linear"' in p.read_text())
    config = {"strategy": "bare", "hyperparameters": {"hidden": 30_000, "layers": 3}}
    run = next(p for p in sorted(honest.glob("*/result.json")) if '"kind": "run"' in p.read_text()).parent
    forge(tmp_path / "b", run if run else source, "m" * 16, config=config)
    ended = ocgl("verify", "b", "--workers", "1", cwd=tmp_path, timeout=120)
    assert ended.code == 1 and "could not be re-run" in ended.out and "Traceback" not in ended.text, ended
    assert ended.peak < GIGABYTE


@pytest.fixture
def prepared(honest: Path, tmp_path: Path) -> Path:
    """A folder with everything an attacker would try in names, paths and links."""
    folder = tmp_path / "inside" / "b"
    run = a_run(honest)
    for number, name in enumerate(NAMES):
        forge(folder, run, f"title-{number}", title=name)
        forge(folder, run, f"data-{number}", config={"dataset": name})
        forge(folder, run, f"method-{number}", config={"strategy": name})
        forge(folder, run, f"setting-{number}", setting=name[:90])
    deep = folder / "deep" / "/".join(["d" * 50] * 40)
    deep.mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    linked = forge(folder, run, "linked")
    (linked / "result.json").unlink()
    (linked / "result.json").symlink_to("/etc/passwd")
    endless = forge(folder, run, "endless")
    (endless / "anytime.parquet").unlink()
    (endless / "anytime.parquet").symlink_to("/dev/zero")
    pipe = forge(folder, run, "pipe")
    (pipe / "result.json").unlink()
    os.mkfifo(pipe / "result.json")
    big = forge(folder, run, "big")
    with (big / "result.json").open("r+b") as file:
        file.truncate(8 << 30)  # sparse: takes no disk
    return folder


def test_a_prepared_folder_is_read_and_nothing_else_happens(ocgl: Zygote, prepared: Path, tmp_path: Path) -> None:
    cwd = tmp_path / "inside"
    (tmp_path / "outside").write_text("untouched")
    before = snapshot(tmp_path)
    for command in (
        ["results", "b"],
        ["results", "b", "--format", "csv"],
        ["report", "b", "--out", "r.html", "--export", "e"],
        ["verify", "b", "--workers", "1"],
    ):
        ended = ocgl(*command, cwd=cwd, timeout=120)
        assert ended.code in (1, 3) and "Traceback" not in ended.text, ended
        assert ended.peak < GIGABYTE
        assert "root:" not in ended.text, "/etc/passwd was read"
        assert "\x1b[31m" not in ended.text and "\x1b]0" not in ended.text, "control characters reach the terminal"
    after = snapshot(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert all(path.startswith((str(cwd / "r.html"), str(cwd / "e"))) for path in after.keys() - before.keys())
    assert not list(tmp_path.rglob("executed"))
    for path in (cwd / "e").glob("*.tex"):
        assert r"\input{" not in path.read_text() and "\\write18" not in path.read_text()


def test_names_in_a_report_are_text_and_not_markup(ocgl: Zygote, prepared: Path, tmp_path: Path) -> None:
    ended = ocgl("report", "b", "--out", "r.html", cwd=prepared.parent, timeout=120)
    assert ended.code == 3, ended
    for width in (1440, 390):
        page = open_page(prepared.parent / "r.html", tmp_path, width)
        assert page.title == "ocgl report" and page.figures


def test_a_pack_with_a_path_as_id_is_refused(ocgl: Zygote, honest: Path, tmp_path: Path) -> None:
    import polars as pl

    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "result.json").write_text("{}")
    (tmp_path / "b").mkdir()
    text = (a_run(honest) / "result.json").read_text()
    pl.DataFrame({"id": ["../victim"], "result": [text]}).write_parquet(tmp_path / "b" / "packed.parquet")
    shutil.copytree(a_run(honest), tmp_path / "b" / a_run(honest).name)
    for command in (["results", "b"], ["results", "b", "--pack"], ["report", "b"]):
        ended = ocgl(*command, cwd=tmp_path)
        assert ended.code in (2, 3) and "'../victim'" in ended.text, ended
    assert (victim / "result.json").exists()


def test_a_parquet_file_that_unpacks_to_gigabytes_is_refused(ocgl: Zygote, honest: Path, tmp_path: Path) -> None:
    import polars as pl

    folder = tmp_path / "b"
    folder.mkdir()
    huge = pl.DataFrame({"id": ["a"], "result": ["x"]}).select(pl.all().repeat_by(50_000_000).explode())
    huge.write_parquet(folder / "packed.parquet")
    assert (folder / "packed.parquet").stat().st_size < 10_000_000
    ended = ocgl("results", "b", cwd=tmp_path)
    assert ended.code == 3 and "more than allowed" in ended.err and ended.peak < GIGABYTE, ended
    texts = pl.DataFrame({"id": [f"r{i}" for i in range(400)], "result": ["x" * 2_000_000] * 400})
    texts.write_parquet(folder / "packed.parquet")
    ended = ocgl("results", "b", cwd=tmp_path)
    assert ended.code == 3 and "bytes" in ended.err and ended.peak < GIGABYTE, ended


def test_a_name_that_only_looks_like_no_file_is_not_executed(ocgl: Zygote, honest: Path, tmp_path: Path) -> None:
    """The check for trust and the loader once read `evil.py:x:Evil` differently."""
    (tmp_path / "evil.py:x").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    forge(tmp_path / "b", a_run(honest), "e" * 16, config={"strategy": f"{tmp_path / 'evil.py:x'}:Evil"}, code=None)
    for command in (["verify", "b", "--workers", "0"], ["reproduce", "eeee", "--out", "b"], ["report", "b"]):
        ended = ocgl(*command, cwd=tmp_path)
        assert "Traceback" not in ended.text, ended
    assert not (tmp_path / "marker").exists()
