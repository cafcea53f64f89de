"""What the image is made of: licences, SBOM, audit."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUPPLY = runpy.run_path(str(ROOT / ".ci/supply.py"))
PACKAGES = SUPPLY["pinned"]((ROOT / ".ci/locks/runtime.txt").read_text(encoding="utf-8"))


def test_the_list_of_licences_is_that_of_the_lock() -> None:
    assert (ROOT / "docs/licences.md").read_text(encoding="utf-8") == SUPPLY["licences"](PACKAGES), "run: make licences"


def test_every_package_of_the_lock_is_pinned_by_hashes() -> None:
    text = (ROOT / ".ci/locks/runtime.txt").read_text(encoding="utf-8")
    assert len(PACKAGES) == sum("==" in line for line in text.splitlines() if not line.startswith((" ", "#")))
    assert [one.name for one in PACKAGES if not one.hashes] == []


def test_the_sbom_names_every_package_that_is_installed_with_its_version_and_licence() -> None:
    components = json.loads(SUPPLY["sbom"](PACKAGES))["components"]
    installed = {(one.name, one.version) for one in PACKAGES if one.licence is not None}
    assert {(one["name"], one["version"]) for one in components} == installed
    assert all(one["licenses"] and one["hashes"] for one in components)


@pytest.mark.parametrize(
    "told", [{"License": "AGPL-3.0"}, {"License": ""}, {"License-Expression": "LicenseRef-Proprietary"}]
)
def test_a_licence_that_nobody_agreed_to_is_none_of_those_that_can_be_shipped(told) -> None:
    class Metadata(dict[str, str]):
        def get_all(self, _: str) -> None:
            return None

    assert SUPPLY["expression"](Metadata(told)) not in SUPPLY["SHIPPABLE"]


@pytest.mark.parametrize(
    ("found", "fails", "said"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], False, "1 packages without"),
        ([{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]}], True, "a 1: PYSEC-1"),
        ([{"name": "a", "skip_reason": "not found"}], False, "SKIPPED for 1 of 1"),
    ],
)
def test_an_audit_fails_on_a_vulnerability_and_says_what_it_could_not_audit(found, fails, said) -> None:
    told, failed = SUPPLY["judged"](found)
    assert failed is fails
    assert said in "\n".join(told)
