"""What is kept of a trial or run that failed."""

import traceback
from pathlib import Path

from ocgl.errors import OcglError, WriteError
from ocgl.experiments.identity import digest_of
from ocgl.files import make_folder, write_whole
from ocgl.strategies._core.user_files import located

FAILURES = "failures"
"""Folder of the tracebacks, in the folder of the results."""


def keep_failure(out: Path, what: str, configuration: object, error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file; return one line about the failure.

    Args:
        out: folder of the results.
        what: what has failed.
        configuration: hyperparameters of a trial; None for a run.
        error: why it failed; an error of this package says enough by itself.
    """
    if isinstance(error, OcglError):
        return f"{what}: {type(error).__name__}: {error}"
    path = out / FAILURES / f"{digest_of([what, configuration, repr(error)])}.txt"
    text = f"{what} {configuration}\n\n{''.join(traceback.format_exception(error))}"
    try:
        make_folder(path.parent)
        write_whole(path, text.encode())
    except WriteError as failed:
        return f"{what}: {located(error)}; its traceback is lost: {failed}"
    return f"{what}: {located(error)}; traceback: {path}"
