"""Figures for paper: matplotlib, to PNG or PDF."""

from pathlib import Path

from ocgl.benchmark.expansion import Expansion, rolling_mean


def draw_expansion(measured: Expansion, path: Path) -> None:
    """Draw nodes seen per batch against the batch, full and capped, as Figure 2 of the paper does."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    for i, hops in enumerate(measured.hops):
        for sizes, style, kind in ((measured.full[hops], "-", "all"), (measured.capped[hops], "--", "capped")):
            name = f"{hops} hop{'s' * (hops > 1)}, {kind} (max {sizes.max():,})"
            axes.plot(rolling_mean(sizes), style, color=f"C{i}", label=name, linewidth=1.4)
    axes.plot(measured.nodes, ":", color="0.4", label=f"nodes arrived ({measured.nodes[-1]:,})", linewidth=1.2)
    axes.set(yscale="log", xlabel="batch", ylabel="distinct nodes (rolling mean of 10)")
    axes.set_title(f"{measured.dataset}: neighbourhood expansion, cap {measured.fanout} per node", fontsize=10)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)
