"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def text(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns lined up with spaces: words to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(headers), *cells]) for column in range(len(headers))]
    right = [all(_is_number(row[column]) for row in rows) for column in range(len(headers))]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(headers), line(["-" * width for width in widths]), *(line(row) for row in cells)])


def markdown(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The same as a Markdown table."""
    right = [all(_is_number(row[column]) for row in rows) for column in range(len(headers))]
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join("---:" if r else "---" for r in right) + "|"]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)
