"""``slo-scaler explain``: the number as KEDA would get it, and why it is that number."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

TIMEOUT_S = 5.0


def explain(
    workload: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the ScaledObject.")],
    keda: Annotated[str, typer.Option(help="Where the scaler answers KEDA.")] = "127.0.0.1:6000",
    ops: Annotated[str, typer.Option(help="Where the scaler explains itself.")] = "http://127.0.0.1:8081",
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole explanation as JSON.")] = False,
) -> None:
    """Say how many replicas a workload should have, and why.

    The number comes over gRPC, asked as KEDA asks; the reason over HTTP. Exit code 1 when there is no number.

    Example: slo-scaler explain prod/llama
    """
    from rich.console import Console

    answer = {"keda": _ask_as_keda(workload, keda), "explanation": _fetch(f"{ops}/v1/explain/{workload}")}
    console = Console()
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        for part in _rendered(workload, answer):
            console.print(part)
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
            return {"code": failure.code.name, "details": failure.details}


def _fetch(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        return {"error": "--ops: an http:// or https:// address"}
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme was checked
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        return {"error": f"{url}: HTTP {error.code}"}
    except (OSError, ValueError) as error:
        return {"error": f"{url}: {error}; is the scaler running there? (--ops)"}


def _rendered(workload: str, answer: Mapping[str, Any]) -> list[Any]:
    keda, told = answer["keda"], answer["explanation"]
    if "value" in keda:
        head = f"[bold]{workload}[/bold]: KEDA is told {keda['value']:g} replicas, active {str(keda['active']).lower()}"
    else:
        head = f"[bold]{workload}[/bold]: KEDA gets no number ({keda['code']}): {keda['details']}"
    if "error" in told:
        return [head, f"no explanation: {told['error']}"]
    return [head, *_sentences(told), *_tables(told)]


def _sentences(told: Mapping[str, Any]) -> list[str]:
    """The answer in words: the state, what binds, what is next, what else to know."""
    if "binding" not in told:  # known, and no decision yet
        return [f"no decision yet: {told.get('because', 'starting')}"]
    lines = [
        f"{told['state']}{', blind' if told['blind'] else ''}, newest reading {told['age_s']:.1f} s old",
        f"because  {told['binding']['text']} \\[{told['binding']['reason']}]",
        f"next     {told['runner_up']['text']} \\[{told['runner_up']['reason']}]",
    ]
    lines += [f"missing  {miss['replica']}: {miss['why']}" for miss in told["missing"]]
    return [*lines, *(f"note     {finding['text']}" for finding in told["findings"])]


def _tables(told: Mapping[str, Any]) -> list[Table]:
    from rich.table import Table

    if "signals" not in told:
        return []
    rows = {
        "signals": {signal["name"]: signal["value"] for signal in told["signals"]},
        "terms": told["terms"],
        "steps": {step["name"]: step["text"] for step in told["steps"]},
    }
    tables = []
    for title, found in rows.items():
        table = Table(title=title, show_header=False, box=None, title_justify="left", padding=(0, 2))
        for name, value in found.items():
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
        tables.append(table)
    return tables
