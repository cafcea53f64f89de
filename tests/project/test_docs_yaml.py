"""The configurations and triggers that the documentation shows are ones that the scaler takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.core.capacity import Profile
from scaler.core.model import WorkloadKey
from scaler.settings import parse_configuration, schema
from scaler.workload import Catalog, parse_workload

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "manifests" / "README.md"])
FENCE = re.compile(r"^( *)```yaml\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SECTIONS = set(schema()["properties"])


def shown() -> Iterator[tuple[str, Any]]:
    """(page and number, document) of each mapping in a YAML fence."""
    for page in PAGES:
        for number, (indent, text) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")), start=1):
            plain = "\n".join(line.removeprefix(indent) for line in text.splitlines())
            for document in yaml.safe_load_all(plain):
                if isinstance(document, dict):
                    yield f"{page.relative_to(ROOT)} {number}", document


def triggers(document: dict[str, Any]) -> list[dict[str, str]]:
    """The metadata of the triggers that name the scaler."""
    found = document.get("triggers") or (document.get("spec") or {}).get("triggers") or []
    return [one["metadata"] for one in found if "scalerAddress" in one.get("metadata", {})]


def named(metadata: dict[str, str]) -> Catalog:
    """A catalog with whatever profiles are named."""
    names = [name.strip() for name in metadata.get("profile", "").split(",") if name.strip()]
    return Catalog(profiles={name: Profile(100.0, name=name) for name in names})


CONFIGURATIONS = [pytest.param(one, id=name) for name, one in shown() if set(one) <= SECTIONS]
TRIGGERS = [pytest.param(metadata, id=name) for name, one in shown() for metadata in triggers(one)]


@pytest.mark.parametrize("document", CONFIGURATIONS)
def test_a_configuration_that_is_shown_is_taken(document):
    parse_configuration(yaml.safe_dump(document))


@pytest.mark.parametrize("metadata", TRIGGERS)
def test_a_trigger_that_is_shown_is_understood(metadata):
    parse_workload(WorkloadKey("prod", "llama"), metadata, named(metadata))


def test_there_are_some_of_both():
    assert (len(CONFIGURATIONS) > 5, len(TRIGGERS) > 2) == (True, True)
