import threading
from pathlib import Path

import pytest

from ocgl.files import write_whole


def test_a_write_that_fails_leaves_the_old_content_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_threads_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = [bytes([65 + i]) * 200_000 for i in range(8)]

    def write(data: bytes) -> None:
        for _ in range(5):
            write_whole(path, data)

    threads = [threading.Thread(target=write, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents and len(list(tmp_path.iterdir())) == 1
