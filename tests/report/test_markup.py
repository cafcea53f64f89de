"""Elements as text, in which nothing that is not ours becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.report.markup import Markup, element, together


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (element("p", "a ", element("b", "c")), "<p>a <b>c</b></p>"),
        (
            element("text", "1", x=1 / 3, text_anchor="end", class_="axis"),
            '<text x="0.333333" text-anchor="end" class="axis">1</text>',
        ),
        (element("td", class_=None), "<td></td>"),
        (element("meta", charset="utf-8"), '<meta charset="utf-8">'),
        (element("p", "<b>", title='"&'), '<p title="&quot;&amp;">&lt;b&gt;</p>'),
        (together("<", Markup("<br>")), "&lt;<br>"),
    ],
)
def test_elements(made, text):
    assert (made, type(made)) == (text, Markup)


class Reader(HTMLParser):
    """What a browser finds in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0")),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0")),
)
def test_text_and_attributes_are_never_anything_else(text, attribute):
    reader = Reader()
    reader.feed(element("p", text, title=attribute))
    reader.close()
    assert (reader.tags, reader.attributes, reader.text) == (["p"], [("title", attribute)], text)
