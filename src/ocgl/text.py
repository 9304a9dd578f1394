"""Text of unknown origin, made fit to be printed."""


def printable(text: object) -> str:
    """Return a text without control characters, which could move the cursor or change the colours of a terminal.

    >>> printable("a\\x1b[31mb")
    'a\ufffd[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in str(text))
