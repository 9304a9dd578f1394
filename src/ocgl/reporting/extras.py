"""Pages and figures need packages that only the extra `report` installs."""

from importlib.util import find_spec

from ocgl.errors import MissingExtraError


def require_report_extra(what: str) -> None:
    """Raise `MissingExtraError` unless jinja2, plotly and matplotlib are installed.

    Args:
        what: what cannot be made without them, for the message.
    """
    if any(find_spec(package) is None for package in ("jinja2", "plotly", "matplotlib")):
        raise MissingExtraError(what, "report")
