"""Structured logs: one JSON object per line, or plain text for a person at a terminal."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum


class LogFormat(StrEnum):
    """How logs are written."""

    auto = "auto"
    json = "json"
    text = "text"


class JsonLines(logging.Formatter):
    """A record as a JSON object; what is given as `extra={"facts": {...}}` is part of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class Plain(logging.Formatter):
    """The same for a person."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        facts = getattr(record, "facts", {})
        more = "".join(f" {name}={value}" for name, value in facts.items() if value not in (None, []))
        text = f"{record.getMessage()}{more}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def begin_logging(form: LogFormat = LogFormat.auto) -> None:
    """Write the logs of the service to standard error; as JSON, unless a person sits at a terminal."""
    if form is LogFormat.auto:
        form = LogFormat.text if sys.stderr.isatty() else LogFormat.json
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.json else Plain())
    for name in ("ocgl", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "ocgl" else logging.WARNING)
