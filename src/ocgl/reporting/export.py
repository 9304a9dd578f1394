"""Write tables and figures for a paper to files."""

from functools import partial
from pathlib import Path

from ocgl.experiments.expansion import Expansion
from ocgl.files import make_folder, write_whole
from ocgl.reporting import figures
from ocgl.reporting.collect import Bench, Key
from ocgl.reporting.page import main_benches, rank_over
from ocgl.reporting.tables import as_csv, latex, markdown

TABLES = {".md": markdown, ".tex": latex, ".csv": as_csv}
"""Table formats by file ending."""


def write_export(benches: list[Bench], folder: Path, expansions: dict[Key, Expansion]) -> list[Path]:
    """Write every table as Markdown, LaTeX and CSV, and every figure as PDF and PNG; return the written files.

    Args:
        benches: the benches to write.
        folder: folder to write to; it is created if needed.
        expansions: neighbourhood expansions of the benches for which one was measured.
    """
    make_folder(folder)
    written = []
    for bench in benches:
        name = bench.key.slug
        for ending, write in TABLES.items():
            path = folder / f"table-{name}{ending}"
            write_whole(path, write(bench).encode())
            written.append(path)
        plots = {
            "anytime": partial(figures.anytime, bench),
            "tasks": partial(figures.heats, bench),
        }
        if bench.costed:
            plots["cost"] = partial(figures.cost, bench)
        if bench.sizes():
            plots["buffers"] = partial(figures.buffers, bench)
        if bench.key in expansions:
            plots["expansion"] = partial(figures.expansion, expansions[bench.key])
        for kind, make in plots.items():
            paths = [folder / f"{kind}-{name}{ending}" for ending in (".pdf", ".png")]
            figures.draw(make, *paths)
            written += paths
    ranks = rank_over(main_benches(benches))
    if ranks is not None:
        paths = [folder / f"ranks{ending}" for ending in (".pdf", ".png")]
        figures.draw(partial(figures.ranks, ranks), *paths)
        written += paths
    return written
