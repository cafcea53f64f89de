"""Files in, findings out: every seeded fault is found by its code, and nothing else is called one."""

from pathlib import Path

import pytest

from scaler.checks import Facts, Finding, Verdict, examine
from scaler.cli.check_files import read
from scaler.cli.check_objects import facts_of, scaled_objects
from scaler.core.model import WorkloadKey
from tests.checks.good import EXAMPLES, Launch, launch

FAIL, WARN = Verdict.FAILS, Verdict.WARNS
KEY = WorkloadKey("prod", "llama")
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "cpu", "namespace": "prod"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}},
}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}


def facts(made: Launch, folder: Path, **more: bool) -> Facts:
    return facts_of(KEY, read([made.write(folder, **more)]))


def alarms(found: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {one.code: one.verdict for one in found if one.verdict in {FAIL, WARN}}


def metadata(**given: str):
    return lambda made: made.metadata.update(given)


def without(*keys: str):
    return lambda made: [made.metadata.pop(key) for key in keys]


def spec(**given):
    return lambda made: made.spec.update(given)


def container(**given):
    return lambda made: made.container.update(given)


def profile(**given):
    return lambda made: made.configuration["profiles"]["llama-8b-chat"].update(given)


def to_zero(**given):
    """As scaledobject-zero.yaml does it."""

    def change(made: Launch) -> None:
        made.spec.update({"minReplicaCount": 0, "cooldownPeriod": 60, "initialCooldownPeriod": 600})
        made.spec.update({key: value for key, value in given.items() if key in made.spec})
        made.trigger["type"] = given.get("type", "external-push")
        if given.get("demandSource", "gateway"):
            made.metadata["demandSource"] = "gateway"

    return change


def ages(direction: str, **given):
    return lambda made: made.behavior[direction].update(given)


SEEDED = {
    "the literal rule for RED": ([metadata(redRule="budget")], {"T02": WARN}),
    "no TTFT objective": ([without("ttftSloSeconds", "requestClasses")], {"SC01": FAIL, "T01": FAIL}),
    "an objective at the median": ([metadata(sloPercentile="50")], {"SC01": WARN}),
    "an objective that an idle replica breaks": ([metadata(ttftSloSeconds="0.1")], {"SC01": FAIL}),
    "a number without a load test": (
        [
            without("profile"),
            metadata(safeConcurrency="90", maxQueuedRequests="10"),
            lambda m: m.configuration["classes"]["chat"].update(e2e_s=60),
        ],
        {"SC02a": WARN},
    ),
    "a profile without its rate": (
        [profile(safe_rate_per_s=None), lambda m: m.configuration["classes"]["chat"].update(e2e_s=60)],
        {"SC02a": WARN, "SC06": WARN},
    ),
    "a load test of another engine": ([profile(match={"engine_version": "0.27"})], {"SC02b": FAIL}),
    "an engine without metrics": ([lambda m: m.container["args"].append("--disable-log-stats")], {"SC03": FAIL}),
    "nobody says how long a start takes": ([without("replicaReadySeconds")], {"SC04": WARN}),
    "a least fleet of none": ([to_zero()], {"SC05": WARN}),
    "a queue that no fleet can serve in time": ([metadata(maxQueuedRequests="321")], {"SC06": FAIL}),
    "a queue that the least fleet cannot serve in time": ([metadata(maxQueuedRequests="17")], {"SC06": WARN}),
    "a gate that is off": ([metadata(gate="off")], {"SC07": FAIL}),
    "scaling down faster than a start": ([metadata(downscaleDelaySeconds="60")], {"SC10": FAIL}),
    "a last replica that goes sooner than it comes": (
        [to_zero(), metadata(idleSeconds="30"), spec(cooldownPeriod=0)],
        {"SC05": WARN, "SC10": FAIL, "T22": WARN},
    ),
    "batch before chat": ([lambda m: m.configuration["classes"]["batch"].update(order=0)], {"SC11": FAIL}),
    "two classes of one order": (
        [
            lambda m: m.configuration["classes"].update(agent={"ttft_s": 5, "order": 0}),
            metadata(requestClasses="chat,agent"),
        ],
        {"SC11": WARN},
    ),
    "a key that nobody knows": ([metadata(targetConcurrency="90")], {"T01": FAIL}),
    "a profile that is not configured": ([metadata(profile="llama-70b")], {"T01": FAIL}),
    "too little headroom": ([metadata(headroom="0.05")], {"T02": WARN}),
    "metricType Value": ([lambda m: m.trigger.update(metricType="Value")], {"T03": FAIL}),
    "a CPU trigger beside": ([lambda m: m.spec["triggers"].append(CPU)], {"T04": WARN}),
    "two triggers of ours": ([lambda m: m.spec["triggers"].append(dict(m.trigger))], {"T04": FAIL}),
    "cached metrics": ([lambda m: m.trigger.update(useCachedMetrics=True)], {"T05": WARN}),
    "a certificate in the metadata": ([metadata(caCert="/tls/ca.crt")], {"T06": FAIL}),
    "TLS at one end only": (
        [lambda m: m.configuration.update(server={"tls": {"cert_file": "/a", "key_file": "/b"}})],
        {"T06": FAIL},
    ),
    "nobody checks who answers": ([metadata(unsafeSsl="true")], {"T06": WARN}),
    "the default tolerance": (
        [lambda m: [m.behavior[way].pop("tolerance") for way in ("scaleUp", "scaleDown")]],
        {"T11": WARN, "T36": WARN},
    ),
    "no behavior": ([lambda m: m.spec.pop("advanced")], {"T11": WARN, "T12": WARN, "T36": WARN}),
    "a second scale-down window": ([ages("scaleDown", stabilizationWindowSeconds=300)], {"T12": WARN}),
    "a scale-up window": ([ages("scaleUp", stabilizationWindowSeconds=300)], {"T13": WARN}),
    "scaling up disabled": ([ages("scaleUp", selectPolicy="Disabled")], {"T13": FAIL}),
    "a fallback of zero": (
        [spec(fallback={"failureThreshold": 3, "replicas": 0, "behavior": "currentReplicasIfHigher"})],
        {"T14": FAIL},
    ),
    "a fallback that shrinks the fleet": ([spec(fallback={"failureThreshold": 3, "replicas": 2})], {"T14": FAIL}),
    "another HPA": ([lambda m: m.more.append(HPA)], {"T15": FAIL}),
    "paused": (
        [lambda m: m.scaled["metadata"].update(annotations={"autoscaling.keda.sh/paused": "true"})],
        {"T17": WARN},
    ),
    "a sleeper that nobody wakes": ([to_zero(demandSource="")], {"SC05": WARN, "T21": FAIL}),
    "minReplicaCount forgotten": ([lambda m: m.spec.pop("minReplicaCount")], {"SC05": WARN, "T21": FAIL}),
    "a sleeper that is woken by polls": ([to_zero(type="external")], {"SC05": WARN, "T21": WARN}),
    "no initial cooldown": ([to_zero(), spec(initialCooldownPeriod=0)], {"SC05": WARN, "T22": FAIL}),
    "an engine that runs fewer at once": ([container(args=["--max-num-seqs", "64"])], {"T31": FAIL}),
    "an engine that refuses before the target": (
        [container(args=["--max-num-seqs=128", "--max-num-queued-reqs=50"])],
        {"T32": FAIL},
    ),
    "no readiness probe": ([lambda m: m.container.pop("readinessProbe")], {"T33": FAIL}),
    "ready once a port is open": ([container(readinessProbe={"tcpSocket": {"port": 8000}})], {"T33": WARN}),
    "a liveness probe that ends the start": ([lambda m: m.container.pop("startupProbe")], {"T34": FAIL}),
    "thirty seconds to end": ([lambda m: m.pod.pop("terminationGracePeriodSeconds")], {"T35": WARN}),
    "no disruption budget": ([lambda m: m.budget.clear()], {"T37": WARN}),
    "a disruption budget that blocks": ([lambda m: m.budget["spec"].update(maxUnavailable=0)], {"T37": WARN}),
    "a count in the manifest": ([lambda m: m.deployment["spec"].update(replicas=3)], {"T38": WARN}),
    "a number without quotes": ([lambda m: m.metadata.update(ttftSloSeconds=2)], {"T01": FAIL}),
    "an engine that nobody has tested": (
        [container(image="vllm/vllm-openai:v0.7.3"), profile(match=None)],
        {"T54": WARN},
    ),
    "no maximum": ([lambda m: m.spec.pop("maxReplicaCount")], {"T52": WARN}),
}


@pytest.mark.parametrize(("changes", "expected"), SEEDED.values(), ids=SEEDED)
def test_a_seeded_fault_is_found_by_its_code_and_nothing_else_is_called_one(changes, expected, tmp_path):
    assert alarms(examine(facts(launch(*changes), tmp_path))) == expected


def test_the_good_example_gives_no_alarm_and_leaves_open_only_what_files_cannot_tell(tmp_path):
    found = examine(facts(launch(), tmp_path))
    assert alarms(found) == {}
    assert {one.code for one in found if one.verdict is Verdict.UNKNOWN} == {
        *("SC02b", "SC03", "SC04", "SC05", "SC08", "SC09"),
        *("T16", "T41", "T42", "T43", "T44", "T51", "T53"),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scaledobject.yaml", {}),
        ("scaledobject-zero.yaml", {"SC05": WARN}),
        ("kserve-inferenceservice.yaml", {}),
        ("kserve-llminferenceservice.yaml", {"SC05": WARN}),
        ("leaderworkerset.yaml", {"SC02a": WARN, "SC06": WARN}),
    ],
)
def test_what_ships_gives_no_alarm_but_for_what_it_chose(name, expected):
    gathered = read([EXAMPLES / name, EXAMPLES / "slo-scaler.yaml"])
    (key,) = scaled_objects(gathered.items)
    assert alarms(examine(facts_of(key, gathered))) == expected


def test_without_the_configuration_nothing_is_said_of_what_it_names(tmp_path):
    found = examine(facts(launch(), tmp_path, configured=False))
    assert alarms(found) == {}
    assert {one.code for one in found if one.verdict is Verdict.PASSES} == {
        *("T03", "T04", "T05", "T06", "T11", "T12", "T13", "T14", "T15", "T17", "T21", "T22"),
        *("T33", "T36", "T37", "T38", "T52", "T54"),
    }


def test_what_the_trigger_lacks_is_found_without_the_configuration_too(tmp_path):
    made = launch(without("ttftSloSeconds", "requestClasses"))
    assert alarms(examine(facts(made, tmp_path, configured=False))) == {"SC01": FAIL, "T01": FAIL}


def test_kserve_without_its_annotation_scales_too(tmp_path):
    text = (
        (EXAMPLES / "kserve-inferenceservice.yaml")
        .read_text()
        .replace("serving.kserve.io/autoscalerClass: external", "a: b")
    )
    (tmp_path / "service.yaml").write_text(text)
    gathered = read([tmp_path, EXAMPLES / "slo-scaler.yaml"])
    assert alarms(examine(facts_of(KEY, gathered))) == {"T15": FAIL}


def test_a_value_from_the_environment_is_looked_up_as_keda_does(tmp_path):
    made = launch(without("ttftSloSeconds"), metadata(ttftSloSecondsFromEnv="BUDGET"))
    made.container["env"] = [{"name": "BUDGET", "value": "3"}]
    told = facts(made, tmp_path)
    assert told.spec is not None
    assert told.spec.budget_s == 3.0


def test_a_value_that_only_keda_knows_leaves_open_what_it_decides(tmp_path):
    made = launch(without("ttftSloSeconds"), metadata(ttftSloSecondsFromEnv="BUDGET"))
    told = facts(made, tmp_path)
    assert (told.spec, told.faults) == (None, ())
