from pathlib import Path
from typing import Any

from ocgl.reporting.figures import draw


def test_logarithmic_axes_have_plain_numbers(tmp_path: Path) -> None:
    """Math text is off, because names are shown as they are: powers would show as their source."""
    made: list[Any] = []

    def logarithmic() -> Any:
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots()
        axes.plot([1e3, 1e7], [1e-2, 1e2])
        axes.set(xscale="log", yscale="log")
        made.append(axes)
        return figure

    draw(logarithmic, tmp_path / "log.png")
    labels = [label.get_text() for axis in (made[0].xaxis, made[0].yaxis) for label in axis.get_ticklabels()]
    assert {"1,000", "1,000,000", "0.01"} <= set(labels) and not any("$" in label for label in labels)
