"""A workload that is ready for its launch: the shipped ScaledObject and what it scales. Tests break one thing of it each."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
CLASSES = {
    "chat": {"ttft_s": 2, "order": 0},
    "batch": {"objective": "completion", "deadline_s": 86400, "order": 3},
}


@dataclass
class Launch:
    """What is in the files, to be changed at will."""

    scaled: dict[str, Any]
    deployment: dict[str, Any]
    budget: dict[str, Any]
    configuration: dict[str, Any]
    more: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, Any]:
        return self.scaled["spec"]

    @property
    def trigger(self) -> dict[str, Any]:
        return self.spec["triggers"][0]

    @property
    def metadata(self) -> dict[str, str]:
        return self.trigger["metadata"]

    @property
    def behavior(self) -> dict[str, Any]:
        return self.spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]

    @property
    def pod(self) -> dict[str, Any]:
        return self.deployment["spec"]["template"]["spec"]

    @property
    def container(self) -> dict[str, Any]:
        return self.pod["containers"][0]

    def write(self, folder: Path, *, configured: bool = True) -> Path:
        documents = [one for one in (self.scaled, self.deployment, self.budget, *self.more) if one]
        (folder / "manifests.yaml").write_text(yaml.safe_dump_all(documents))
        if configured:
            (folder / "slo-scaler.yaml").write_text(yaml.safe_dump(self.configuration))
        return folder


def launch(*changes: Callable[[Launch], object]) -> Launch:
    """The good one, with some changes."""
    deployment, budget = yaml.safe_load_all((EXAMPLES / "deployment.yaml").read_text())
    made = Launch(
        scaled=yaml.safe_load((EXAMPLES / "scaledobject.yaml").read_text()),
        deployment=deployment,
        budget=budget,
        configuration=yaml.safe_load((EXAMPLES / "slo-scaler.yaml").read_text()) | {"classes": copy.deepcopy(CLASSES)},
    )
    made.metadata.update({"gate": "enforce", "requestClasses": "chat,batch"})
    made.configuration["profiles"]["llama-8b-chat"]["match"] = {"engine_version": "0.32"}
    for change in changes:
        change(made)
    return made
