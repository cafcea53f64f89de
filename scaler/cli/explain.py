"""``slo-scaler explain``: the number as KEDA would get it, and why it is that number."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer

from scaler.cli.explain_screen import rendered
from scaler.errors import ConfigError

TIMEOUT_S = 5.0


def explain(  # noqa: PLR0913 - the options of a command
    workload: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the ScaledObject.")],
    *,
    keda: Annotated[
        str, typer.Option(envvar="SLO_SCALER_KEDA", help="Where the scaler answers KEDA: HOST:PORT.")
    ] = "127.0.0.1:6000",
    ops: Annotated[
        str, typer.Option(envvar="SLO_SCALER_OPS", help="Where the scaler explains itself: HOST:PORT.")
    ] = "127.0.0.1:8081",
    log: Annotated[
        Path | None, typer.Option(help="Explain a decision of this log instead, written by the scaler; - reads stdin.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="With --log: the last decision before this time, 2026-01-31T18:00Z; else the last."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="With --log: what would have been with NAME=NUMBER, headroom=0.3 or one of its inputs."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole explanation as JSON.")] = False,
) -> None:
    """Say how many replicas a workload should have, and why.

    The number comes over gRPC, asked as KEDA asks; the reason over HTTP. Exit code 1 when there is no number. In the scaler's pod no
    option is needed.

    Example: slo-scaler explain prod/llama

    Example: slo-scaler explain prod/llama --log scaler.log --at 2026-01-31T18:00Z --set headroom=0.3
    """
    if log is not None:
        if as_json:
            raise ConfigError("--json: not with --log, whose lines are JSON already")
        from scaler.cli.explain_log import explained

        for line in explained(workload, log, at, changes or []):
            typer.echo(line)
        return
    if at is not None or changes:
        raise ConfigError("--at, --set: of use with --log FILE only")
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
