"""The log: what was synced is there, a torn tail is cut, and damage before it is named."""

import os
from pathlib import Path

import pytest

from ocgl import errors
from ocgl.serving.log import Log, read_log, segments


def written(folder: Path, count: int = 20, segment: int = 200) -> list[bytes]:
    log, payloads = Log(folder, segment), [f"record {i}".encode() * (i % 5 + 1) for i in range(count)]
    assert [log.append(payload) for payload in payloads] == list(range(1, count + 1))
    log.close()
    return payloads


def test_records_come_back_in_order(tmp_path: Path) -> None:
    payloads = written(tmp_path)
    assert len(segments(tmp_path)) > 3
    assert list(read_log(tmp_path)) == list(enumerate(payloads, start=1))
    assert list(read_log(tmp_path, 7, 9)) == list(enumerate(payloads, start=1))[7:9]
    log = Log(tmp_path)
    assert log.sequence == 20 and log.torn is None and log.append(b"next") == 21
    log.close()


def test_every_torn_tail_is_cut(tmp_path: Path) -> None:
    payloads = written(tmp_path)
    last = segments(tmp_path)[-1]
    whole = last.read_bytes()
    kept = [payload for _, payload in read_log(tmp_path)]
    assert kept == payloads
    for size in range(len(whole)):
        last.write_bytes(whole[:size])
        log = Log(tmp_path)
        found = [payload for _, payload in read_log(tmp_path)]
        assert found == payloads[: len(found)] and log.sequence == len(found) >= 20 - 8
        assert (log.torn is None) == (last.stat().st_size == size)
        log.close()
    last.write_bytes(whole + b"\0" * 30)
    assert Log(tmp_path).torn is not None


def test_damage_in_the_middle_names_file_and_offset(tmp_path: Path) -> None:
    written(tmp_path)
    for path in segments(tmp_path)[:-1]:
        whole = path.read_bytes()
        for place in range(0, len(whole), 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            with pytest.raises(errors.DamagedFileError, match=rf"{path.name}.*(byte|record)"):
                Log(tmp_path)
            with pytest.raises(errors.DamagedFileError, match=path.name):
                list(read_log(tmp_path))
        path.write_bytes(whole)
    list(read_log(tmp_path))


def test_damage_in_the_last_segment_that_others_follow_is_no_torn_tail(tmp_path: Path) -> None:
    written(tmp_path, 6, 10**6)
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(errors.DamagedFileError, match="others follow"):
        Log(tmp_path)


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    written(tmp_path)
    segments(tmp_path)[1].unlink()
    with pytest.raises(errors.DamagedFileError):
        list(read_log(tmp_path))
    segments(tmp_path)[0].unlink()
    with pytest.raises(errors.DamagedFileError, match="the log begins with record"):
        list(read_log(tmp_path))


def test_a_full_disk_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path)
    log.append(b"first")

    def half(descriptor: int, data: memoryview, at: int) -> int:
        if len(data) < 15:
            raise OSError(28, "no space left")
        return write(descriptor, data[:10], at)

    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(errors.DiskFullError, match="free disk space"):
        log.append(b"second")
    monkeypatch.undo()
    assert log.append(b"third") == 2
    log.close()
    assert [payload for _, payload in read_log(tmp_path)] == [b"first", b"third"]


def test_a_record_that_comes_during_a_sync_is_synced_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, synced = Log(tmp_path), []
    log.append(b"first")

    def during(descriptor: int) -> None:
        synced.append(log.sequence)
        if len(synced) == 1:
            log.append(b"second")

    monkeypatch.setattr(os, "fdatasync", during)
    log.sync()
    log.sync()
    assert synced == [1, 2]


def test_the_last_record_can_be_taken_back(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"first")
    log.append(b"second")
    log.undo()
    assert log.append(b"third") == 2
    log.close()
    assert [payload for _, payload in read_log(tmp_path)] == [b"first", b"third"]
