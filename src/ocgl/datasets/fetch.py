"""Finds raw files on disk or downloads them, and prepares them for a parser."""

import hashlib
import http.client
import shutil
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ocgl.datasets.cache import scratch
from ocgl.datasets.paths import offline
from ocgl.datasets.spec import Download, Spec
from ocgl.errors import DatasetCorruptError, DatasetMissingError, WriteError
from ocgl.files import make_folder, writing

CHUNK = 1 << 20
TIMEOUT = 10.0


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(root: Path, spec: Spec, download: Download) -> list[Path] | None:
    for folder in (root / name / part for part in ("raw", "") for name in spec.folders):
        paths = [folder / name for name in download.files]
        if all(path.is_file() for path in paths):
            return paths
    return None


def _archive(root: Path, spec: Spec, download: Download) -> list[Path] | None:
    folders = [root / name / part for part in ("raw", "") for name in spec.folders]
    for folder in [*folders, root] if download.holds else []:
        if (folder / download.file).is_file():
            return [folder / download.file]
    return None


def local(root: Path, spec: Spec) -> dict[Path, Download] | None:
    """Return the dataset's files on disk (unpacked or zipped), None if any is missing."""
    found: dict[Path, Download] = {}
    for download in spec.downloads:
        paths = _plain(root, spec, download) or _archive(root, spec, download)
        if paths is None:
            return None
        found |= dict.fromkeys(paths, download)
    return found


def obtain(root: Path, spec: Spec, download: bool) -> dict[Path, Download]:
    """Return the dataset's files on disk, after downloading missing ones.

    Args:
        root: folder of all raw files.
        spec: the dataset.
        download: whether to download missing files; if not, they raise DatasetMissingError.
    """
    for item in spec.downloads:
        if _plain(root, spec, item) or _archive(root, spec, item):
            continue
        target = root / spec.folders[0] / "raw" / item.file
        if not download or offline():
            raise missing(root, spec, item, "downloads are switched off")
        try:
            _download(item, target)
        except WriteError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise missing(root, spec, item, f"the download failed: {error}") from error
    files = local(root, spec)
    assert files is not None
    return files


def missing(root: Path, spec: Spec, item: Download, why: str) -> DatasetMissingError:
    """Return the error for a missing file, with its URL and target folder."""
    folder = root / spec.folders[0] / "raw"
    text = f"{spec.name}: {item.file} is missing ({why}). Get it from {item.url} and put it in {folder}"
    if item.holds:
        text += f" (zipped, or unpacked as {', '.join(item.holds)})"
    structure = spec.structure_file(root)
    if structure.is_file():
        text += f". The graph without features is available ({structure}). It suffices for `ocgl expansion` but not for"
        text += f" learning; in Python, ocgl.load_dataset({spec.name!r}, structure_only=True) loads it"
    return DatasetMissingError(text)


def _download(item: Download, target: Path) -> None:
    with urllib.request.urlopen(item.url, timeout=TIMEOUT) as answer:
        make_folder(target.parent)
        with writing(target) as file:
            shutil.copyfileobj(answer, file, CHUNK)
            file.flush()
            _check_arrived(Path(file.name), item, answer.headers.get("Content-Length"))


def _check_arrived(part: Path, item: Download, length: str | None) -> None:
    if length is not None and length.isdecimal() and int(length) != part.stat().st_size:
        raise DatasetCorruptError(f"the download of {item.file} from {item.url} is truncated; try again")
    check(part, item)


def check(path: Path, item: Download, digest: str | None = None) -> None:
    """Compare a downloaded file with its published size and checksum, where known.

    Args:
        path: the file.
        item: the download it comes from.
        digest: SHA-256 of the file, if already computed.
    """
    size = path.stat().st_size
    if item.size is not None and size != item.size:
        raise DatasetCorruptError(f"{path} has {size} bytes, expected {item.size}; delete it and get {item.url} again")
    if item.sha256 is not None and (digest or sha256(path)) != item.sha256:
        raise DatasetCorruptError(f"{path} does not have the sha256 {item.sha256}; delete it and get {item.url} again")


@contextmanager
def workspace(spec: Spec, files: dict[Path, Download]) -> Iterator[Path]:
    """Yield a temporary `<folder>/raw` with links to the files or their unpacked content.

    Parsers may write there, so they never write beside the raw files.
    """
    with scratch(f"raw-{spec.name}") as folder:
        raw = folder / spec.folders[0] / "raw"
        raw.mkdir(parents=True)
        for path, item in files.items():
            if path.name in item.files:
                _link(path, raw / path.name)
            else:
                _unpack(path, item, raw)
        yield raw


def _link(path: Path, target: Path) -> None:
    try:
        target.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, target)


def _unpack(path: Path, item: Download, raw: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {Path(name).name: name for name in archive.namelist() if "__MACOSX" not in name}
        for name in item.holds:
            if name not in members:
                raise DatasetCorruptError(f"{path} does not contain {name}")
            with archive.open(members[name]) as source, writing(raw / name) as target:
                shutil.copyfileobj(source, target, CHUNK)
