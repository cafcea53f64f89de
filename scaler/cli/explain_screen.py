"""An explanation as lines for a person; nothing is cut or wrapped, so that they can be searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaler.cli.shadow_report import shadow_lines

PER_MINUTE_S = 60.0


def rendered(workload: str, answer: Mapping[str, Any]) -> list[str]:
    """What KEDA is told, and why, or why there is nothing to tell."""
    keda, told = answer["keda"], answer["explanation"]
    if "value" not in keda and "error" in told:
        return [f"{workload}: {keda['details']}", told["error"]]
    head = _replicas(keda["value"]) if "value" in keda else f"no number ({keda['code']}): {keda['details']}"
    lines = [f"{workload}: KEDA is told {head}"]
    if "error" in told:
        return [*lines, f"no explanation: {told['error']}"]
    if "binding" not in told:  # known, and no decision yet
        return [*lines, f"no decision yet: {told['because']}"]
    lines += [f"  {title:<9} {text}" for title, text in _sentences(told)]
    return lines + (shadow_lines(workload, told["shadow"]) if "shadow" in told else [])


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
    if "cost" in told:
        yield "cost", told["cost"]["text"]
    yield from _platform(told)
    yield from _replicas_read(told["readings"], signals.get("safe_concurrency"))
    for miss in told["missing"]:
        yield "silent", f"{miss['replica']}: {miss['why']}"
    for finding in told["findings"]:
        yield "note", f"{finding['text']} [{finding['code']}]"
    for one in told.get("what_ifs", ()):
        rest = "" if one["recommended"] == one["desired"] else f"; the load alone would ask for {one['recommended']}"
        yield "what if", f"{one['text']}: {_replicas(one['desired'])}{rest}"
    for change in told.get("changes", ()):
        yield "changed", _change(change)


def _platform(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Whether the number is followed, and what the HPA says of itself."""
    if told.get("followed"):
        yield "followed", told["followed"]
    hpa = (told.get("platform") or {}).get("hpa")
    if hpa is not None:
        asked = ", ".join(
            f"{one['metric']} {'unknown' if one['replicas'] is None else one['replicas']}" for one in hpa["proposals"]
        )
        windows = f"windows up {hpa['up_s']:g} s, down {hpa['down_s']:g} s"
        yield (
            "HPA",
            f"{hpa['name']} wants {hpa['desired']} and saw {hpa['current']}; its metrics: {asked or 'none'}; {windows}",
        )


def _replicas_read(readings: Sequence[Mapping[str, Any]], safe: object) -> Iterator[tuple[str, str]]:
    """A line for each replica, the fullest first."""
    for one in sorted(readings, key=_held, reverse=True):
        full = f", {_held(one) / safe:.0%} of its safe {safe:.3g}" if isinstance(safe, float | int) and safe else ""
        kv = one["kv_usage_ratio"]
        cache = f"{kv:.0%}" if isinstance(kv, float | int) else str(kv)
        asleep = "" if one["awake"] else ", asleep"
        doing = f"{_value(one['running'], '')} running, {_value(one['waiting'], '')} waiting{full}"
        yield "replica", f"{one['replica']}: {doing}, KV cache {cache}{asleep}, {one['age_s']:.1f} s old"


def _held(one: Mapping[str, Any]) -> float:
    return sum(value for value in (one["running"], one["waiting"]) if isinstance(value, float | int))


def _change(change: Mapping[str, Any]) -> str:
    """One change of the last hour."""
    came = "" if change["before"] in {None, change["desired"]} else f"from {change['before']} to "
    blind = ", blind" if change["blind"] else ""
    return f"{change['age_s'] / PER_MINUTE_S:.0f} min ago, {change['state']}{blind}: {came}{change['because']} [{change['reason']}]"


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
