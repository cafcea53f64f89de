"""The profile loads as a configuration, and the ScaledObject uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from scaler.calibration import Objectives, Setup
from scaler.calibration.profile import profile_name, profile_of, profile_yaml, scaled_object
from scaler.calibration.runs import Lengths
from scaler.core.capacity import Match, Profile
from scaler.core.model import WorkloadKey
from scaler.settings.file import parse_configuration
from scaler.workload import parse_workload
from tests.calibration.made import calibrated, run

SETUP = Setup("", engine_version="0.32.0", gpu="H100")


def found(**options):
    return calibrated(run(1, 0.1, tested_on="2026-11-30"), run(8, 0.5), run(16, 2.4), setup=SETUP, **options)


def test_the_profile_loads_as_a_configuration_file():
    configuration = parse_configuration(profile_yaml({"tiny-7b": profile_of(found(), "1.2.3")}, "1.2.3"))
    assert configuration.catalog.profiles == {
        "tiny-7b": Profile(
            8,
            5.278,
            unloaded_ttft_s=0.07,
            input_p50=980,
            name="tiny-7b",
            confidence="high",
            match=Match("H100", "0.32"),
            output_p50=190,
        )
    }


def test_the_profile_says_what_it_rests_on():
    profile = yaml.safe_load(profile_yaml({"tiny-7b": profile_of(found(), "1.2.3")}, "1.2.3"))["profiles"]["tiny-7b"]
    provenance = profile.pop("provenance")
    levels = provenance.pop("levels")
    assert profile == {
        "safe_concurrency": 8,
        "safe_rate_per_s": 5.278,
        "unloaded_ttft_s": 0.07,
        "mix": {"in_p50": 980, "out_p50": 190},
        "match": {"gpu": "H100", "engine_version": "0.32"},
        "confidence": "high",
    }
    assert provenance == {
        "outcome": "safe",
        "objectives": {"ttft_s": 2.0, "tpot_s": 0.1, "percentile": 95.0, "confidence": 0.95},
        "binding": {
            "name": "ttft",
            "text": "P95 time to first token 2.4 s, at most 2.88 s (95% confidence); objective 2 s",
        },
        "notes": [],
        "setup": {"tool": "vllm bench serve", "model": "org/Tiny-7B", "engine_version": "0.32.0", "gpu": "H100"},
        "files": [{"file": f"c{level}.json", "sha256": f"sha256 of c{level}.json"} for level in (1, 16, 8)],
        "tested_on": ["2026-11-30"],
        "calibrated_with": "slo-scaler 1.2.3",
    }
    assert levels[1] == {
        "load": "concurrency 8",
        "concurrency": 8,
        "in_flight": 8,
        "requests": 400,
        "failed": 0,
        "rate_per_s": 5.278,
        "ttft_s": 0.5,
        "ttft_bound_s": 0.6,
        "tpot_s": 0.03,
        "tpot_bound_s": 0.036,
        "verdict": "passes",
    }


def test_what_nobody_knows_is_left_out():
    unknown = replace(run(8), prompts=Lengths(), outputs=Lengths())
    profile = profile_of(calibrated(unknown, replace(run(16, 2.4), prompts=Lengths(), outputs=Lengths())), "1")
    assert set(profile) == {"safe_concurrency", "safe_rate_per_s", "confidence", "provenance"}


@pytest.mark.parametrize(
    ("version", "match"),
    [
        ("0.32.0", {"engine_version": "0.32"}),
        ("v1.2.3rc1", {"engine_version": "v1.2"}),
        ("0.32.1.dev7+g12ab", {"engine_version": "0.32"}),
        ("7", {"engine_version": "7"}),
        ("nightly", None),
    ],
)
def test_a_profile_is_for_every_patch_release_of_the_version_that_was_tested(version, match):
    tested = calibrated(run(8), run(16, 2.4), setup=Setup("", engine_version=version))
    assert profile_of(tested, "1").get("match") == match


@pytest.mark.parametrize("objectives", [Objectives(2.0), Objectives(1.5, 0.1, 99.0)])
def test_the_scaled_object_takes_the_profile_with_the_objectives_of_the_test(objectives):
    name = "llama-3.1-8b"
    tested = calibrated(run(1, 0.1), run(8, 0.5, requests=2000), run(16, 2.4), objectives=objectives)
    written = yaml.safe_load(scaled_object(tested, name))
    metadata = written["spec"]["triggers"][0]["metadata"]
    assert all(isinstance(value, str) for value in metadata.values())
    catalog = parse_configuration(profile_yaml({name: profile_of(tested, "1")}, "1")).catalog
    spec = parse_workload(WorkloadKey("prod", written["metadata"]["name"]), metadata, catalog)
    asked = spec.classes[0]
    assert (spec.profile.name, asked.ttft_s, asked.tpot_s) == (name, objectives.ttft_s, objectives.tpot_s)
    assert written["spec"]["scaleTargetRef"]["name"] == "llama-3-1-8b"
    assert written["spec"]["triggers"][0]["metricType"] == "AverageValue"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
        ("models/Qwen3_32B/", "qwen3-32b"),
        ("..", "calibrated"),
        (None, "calibrated"),
    ],
)
def test_a_profile_is_named_by_its_model(model, name):
    assert profile_name(model) == name
