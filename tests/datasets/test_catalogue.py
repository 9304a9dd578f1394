from pathlib import Path

from ocgl.datasets import catalogue, sbm
from ocgl.datasets.registry import SPECS

from . import raw_files as raw


def test_lists_everything_that_loads() -> None:
    names = [entry.name for entry in catalogue()]
    assert names == [*SPECS, "digits", "sbm", *(f"sbm:{preset}" for preset in sbm.PRESETS)]
    kinds = [entry.kind for entry in catalogue()]
    assert (kinds.count("paper"), kinds.count("extra")) == (7, 1)


def test_on_disk(root: Path) -> None:
    assert {entry.on_disk for entry in catalogue(root)} == {"no", "embedded"}
    (root / "graphs").mkdir()
    (root / "graphs" / "elliptic.npz").touch()
    raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    found = {entry.name: entry.on_disk for entry in catalogue(root)}
    assert (found["corafull"], found["elliptic"], found["reddit"]) == ("yes", "structure only", "no")


def test_tells_the_papers_sizes() -> None:
    (products,) = (entry for entry in catalogue() if entry.name == "products")
    assert (products.nodes, products.used, products.edges) == (2_449_029, 2_449_028, 61_859_140)
    (arxiv,) = (entry for entry in catalogue() if entry.name == "arxiv")
    assert arxiv.streams == {"class": 20, "time": 10}
