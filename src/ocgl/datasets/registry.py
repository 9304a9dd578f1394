"""Registry of the datasets: their downloads and expected statistics.

At least two independent projects publish each checksum, with these exceptions: those of Amazon Computer and Coauthor CS
were computed from the files, and Elliptic has none and is trusted on first use.
"""

from ocgl.datasets import amazon, bag_of_words, elliptic, ogb, reddit, roman_empire
from ocgl.datasets.spec import Download, Spec, Statistics, Used

_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_OGB = "http://snap.stanford.edu/ogb/data/nodeproppred"
_ELLIPTIC = "https://data.pyg.org/datasets/elliptic"

CORAFULL = Spec(
    name="corafull",
    folders=("cora",),
    downloads=(
        Download(
            "https://github.com/abojchevski/graph2gauss/raw/master/data/cora.npz",
            "cora.npz",
            sha256="62e054f93be00a3dedb15b7ac15a2a07168ceab68b40bf95f54d2289d024c6bc",
        ),
    ),
    # the file has 65,311 entries with duplicates: 126,842 directed edges after merging
    statistics=Statistics(19_793, 130_622, 8_710, 70, "twice raw"),
    parse=bag_of_words.parse,
    used=Used(19_793, 70, 130_622),
    streams={"class": 35},
)

ARXIV = Spec(
    name="arxiv",
    folders=("ogbn_arxiv", "arxiv"),
    downloads=(
        Download(
            f"{_OGB}/arxiv.zip",
            "arxiv.zip",
            sha256="49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
            size=83_058_288,
            holds=(*ogb.FILES, ogb.YEARS),
        ),
    ),
    statistics=Statistics(169_343, 1_166_243, 128, 40),
    parse=ogb.parse,
    used=Used(169_343, 40, 1_166_243),
    streams={"class": 20, "time": 10},
    structure="ogbn-arxiv.npz",
)

REDDIT = Spec(
    name="reddit",
    folders=("Reddit",),
    downloads=(
        Download(
            "https://data.dgl.ai/dataset/reddit.zip",
            "reddit.zip",
            sha256="9a16353c28f8ddd07148fc5ac9b57b818d7911ea0fbe9052d66d49fc32b372bf",
            holds=("reddit_data.npz", "reddit_graph.npz"),
        ),
    ),
    statistics=Statistics(232_965, 114_615_892, 602, 41),
    parse=reddit.parse,
    used=Used(227_853, 40),
    streams={"class": 20},
)

AMAZON_COMPUTER = Spec(
    name="amazon-computer",
    folders=("Computers",),
    downloads=(
        Download(
            f"{_SHCHUR}/amazon_electronics_computers.npz",
            "amazon_electronics_computers.npz",
            sha256="be58a1ec75405bfb2f9917b85cc34eb29c606df5a988da355468dda97d19b753",
        ),
    ),
    statistics=Statistics(13_752, 491_722, 767, 10, "symmetric"),
    parse=amazon.parse,
    used=Used(13_752, 10, 491_722),
    streams={"class": 5},
)

PRODUCTS = Spec(
    name="products",
    folders=("ogbn_products", "products"),
    downloads=(
        Download(
            f"{_OGB}/products.zip",
            "products.zip",
            sha256="5ea0a112edaec2141c0a2a612dd4aed58df97ff3e1ab1a0ca8238f43cbbb50a8",
            holds=(*ogb.FILES, ogb.NODES),
        ),
    ),
    statistics=Statistics(2_449_029, 61_859_140, 100, 47),
    parse=ogb.parse,
    used=Used(2_449_028, 46, 61_859_036),
    streams={"class": 23},
    structure="ogbn-products.npz",
)

ROMAN_EMPIRE = Spec(
    name="roman-empire",
    folders=("roman_empire",),
    downloads=(
        Download(
            "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/roman_empire.npz",
            "roman_empire.npz",
            sha256="a58ba741d123bf892fe5c872138d07463d75a2e9012360b8dd78ac2d4766d428",
            size=20_401_489,
        ),
    ),
    statistics=Statistics(22_662, 32_927, 300, 18, "undirected"),
    parse=roman_empire.parse,
    used=Used(22_662, 18, 32_927),
    streams={"class": 9},
)

ELLIPTIC = Spec(
    name="elliptic",
    folders=("Elliptic",),
    downloads=tuple(
        Download(f"{_ELLIPTIC}/{file}.zip", f"{file}.zip", holds=(file,))
        for file in (elliptic.FEATURES, elliptic.CLASSES, elliptic.EDGES)
    ),
    statistics=Statistics(203_769, 234_355, 165, 2, members=(42_019, 4_545)),
    parse=elliptic.parse,
    used=Used(203_769, 2, 234_355),
    streams={"time": 10},
)

COAUTHOR_CS = Spec(
    name="coauthor-cs",
    folders=("CS",),
    downloads=(
        Download(
            f"{_SHCHUR}/ms_academic_cs.npz",
            "ms_academic_cs.npz",
            sha256="7bbda0ec297bb44efc712cc59f9e9a6c9ac959e5c4848e311bc7e011b0be5753",
        ),
    ),
    statistics=Statistics(18_333, 163_788, 6_805, 15, "symmetric"),
    parse=bag_of_words.parse,
    used=Used(17_457, 14),
    streams={"class": 7},
    kind="extra",
)

SPECS: dict[str, Spec] = {
    spec.name: spec
    for spec in (CORAFULL, ARXIV, REDDIT, AMAZON_COMPUTER, PRODUCTS, ROMAN_EMPIRE, ELLIPTIC, COAUTHOR_CS)
}
