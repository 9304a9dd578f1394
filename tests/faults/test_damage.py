"""No damage to any file that the package writes or reads gives another number, a traceback or a crash."""

from pathlib import Path

import pytest

from tests.faults.damage import DAMAGES, KINDS, cases, scenes, work

COUNT, PARTS = 1020, 4


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scenes")
    scenes(made)
    return made


def test_the_cases_cover_every_kind_damage_and_command() -> None:
    found = list(cases(COUNT))
    assert len(found) >= 1000
    assert {case.kind.name for case in found} == {kind.name for kind in KINDS}
    assert {case.damage for case in found} == set(DAMAGES)
    wanted = {"run", "resume", "bench", "results", "report", "verify", "datasets", "expansion"}
    assert wanted <= {case.command.name for case in found}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_file_is_named_or_does_no_harm(part: int, folder: Path) -> None:
    rows = work(folder, range(part, COUNT, PARTS), COUNT, seed=0)
    wrong = [verdict for *_, verdict in rows if verdict]
    assert not wrong, "\n".join(wrong)
    ended = [row[3] for row in rows]
    assert ended.count("named") > len(rows) / 3  # the damages reach what is read
