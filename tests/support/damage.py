"""Damages to contents of lines: cuts, other bytes, doubled lines, numbers in odd forms."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

ODD = (
    *(
        "-1",
        "1e999",
        "-0",
        "0x1p3",
        "1_000",
        "+Inf",
        "NaN",
        "nan",
        "1e-400",
        "9" * 400,
        "1.",
        ".5",
        "1,5",
        "\u0663",
        "--1",
    ),
    *(
        "",
        "null",
        "true",
        "[]",
        "{}",
        '"',
        "\\",
        "\n",
        "\r\n",
        "\x00",
        "\ufeff",
        "[" * 300,
        "{" * 300,
        "&a [*a]",
        "# EOF",
    ),
)
Damage = tuple[float, str, bytes]
"""Where, as a share of the length; which kind; and what is put there, if anything is."""
DAMAGES: st.SearchStrategy[list[Damage]] = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["cut", "flip", "double", "flood", "number", "lose", "insert"]),
        st.sampled_from([odd.encode() for odd in ODD]) | st.binary(min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, damages: Iterable[Damage]) -> bytes:
    """The content after these, one after the other."""
    for share, kind, junk in damages:
        content = _damaged(content, int(share * len(content)), kind, junk)
    return content


def _damaged(content: bytes, at: int, kind: str, junk: bytes) -> bytes:
    begins, ends = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at) + 1 or len(content)
    line = content[begins:ends]
    words, _, _ = line.rstrip().rpartition(b" ")
    edited = {
        "cut": (at, len(content), b""),
        "flip": (at, at + len(junk), junk),
        "double": (ends, ends, line),
        "flood": (ends, ends, line[:200] * 300),
        "number": (begins, ends, words + b" " + junk + b"\n"),
        "lose": (begins, ends, b""),
        "insert": (at, at, junk),
    }
    first, last, new = edited[kind]
    return content[:first] + new + content[last:]


def of(contents: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """One of these contents, damaged."""
    return st.builds(damaged, st.sampled_from(contents), DAMAGES)
