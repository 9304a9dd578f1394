import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ocgl
from studies import results_page
from tests.redis.servers import Server, free_ports, need_redis
from tests.serving.running import Running

ROOT = Path(__file__).parents[1]


def test_the_public_api_is_what_it_lists() -> None:
    for name in ocgl.__all__:
        assert getattr(ocgl, name).__name__ == name
    with pytest.raises(AttributeError):
        _ = ocgl.nothing


def test_importing_pulls_in_neither_torch_nor_pyg_nor_plotting() -> None:
    code = (
        "import sys, ocgl; print([m for m in ('torch', 'torch_geometric', 'matplotlib', 'dask') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    code = code.replace("import sys, ocgl;", "import sys, ocgl; ocgl.Evaluator, ocgl.make_strategy, ocgl.load_dataset;")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_the_python_in_the_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    with contextlib.ExitStack() as stack:
        if page == "docs/live.md":  # its code asks a service
            options = ("--strategy", "ridge", "--features", "64")
            running = stack.enter_context(Running(tmp_path / "my-service", *options))
            text = text.replace("http://127.0.0.1:8000", running.url)
        if page == "docs/cluster.md":  # its code needs a Redis
            need_redis()
            server = stack.enter_context(Server(tmp_path, free_ports(1)[0]))
            server.wait()
            text = text.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            file = tmp_path / "block.py"
            file.write_text(block)
            exec(compile(block, page, "exec"), {"__name__": "__main__"})


def test_the_table_in_the_readme_is_written_from_the_stored_results() -> None:
    (table,) = results_page.MARKED.findall((ROOT / "README.md").read_text())
    assert table.strip() == results_page.readme_table(results_page.Source(ROOT / "results")).strip()
    assert table.count(" ± ") > 4
