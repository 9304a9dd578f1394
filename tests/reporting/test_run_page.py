from pathlib import Path

import pytest

from ocgl.errors import ConfigError
from ocgl.experiments import configure, run_config
from ocgl.reporting.run_page import write_run_page
from tests.helpers import options


def test_the_page_is_self_contained_and_says_what_the_result_says(tmp_path: Path) -> None:
    result = run_config(configure("digits", "bare", overrides=options("batch_size=60", "hidden=8")), out=tmp_path / "r")
    page = write_run_page(tmp_path / "r").read_text()
    assert f"{result.AAP:.2f}" in page and f"{result.AP:.2f}" in page
    for link in ('src="http', 'href="http', "cdn."):
        assert link not in page.split("</script>", 1)[1]
    assert page.count("Plotly.newPlot") >= 3


def test_an_unfinished_run_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="finished"):
        write_run_page(tmp_path)
