"""What of a failure's text is kept and shown: its beginning and end, or the one line that says what went wrong."""

from __future__ import annotations

MOST_TEXT = 2000  # characters of a failure's text; the whole is in the logs
LINE = 160  # characters of the line that is left of an old failure


def cut(text: str, most: int = MOST_TEXT) -> str:
    """Return a text's beginning and end, at most so many characters."""
    if len(text) <= most:
        return text
    half = (most - 20) // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def telling(text: str, titles: tuple[str, ...] = (), *, most: int | None = LINE) -> str:
    """Return the line that says what went wrong: pytest marks it with an E, any other text begins with it.

    Args:
        titles: of the checks that the text is of; a line that only repeats the name of one says nothing.
        most: characters, from which on the line is cut; None leaves it whole.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = {name for title in titles for name in (title, title.partition(": ")[2])}
    marked = [line[2:].strip() for line in lines if line.startswith("E ")]
    said = [line for line in (*marked, *lines) if line and line not in names]
    line = next(iter(said), lines[0] if lines else "")
    return line if most is None or len(line) <= most else line[: most - 3] + "..."
