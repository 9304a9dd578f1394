"""What the house promises its readers: one vocabulary, flat methods, one public list of names, one version."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ocgl
from ocgl.code import file_of_strategy
from ocgl.strategies import Strategy, find, names

ROOT = Path(__file__).parents[1]
FILES = sorted(path for room in ("src", "tests", "perf", "studies") for path in (ROOT / room).rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

OLD = {
    "Store", "Look", "look", "seen", "Standing", "Kept", "can_stand", "Watch", "starts_from_sums", "Judge", "View",
    "ViewedReplay", "balls", "keep", "placing", "learn_in_shares", "Tally", "carry_out", "looks_again", "further_cost",
    "representative", "let_go",
}  # fmt: skip
"""Identifiers of the first edition that have another name now."""
OLD_ATTRIBUTES = {"own", "edge"}
OLD_PUBLIC = {"load", "make"}


def identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
            if node.attr in OLD_ATTRIBUTES:
                yield f".{node.attr}"
            if node.attr in OLD_PUBLIC and isinstance(node.value, ast.Name) and node.value.id == "ocgl":
                yield f"ocgl.{node.attr}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield str(node.arg)
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
            yield str(node.asname)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_old_identifier_is_left_in_the_code(path: Path) -> None:
    old = OLD | {f".{name}" for name in OLD_ATTRIBUTES} | {f"ocgl.{name}" for name in OLD_PUBLIC}
    assert old & set(identifiers(ast.parse(path.read_text()))) == set()
    assert path.stem not in OLD


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_old_identifier_is_left_in_the_pages(path: Path) -> None:
    text = path.read_text().replace("Past Information Store", "")
    spoken = {"look", "seen", "keep", "Look", "Store"}  # ordinary words: old only as code
    words = set(re.findall(r"\b\w+\b", text)) & (OLD - spoken)
    code = " ".join(re.findall(r"`[^`]*`|```.*?```", text, re.DOTALL))
    words |= set(re.findall(r"\b\w+\b", code)) & spoken
    words |= set(re.findall(r"ocgl\.(?:load|make)\b(?!_)", text))
    assert words == set()


def test_the_identifier_check_sees_what_it_should() -> None:
    bad = "def look(seen): return ocgl.load(seen.own, Judge)\nfrom x import Watch\n"
    assert {"look", "seen", "ocgl.load", ".own", "Judge", "Watch"} <= set(identifiers(ast.parse(bad)))


@pytest.mark.parametrize("name", names())
def test_a_method_has_at_most_two_classes_above_it(name: str) -> None:
    order = find(name).__mro__
    above = order[: order.index(Strategy) + 1]
    assert len(above) <= 3, [kind.__name__ for kind in above]


@pytest.mark.parametrize("name", names())
def test_a_method_says_what_tables_need(name: str) -> None:
    kind = find(name)
    assert kind.title and kind.reference and kind.idea and kind.update_cost != "-" and kind.grid


def test_no_core_module_serves_one_method_alone() -> None:
    core = ROOT / "src" / "ocgl" / "strategies" / "_core"
    methods = [path.read_text() for path in core.parent.glob("[a-z]*.py")]
    shared = [path.read_text() for path in core.glob("*.py")]
    for path in core.glob("[a-z]*.py"):
        used = f"strategies._core.{path.stem} import"
        users = sum(used in text for text in methods)
        assert users >= 2 or any(used in text for text in shared) or users == 0, path.name


def test_methods_do_not_import_each_other() -> None:
    for name in names():
        text = file_of_strategy(name).read_text()
        imported = set(re.findall(r"^from ocgl\.strategies\.(\w+)", text, re.MULTILINE))
        assert imported <= {"_core"}, name


def test_tab_shows_the_public_names() -> None:
    assert set(ocgl.__all__) <= set(dir(ocgl))
    rooms = {name for name in dir(ocgl) if name not in ocgl.__all__ and not name.startswith("__")}
    assert rooms == {path.stem for path in Path(ocgl.__file__).parent.iterdir() if path.stem in rooms}
    assert issubclass(ocgl.errors.ConfigError, ValueError) and "strategies" in rooms
    for name in ocgl.__all__:
        assert getattr(ocgl, name).__doc__


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project and project["dynamic"] == ["version"]


def test_drawing_is_no_core_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = " ".join(project["dependencies"])
    assert not re.search("matplotlib|plotly|jinja2", core)
    assert len(project["optional-dependencies"]["report"]) == 3
