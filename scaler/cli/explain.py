"""``slo-scaler explain``: the number as KEDA would get it, and why it is that number."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

TIMEOUT_S = 5.0


def explain(
    workload: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the ScaledObject.")],
    keda: Annotated[
        str, typer.Option(envvar="SLO_SCALER_KEDA", help="Where the scaler answers KEDA: HOST:PORT.")
    ] = "127.0.0.1:6000",
    ops: Annotated[
        str, typer.Option(envvar="SLO_SCALER_OPS", help="Where the scaler explains itself: HOST:PORT.")
    ] = "127.0.0.1:8081",
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole explanation as JSON.")] = False,
) -> None:
    """Say how many replicas a workload should have, and why.

    The number comes over gRPC, asked as KEDA asks; the reason over HTTP. Exit code 1 when there is no number.

    Example: slo-scaler explain prod/llama
    """
    address = ops if "://" in ops else f"http://{ops}"
    answer = {"keda": _ask_as_keda(workload, keda), "explanation": _fetch(f"{address}/v1/explain/{workload}")}
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        typer.echo("\n".join(rendered(workload, answer)))
    if "value" not in answer["keda"]:
        raise typer.Exit(1)


def _ask_as_keda(workload: str, address: str) -> dict[str, Any]:
    """What GetMetrics and IsActive answer now; on refusal the status and its reason."""
    import grpc

    from scaler.api.keda_client import KedaClient, RpcFailed, ScaledObject
    from scaler.core.model import WorkloadKey
    from scaler.errors import ConfigError

    namespace, _, name = workload.partition("/")
    if not namespace or not name:
        raise ConfigError("workload: write it as NAMESPACE/NAME")
    asked = ScaledObject(WorkloadKey(namespace, name))
    with grpc.insecure_channel(address) as channel:
        client = KedaClient(channel, timeout_s=TIMEOUT_S)
        try:
            return {"value": client.metrics(asked).value, "active": client.is_active(asked)}
        except RpcFailed as failure:
            details = "nothing answers KEDA there" if "Failed to connect" in failure.details else failure.details
            return {"code": failure.code.name, "details": details}


def _fetch(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        return {"error": "--ops: HOST:PORT, or an http:// or https:// address"}
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme was checked
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        return {"error": f"{url}: HTTP {error.code}"}
    except (OSError, ValueError) as error:
        return {"error": f"nothing answers at {url} ({error}); is the scaler running there? (--keda, --ops)"}


def rendered(workload: str, answer: Mapping[str, Any]) -> list[str]:
    """The answer as lines for a person; nothing is cut or wrapped, so that they can be searched."""
    keda, told = answer["keda"], answer["explanation"]
    if "value" not in keda and "error" in told:
        return [f"{workload}: {keda['details']}", told["error"]]
    head = _replicas(keda["value"]) if "value" in keda else f"no number ({keda['code']}): {keda['details']}"
    lines = [f"{workload}: KEDA is told {head}"]
    if "error" in told:
        return [*lines, f"no explanation: {told['error']}"]
    if "binding" not in told:  # known, and no decision yet
        return [*lines, f"no decision yet: {told['because']}"]
    return lines + [f"  {title:<9} {text}" for title, text in _sentences(told)]


def _replicas(count: float) -> str:
    return "1 replica" if count == 1 else f"{count:g} replicas"


def _sentences(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    signals = {signal["name"]: signal["value"] for signal in told["signals"]}
    yield "state", told["state_because"]
    yield "because", f"{told['binding']['text']} [{told['binding']['reason']}]"
    yield "otherwise", f"{told['runner_up']['text']} [{told['runner_up']['reason']}]"
    yield (
        "replicas",
        f"{len(told['readings'])} read, {len(told['missing'])} silent, newest reading {told['age_s']:.1f} s old",
    )
    yield (
        "load",
        _listed(signals, "running", "waiting", "offered_per_s", "throughput_per_s", "drain_per_s", "refused_per_s"),
    )
    yield "latency", _listed(signals, "queue_wait_s", "ttft_s", "tpot_s", "eta_s", "kv_usage_ratio")
    yield "starts", _starts(told["latency"], told["start_phases"])
    yield "safe", _listed(signals, "safe_concurrency", "target", "safe_rate_per_s", "residence_s")
    for miss in told["missing"]:
        yield "silent", f"{miss['replica']}: {miss['why']}"
    for finding in told["findings"]:
        yield "note", finding["text"]


def _starts(latency: Mapping[str, Any], phases: Sequence[Mapping[str, Any]]) -> str:
    """How long a replica takes, by whom that is said, and where the time goes."""
    seen = f"{latency['samples']} seen" if latency["samples"] else latency["origin"]
    hot = f", {latency['hot_ratio']:.0%} of them hot: {latency['hot_p90_s']:.3g} s" if latency["hot_ratio"] else ""
    spent = ", ".join(f"{phase['name']} {phase['took_s']:.3g} s" for phase in phases)
    return f"nine of ten are ready within {latency['p90_s']:.3g} s ({seen}){hot}" + (
        f"; usually {spent}" if spent else ""
    )


def _listed(signals: Mapping[str, Any], *names: str) -> str:
    """Signals with their units, those without a value by what they are: idle or unknown."""
    return ", ".join(f"{_words(name)} {_value(signals.get(name), _unit(name))}" for name in names)


def _words(name: str) -> str:
    return name.removesuffix("_per_s").removesuffix("_s").removesuffix("_ratio").replace("_", " ")


def _unit(name: str) -> str:
    return "/s" if name.endswith("_per_s") else " s" if name.endswith("_s") else ""


def _value(value: object, unit: str) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3g}{unit}" if isinstance(value, float | int) else str(value)
