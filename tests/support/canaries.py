"""Secrets that are planted, and looked for afterwards in everything that comes out."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass
class Canaries:
    """``planted``: each secret by what it is. A key's is a line of its PEM."""

    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, what: str, secret: str = "") -> str:
        """The secret, one of its own if none is given."""
        assert what not in self.planted
        self.planted[what] = (
            secret or f"cnry{len(self.planted):02d}x{base64.b32encode(what.encode()).decode().strip('=').lower()}"
        )
        return self.planted[what]

    def sung(self, text: str) -> list[str]:
        """Which of them stand in a text, plainly or in a spelling that gives them away."""
        return [what for what, secret in self.planted.items() if any(one in text for one in _spellings(secret))]

    def sung_in(self, texts: Mapping[str, str]) -> dict[str, list[str]]:
        """The same of many texts; those without any are left out. With a piece of the text around each, to find the leak by."""
        return {
            name: [self._around(text, what) for what in sung]
            for name, text in texts.items()
            if (sung := self.sung(text))
        }

    def _around(self, text: str, what: str) -> str:
        spelled = next(one for one in _spellings(self.planted[what]) if one in text)
        at = text.index(spelled)
        return f"{what}: {text[max(0, at - 100) : at]}#{text[at + len(spelled) : at + len(spelled) + 20]}"


def _spellings(secret: str) -> tuple[str, ...]:
    return secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode().rstrip("="), secret.encode().hex()
