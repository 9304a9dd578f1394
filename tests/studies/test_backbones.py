"""The page of networks is written from results, finished or not."""

from pathlib import Path

import pytest

from ocgl.experiments.trials import trial
from studies import backbones, backbones_page

pytestmark = pytest.mark.slow


def test_the_page_shows_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = tuple(network for network in backbones.NETWORKS if network.name in ("gcn, sum", "gcn, sym", "mlp"))
    monkeypatch.setattr(backbones, "STREAMS", {"digits, class": ("digits", "class", networks)})
    monkeypatch.setattr(backbones, "ONLINE", ("bare",))
    out, page = tmp_path / "results", tmp_path / "docs" / "backbones.md"
    out.mkdir()
    page.parent.mkdir()
    backbones_page.write(out, page)
    assert "0 of 18 runs" in page.read_text()
    for (_, network), (online, joint) in backbones.sweeps().items():
        seeds = range(3 if network == "mlp" else 2)
        for sweep, more in ((online, {"passes": 1}), (joint, {"epochs": 1})):
            if network == "gcn, sym" and sweep is joint:
                continue  # not finished
            for seed in seeds:
                config = sweep.config(sweep.groups()[0], {"lr": 0.01, **more}, seed)
                trial(config, "main", None, None, out, None)
    backbones_page.write(out, page)
    text = page.read_text()
    assert "12 of 18 runs" in text and "(2 seeds)" in text and "| gcn, sym |" in text
    assert "What the graph is worth" in text and "| digits, class | gcn, sum |" in text
    assert (page.parent / "backbones" / "networks.png").stat().st_size > 10_000
