"""What ``kubectl kustomize`` makes of the manifests, as objects, and the objects and fragments that documents show."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = sorted(
    path.parent.relative_to(MANIFESTS).as_posix() for path in MANIFESTS.glob("overlays/*/kustomization.yaml")
)
COMPONENTS = sorted(path.parent for path in MANIFESTS.glob("components/*/kustomization.yaml"))
EXAMPLES = sorted(path for path in (MANIFESTS / "examples").glob("*.yaml") if path.name != "slo-scaler.yaml")
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

Json = dict[str, Any]


def kubectl() -> str:
    """The kubectl of the environment, else of the machine; skips the test where there is none."""
    found = shutil.which("kubectl", path=sysconfig.get_path("scripts")) or shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not here: make venv installs one")
    return found


@cache
def rendered_text(folder: Path) -> str:
    """A kustomization as kubectl prints it. Needs no cluster and no network."""
    command = [kubectl(), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(overlay: str) -> list[Json]:
    """The objects of a kustomization of ours."""
    return documents(rendered_text(MANIFESTS / overlay))


def documents(text: str) -> list[Json]:
    """The objects of a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]


def example(name: str) -> list[Json]:
    """The objects of one example."""
    return documents((MANIFESTS / "examples" / name).read_text(encoding="utf-8"))


def fragments(page: Path) -> list[Json]:
    """What the YAML blocks of a Markdown page say."""
    return [
        yaml.safe_load(re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
        for indent, text in BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


def merged(base: Json, change: Json) -> Json:
    """The object with a fragment written into it; lists are replaced."""
    both = {
        key: merged(base[key], value)
        for key, value in change.items()
        if isinstance(value, dict) and isinstance(base.get(key), dict)
    }
    return {**base, **change, **both}


def only(objects: list[Json], kind: str, name: str, namespace: str | None = None) -> Json:
    """The one object of that kind and name."""
    found = [
        o
        for o in objects
        if (o["kind"], o["metadata"]["name"]) == (kind, name) and namespace in {None, o["metadata"].get("namespace")}
    ]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    """The objects of that kind."""
    return [o for o in objects if o["kind"] == kind]


def scaled_objects(objects: list[Json]) -> Iterator[Json]:
    """The ScaledObjects, and those that KServe makes of LLMInferenceServices (its ``expectedDirectScaledObject``)."""
    yield from of_kind(objects, "ScaledObject")
    for service in of_kind(objects, "LLMInferenceService"):
        scaling, metadata = service["spec"]["scaling"], service["metadata"]
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{metadata['name']}-kserve"},
            "minReplicaCount": scaling.get("minReplicas", 1),
            "maxReplicaCount": scaling["maxReplicas"],
            **scaling["keda"],
        }
        name = {"name": f"{metadata['name']}-kserve-keda", "namespace": metadata["namespace"]}
        yield {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": name, "spec": spec}
