"""``slo-scaler serve``: the scaler itself."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scaler.settings import Ports


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", envvar="SLO_SCALER_CONFIG", help="The configuration file (YAML).", show_default="none"
        ),
    ] = None,
    tick: Annotated[
        float,
        typer.Option(envvar="SLO_SCALER_TICK_S", min=0.1, max=60, help="Seconds between two looks at the engines."),
    ] = 2.0,
    print_schema: Annotated[
        bool, typer.Option("--schema", help="Print the configuration file's JSON Schema and exit.")
    ] = False,
) -> None:
    """Serve KEDA on port 6000, Envoy's ext_authz on 6001, other gateways on 8080, probes, metrics and explanations on 8081.

    Ports and address: SLO_SCALER_HOST, SLO_SCALER_KEDA_PORT, _AUTHZ_PORT, _GATE_PORT, _OPS_PORT. In a pod with a service account's
    token the cluster is looked at; elsewhere SLO_SCALER_KUBECONFIG names one, and SLO_SCALER_STATE_DIR keeps state over restarts.

    Example: slo-scaler serve --config slo-scaler.yaml

    Example: slo-scaler serve --schema
    """
    from scaler.app import serve as run
    from scaler.settings import read_place, read_ports, schema

    if print_schema:
        typer.echo(json.dumps(schema(), indent=2))
        return
    ports, place = read_ports(), read_place()
    if sys.stderr.isatty():
        typer.echo(_hints(ports), err=True)
    asyncio.run(run(config, ports, place, tick))


def _hints(ports: Ports) -> str:
    """What a person needs who has just started it by hand."""
    return (
        f"slo-scaler: KEDA asks on port {ports.keda}, Envoy on {ports.authz}, other gateways on {ports.gate}; the status page is "
        f"http://localhost:{ports.ops}/\n"
        "slo-scaler: why a number is what it is: slo-scaler explain NAMESPACE/NAME; Ctrl-C stops"
    )
