"""HTML and SVG as text: elements inside elements. Whatever is not markup already is escaped."""

from __future__ import annotations

from html import escape

VOID = frozenset({"link", "meta"})
"""Elements that have no end."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """One element. An attribute's ``_`` is written ``-``, but for one at its end, which keeps ``class_`` apart; None leaves it out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{told}>"
    return Markup(start if name in VOID else f"{start}{together(*inside)}</{name}>")


def together(*pieces: str) -> Markup:
    """One after the other, each escaped unless it is markup."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in pieces))


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
