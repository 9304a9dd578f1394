"""Reads stored results of any schema version, if they are whole and fit themselves."""

import json
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ocgl.checked import parse_json, unsealed
from ocgl.errors import DamagedFileError, ResultError
from ocgl.experiments.consistency import contradictions_of
from ocgl.experiments.results import SCHEMA_VERSION, AnyResult, RunResult
from ocgl.types import Json
from ocgl.validation import explained

_ADAPTER: TypeAdapter[AnyResult] = TypeAdapter(Annotated[AnyResult, Field(discriminator="kind")])


UNCHECKED = (1, 2)
"""Schema versions of results that may lack a checksum."""


def _upgraded(values: Json) -> Json:
    """Bring the values of a stored result to the present schema.

    Version 1 predicted every batch before learning it. Where a run was not evaluated after every batch, the default
    now asks fewer labels: that old figure is dropped, because the config would claim what was not measured. Profile
    `paper` of versions 1 and 2 is now `first-reading`, and profile `textbook` is `first-reading-textbook`.
    """
    version = values.get("schema_version", 1)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ResultError(f"it has schema version {version}; this version of ocgl reads up to {SCHEMA_VERSION}")
    if version == 1 and values.get("kind", "run") == "run" and values["config"].get("eval_every", 1) > 1:
        values = values | {"prequential": None}
    if version < 3:
        values = _with_named_rows(_as_first_reading(values))
    return {"kind": "run"} | values | {"schema_version": SCHEMA_VERSION}


def _as_first_reading(values: Json) -> Json:
    old = values["config"].get("profile", "paper")
    profile = {"profile": {"paper": "first-reading", "textbook": "first-reading-textbook"}.get(old, old)}
    return values | {"config": values["config"] | profile} | (profile if "profile" in values else {})


def _with_named_rows(values: Json) -> Json:
    """Name the parts of a choice's table, which was a list of configuration, score and share."""
    if values.get("kind") != "choice":
        return values
    names = ("configuration", "mean", "share")
    rows = [dict(zip(names, row, strict=True)) | {"scores": [row[1]]} for row in values["table"]]
    return values | {"table": rows}


def parse_result(values: Json | str | bytes, where: object = "a result") -> AnyResult:
    """Read a stored result of any schema version.

    One that is damaged, was changed since it was written, or contradicts itself raises `ResultError`.
    """
    try:
        given = values if isinstance(values, dict) else parse_json(values, where)
        rest, checked = unsealed(given, where)
        upgraded = _upgraded(rest)
        if not checked and rest.get("schema_version", 1) not in UNCHECKED:
            raise ResultError("it has no checksum, but a schema version that has one")
        found = _ADAPTER.validate_json(json.dumps(upgraded), strict=True)
    except ResultError as error:
        raise ResultError(where, str(error)) from error
    except ValidationError as error:
        raise ResultError(where, f"it is no result: {explained(error)}") from error
    except DamagedFileError as error:
        raise ResultError(where, error.why) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(where, f"it is no result ({error!r})") from error
    contradictions = contradictions_of(found)
    if contradictions:
        raise ResultError(where, f"it contradicts itself: {contradictions[0]}")
    return found.model_copy(update={"checked": checked and not found.adopted_unchecked})


def parse_run(values: Json | str | bytes, where: object = "a result") -> RunResult:
    """Read the stored result of a run."""
    found = parse_result(values, where)
    if not isinstance(found, RunResult):
        raise ResultError(where, f"it is a {found.kind}, not a run")
    return found
