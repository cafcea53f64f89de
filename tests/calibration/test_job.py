"""The Job that runs a sweep in a cluster."""

from __future__ import annotations

import kubernetes_validate
import pytest
import yaml

from scaler.calibration.job import FOLDER, job

VERSIONS = ("1.31", "1.34")
ARGUMENTS = ["--ttft", "2", "--tool-args", '--header "X: {a}"', "--results", FOLDER]


def made(called="llama-8b", image="registry.example/load-test:1"):
    return yaml.safe_load(job(called, image, ARGUMENTS))


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_it(version):
    kubernetes_validate.validate(made(), version, strict=True)


def test_it_runs_the_same_command_in_the_persons_image():
    container = made()["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"], container["args"]) == (
        "registry.example/load-test:1",
        ["slo-scaler"],
        ["calibrate", *ARGUMENTS],
    )


def test_results_outlive_the_container_so_that_it_goes_on_where_it_was():
    spec = made()["spec"]["template"]["spec"]
    mounted = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    volume = next(mounted[path] for path in mounted if FOLDER.startswith(path))
    assert (spec["restartPolicy"], spec["volumes"]) == ("OnFailure", [{"name": volume, "emptyDir": {}}])


def test_it_is_allowed_in_a_namespace_that_enforces_the_restricted_profile():
    spec = made()["spec"]["template"]["spec"]
    pod, container = spec["securityContext"], spec["containers"][0]["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]["type"]) == (True, "RuntimeDefault")
    assert container == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize("called", ["Llama.3_8B", "a" * 80, "--", "x" * 51 + "-y"])
@pytest.mark.parametrize("version", VERSIONS)
def test_any_models_name_makes_a_name(called, version):
    manifest = made(called, image='"odd: image')
    kubernetes_validate.validate(manifest, version, strict=True)
    name = manifest["metadata"]["name"]
    assert (len(name) <= 52, name.strip("-") == name, name.startswith("calibrate")) == (True, True, True)
