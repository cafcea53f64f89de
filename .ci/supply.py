#!/usr/bin/env python3
"""What the image is made of: the runtime lock as a list of licences, as an SBOM, and audited for known vulnerabilities.

.ci/supply.py licences [FILE]   docs/licences.md; fails on a licence that is not among those we can ship
.ci/supply.py sbom [FILE]       CycloneDX 1.6, JSON
.ci/supply.py audit             fails on a known vulnerability; a package that could not be audited is printed as SKIPPED, never passed over
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / ".ci/locks/runtime.txt"
PIN = re.compile(
    r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\\n]+?))?(?: \\)?$"
    r"((?:\n    --hash=\S+(?: \\)?$)*)",
    re.MULTILINE,
)

SHOWN = 5
SPELT = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages write where they give no SPDX expression."""
SHIPPABLE = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CNRI-Python", "ISC", "MIT", "MPL-2.0", "PSF-2.0"}
"""What may go into an image that others pass on without asking anybody. MPL-2.0: unmodified files, as here."""


@dataclass(frozen=True)
class Pinned:
    """One package of the lock. ``licence`` is an SPDX expression; None: not installed here, since it is for another platform."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str | None


def pinned(lock: str) -> list[Pinned]:
    """All packages of a lock, in its order. Exits where one that is installed tells no licence that we know, or not the locked version."""
    return [
        Pinned(found["name"], found["version"], tuple(re.findall(r"--hash=sha256:(\w+)", found[4])), _licence(found))
        for found in PIN.finditer(lock)
    ]


def _licence(found: re.Match[str]) -> str | None:
    try:
        told = metadata(found["name"])
    except PackageNotFoundError:
        if found["marker"] is None or "platform" not in found["marker"]:
            sys.exit(f"{found['name']} is locked and not installed: run make venv")
        return None
    if told["Version"] != found["version"]:
        sys.exit(f"{found['name']} {told['Version']} is installed and {found['version']} is locked: run make venv")
    licence = expression(told)
    if not set(re.split(r" AND | OR ", licence)) <= SHIPPABLE:
        sys.exit(
            f"{found['name']}: may an image with {licence} be passed on? If so, add it to SHIPPABLE in .ci/supply.py"
        )
    return licence


def expression(told: PackageMetadata) -> str:
    """A package's licence as SPDX: its expression, else the first line of its licence, else its classifier."""
    if "License-Expression" in told:
        return str(told["License-Expression"])
    classified = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or [] if one.startswith("License ::")]
    lines = [(str(told["License"]) if "License" in told else "").partition("\n")[0], *classified]
    named = [SPELT.get(line, line) for line in lines]
    return next((name for name in named if name in SHIPPABLE), next(filter(None, named), "no licence named"))


def licences(packages: list[Pinned]) -> str:
    """The page."""
    lines = [
        "# Licences\n",
        "What `slo-scaler serve` is built from, as locked in `.ci/locks/runtime.txt` and as each package says. Written by `make licences`,",
        "which fails on a licence that nobody has agreed to. `make sbom` writes the same as CycloneDX.\n",
        "| package | version | licence |",
        "|---|---|---|",
    ]
    lines += [f"| {one.name} | {one.version} | {one.licence or 'not on this platform'} |" for one in packages]
    return "\n".join(lines) + "\n"


def sbom(packages: list[Pinned]) -> str:
    """CycloneDX 1.6 of what is installed from the lock."""
    licence, digest = LicenseFactory().make_from_string, HashTypeFactory().from_composite_str
    components = [
        Component(
            name=one.name,
            version=one.version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", name=one.name, version=one.version),
            bom_ref=f"{one.name}@{one.version}",
            licenses=[licence(one.licence)],
            hashes=[digest(f"sha256:{each}") for each in one.hashes],
        )
        for one in packages
        if one.licence is not None
    ]
    return str(JsonV1Dot6(Bom(components=components)).output_as_string(indent=1)) + "\n"


def audit(lock: Path) -> int:
    """0 without a known vulnerability. What could not be audited is said."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), "--disable-pip", "--no-deps", "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"audit SKIPPED: pip-audit says {done.stderr.strip().splitlines()[-1:] or 'nothing'}")
        return 0
    told, fails = judged(found)
    print("\n".join(told))
    return int(fails)


def judged(found: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """What pip-audit found, in words, and whether it fails. Silence about a package is not its innocence."""
    bad = [f"{one['name']} {one['version']}: {bug['id']}" for one in found for bug in one.get("vulns", [])]
    skipped = [one["name"] for one in found if "skip_reason" in one]
    told = bad or [f"audit: {len(found) - len(skipped)} packages without a known vulnerability"]
    if skipped:
        some = ", ".join(skipped[:SHOWN]) + (", ..." if len(skipped) > SHOWN else "")
        told.append(
            f"audit SKIPPED for {len(skipped)} of {len(found)} packages, of which the advisory service does not tell here: {some}"
        )
    return told, bool(bad)


def main(what: str, file: str | None = None) -> int:
    """The command line."""
    if what == "audit":
        return audit(LOCK)
    written = {"licences": licences, "sbom": sbom}[what](pinned(LOCK.read_text(encoding="utf-8")))
    if file is None:
        print(written, end="")
    else:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
