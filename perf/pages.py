"""Markdown pages: the prose lies in Jinja templates, the figures come from the code that fills them in."""

import argparse
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ocgl.types import Json


def render(template: Path, **facts: object) -> str:
    """Fill in a template; a name that it does not get is an error."""
    loader = FileSystemLoader(template.parent)
    environment = Environment(
        loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template.name).render(facts)


def markdown_table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Write a table without the newline after its last line."""
    names = list(head)
    rows = [f"| {' | '.join(line)} |" for line in (names, *lines)]
    return "\n".join([rows[0], "|" + "---|" * len(names), *rows[1:]])


def fill(page: Path, name: str, text: str) -> None:
    """Put a text between `<!-- name -->` and `<!-- end of name -->` of a page."""
    pattern = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- end of {name} -->)", re.DOTALL)
    page.write_text(pattern.sub(lambda _: f"\n{text}\n\n", page.read_text()))


def figures(doc: str | None, out: Path, measure: Callable[[], Json]) -> Json:
    """Measure and write the figures to a file, or with --page on the command line only read them."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the tables")
    if not parser.parse_args().page:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(measure(), indent=1) + "\n")
    found: Json = json.loads(out.read_text())
    return found
