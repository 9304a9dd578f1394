"""docs/reliability.md from docs/reliability.json of `make fuzz`; the prose is in templates/reliability.md."""

import json
from pathlib import Path

from perf.pages import markdown_table, render
from tests.faults.test_damage import COUNT, PARTS

PAGE, RECORD = Path("docs/reliability.md"), Path("docs/reliability.json")
TEMPLATE = Path(__file__).parent / "templates" / "reliability.md"


def main() -> None:
    record = json.loads(RECORD.read_text())
    record["ended"] = {"named": 0, "same": 0, "unchanged": 0} | record["ended"]
    tables = {
        name: markdown_table((head, "damages"), [(key, f"{count:,}") for key, count in record[name].items()])
        for name, head in (("kinds", "kind of file"), ("damages", "damage"), ("commands", "command"))
    }
    PAGE.write_text(
        render(TEMPLATE, record=record, tested=f"{COUNT // PARTS:,}", more=f"{COUNT - COUNT // PARTS:,}", **tables)
    )


if __name__ == "__main__":
    main()
