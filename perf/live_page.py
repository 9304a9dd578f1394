"""The tables of docs/live.md, from docs/live/figures.json and docs/live/soak.json."""

import json
from pathlib import Path

from ocgl.types import Json
from perf.pages import fill, markdown_table
from perf.updates import Row

SOAK, PAGE = Path("docs/live/soak.json"), Path("docs/live.md")


def rows_of(figures: Json) -> list[Row]:
    """Return the table: what is wanted is that of the service's promises."""
    rows = []
    for name in ("ridge", "linear"):
        one = figures[name]
        for form, wanted, text in (
            ("packed", 3.33, "packed features"),
            ("numbers", None, "features as JSON numbers"),
        ):
            what = f"{name}: a node over HTTP, durable, learning included, {text}"
            theirs = 1e6 / one["in_process"]
            rows.append(Row(what, 1e6 / one[form], "the same in process", theirs, wanted, "us", True))
        what = f"{name}: p99 of a question while ingesting and learning at half of that rate"
        rows.append(Row(what, one["busy"]["p99"], "median, idle", one["idle"]["p50"], 10, at_most=True))
    large = figures["million"]
    what = f"anonymous memory at {large['nodes']:,} nodes"
    rows.append(Row(what, large["MB"], "a learner in process", large["offline_MB"], 1.5, "MB", True))
    what = "the same, both graphs on disk"
    rows.append(Row(what, large["MB"], "a learner in process", large["offline_on_disk_MB"], None, "MB", True))
    rates = large["rates"]
    what = f"a node among the last tenth of {large['events']:,} events"
    rows.append(Row(what, 1e6 / rates[-1], "in the second tenth", 1e6 / rates[1], 1.2, "us", True))
    return rows


def write_page(figures: Json) -> None:
    """Write the tables into docs/live.md."""
    table = markdown_table(
        ("measured", "ours", "reference", "theirs", "ratio", "wanted"), [row.cells for row in rows_of(figures)]
    )
    over = figures["overload"]
    more = [
        ("saturated rate, requests per second", f"{over['saturated']:.1f}"),
        ("offered, requests per second", f"{over['offered']:.1f}"),
        ("requests: sent, accepted, answered with 429, other",
         f"{over['sent']}, {over['accepted']}, {over['refused']}, {over['other']}"),
        ("p99 of an accepted request", f"{over['accepted_ms']['p99']:.0f} ms"),
        ("p99 of a refusal", f"{over['refused_ms']['p99']:.0f} ms"),
        ("a request three seconds later", f"{over['after_ms']:.0f} ms"),
        ("acknowledged nodes that are missing", str(over["lost"])),
    ]  # fmt: skip
    fill(PAGE, "figures", f"{table}\n\nOverload:\n\n{markdown_table(('three times the saturated rate', ''), more)}")
    if SOAK.exists():
        fill(PAGE, "soak", _soak_table(json.loads(SOAK.read_text())).rstrip())


def _soak_table(soak: Json) -> str:
    kills, kafka, fuzz, grown = soak["kills"], soak["kafka"], soak["fuzz"], soak["growth"]["rows"]
    equal = ", ".join(f"{name} {one['AP']:.2f}" for name, one in soak["equal"].items() if isinstance(one, dict))
    first, last = grown[0], grown[-1]
    failed = sum(count for status, count in fuzz["statuses"].items() if int(status) >= 500)
    sizes = f"{first['records']:,} and {last['records']:,} records"
    lines = [
        ("Amazon Computer over HTTP equals `ocgl run` in AP, AAP, matrix and weights, to the bit", equal),
        ("kill -9 under load; acknowledged events lost or doubled, states other than the replayed one",
         f"{kills['kills']} kills, {kills['lost_or_different']}"),
        ("longest recovery among them", f"{kills['most_seconds_to_recover']:.1f} s"),
        ("kills of a Kafka consumer; messages, each taken once", f"{kafka['kills']}, {kafka['messages']:,}"),
        ("strange requests by schemathesis and of our own; answers of 500 or more",
         f"{fuzz['by_schemathesis']:,} + {fuzz['own']:,}, {failed}"),
        ("memory after the second and the last fifth of these",
         f"{fuzz['memory'][1]['MB']:.0f} and {fuzz['memory'][-1]['MB']:.0f} MB"),
        (f"recovery from the log alone, {sizes}",
         f"{first['from_the_log_alone']:.1f} and {last['from_the_log_alone']:.1f} s"),
        (f"recovery from a snapshot, {sizes}", f"{first['from_a_snapshot']:.1f} and {last['from_a_snapshot']:.1f} s"),
    ]  # fmt: skip
    return markdown_table(("what", "seen"), lines) + "\n"
