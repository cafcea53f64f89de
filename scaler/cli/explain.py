"""``slo-scaler explain``: the number as KEDA would get it, and why it is that number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scaler.cli.explain_screen import rendered
from scaler.cli.reach import TIMEOUT_S, NoAnswer, Secured, channel, fetched, silence, workload_key
from scaler.errors import ConfigError


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
    ca: Annotated[
        Path | None,
        typer.Option(envvar="SLO_SCALER_CA", help="TLS to KEDA's port: the CA of the scaler's certificate."),
    ] = None,
    cert: Annotated[
        Path | None, typer.Option(envvar="SLO_SCALER_CERT", help="With --ca: a certificate to show, as KEDA does.")
    ] = None,
    key: Annotated[Path | None, typer.Option(envvar="SLO_SCALER_KEY", help="With --cert: its key.")] = None,
    server_name: Annotated[
        str | None,
        typer.Option(help="With --ca: a name that the scaler's certificate is for; else the host of --keda."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole explanation as JSON.")] = False,
) -> None:
    """Say how many replicas a workload should have, and why.

    The number comes over gRPC, asked as KEDA asks; the reason over HTTP. Exit code 1 when there is no number. In the scaler's pod no
    option is needed.

    Example: slo-scaler explain prod/llama

    Example: slo-scaler explain prod/llama --ca ca.crt --cert tls.crt --key tls.key --server-name slo-scaler.slo-scaler.svc

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
    answer = _asked(workload, keda, ops, Secured(ca, cert, key, server_name))
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        typer.echo("\n".join(rendered(workload, answer)))
    if "value" not in answer["keda"]:
        raise typer.Exit(1)


def _asked(workload: str, keda: str, ops: str, tls: Secured) -> dict[str, Any]:
    """What both ports answer now; on refusal why, each for itself."""
    told = _ask_as_keda(workload, keda, tls)
    try:
        return {"keda": told, "explanation": fetched(ops, f"/v1/explain/{workload}")}
    except NoAnswer as silent:
        return {"keda": told, "explanation": {"error": str(silent)}}


def _ask_as_keda(workload: str, address: str, tls: Secured) -> dict[str, Any]:
    """What GetMetrics and IsActive answer now; on refusal the status and its reason."""
    from scaler.api.keda_client import KedaClient, RpcFailed, ScaledObject

    asked = ScaledObject(workload_key(workload))
    with channel(address, tls) as link:
        client = KedaClient(link, timeout_s=TIMEOUT_S)
        try:
            return {"value": client.metrics(asked).value, "active": client.is_active(asked)}
        except RpcFailed as failure:
            return {"code": failure.code.name, "details": silence(failure, address, tls)}
