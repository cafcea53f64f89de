"""``slo-scaler check``: the launch checklist, executed on files, on a cluster, on a running scaler, and in a drill."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.checks import Drill, Facts, Finding, Live
    from scaler.cli.check_objects import Gathered
    from scaler.core.model import WorkloadKey

MOST_AT_ONCE, SHORTEST_S, LONGEST_S, MOST_TOKENS = 256, 2.0, 60.0, 512


def check(  # noqa: PLR0913 - the options of a command
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders: ScaledObjects, what they scale, the configuration.")
    ] = None,
    *,
    workload: Annotated[
        str | None,
        typer.Option("--workload", "-w", help="NAMESPACE/NAME of the ScaledObject; of files: all without it."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Look at the cluster of the kubeconfig's context.")
    ] = False,
    kubeconfig: Annotated[Path, typer.Option(envvar="KUBECONFIG", help="Read with --cluster.")] = Path(
        "~/.kube/config"
    ),
    ops: Annotated[
        str | None, typer.Option(envvar="SLO_SCALER_OPS", help="Ask the scaler that runs there, too: HOST:PORT (8081).")
    ] = None,
    drill: Annotated[
        str | None, typer.Option(help="Send a bounded burst to this OpenAI-compatible STAGING endpoint. Asks first.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Of the drill; the first that the endpoint lists without it.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=2, max=MOST_AT_ONCE, help="Of the drill: requests at once.")] = 32,
    seconds: Annotated[float, typer.Option(min=SHORTEST_S, max=LONGEST_S, help="Of the drill: how long.")] = 20.0,
    tokens: Annotated[int, typer.Option(min=1, max=MOST_TOKENS, help="Of the drill: of each answer.")] = 64,
    yes: Annotated[bool, typer.Option("--yes", help="Start the drill without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Go through the launch checklist, and through the known traps, for each workload.

    A fact that nobody told gives "cannot tell", never a pass: the more is named, the more is checked. Verified: read or measured where
    it is so; inferred: concluded. Exit code 0 without a fail, 1 with one, 2 for usage or configuration.

    Example: slo-scaler check manifests/examples

    Example: slo-scaler check --cluster --workload prod/llama --ops localhost:8081

    Example: slo-scaler check --ops localhost:8081 --workload prod/llama --json
    """
    place = Place(paths or [], workload, kubeconfig.expanduser() if cluster else None, ops)
    if not (paths or cluster or ops or drill):
        raise ConfigError("PATHS: name files or folders, or look with --cluster or --ops HOST:PORT")
    facts, notes = _facts(place)
    if drill is not None:
        facts = [_drilled(facts, Wish(drill, model, concurrency, seconds, tokens, yes))]
    findings = {str(one.key): _examined(one) for one in facts}
    for note in notes:
        typer.echo(f"slo-scaler check: {note}", err=True)
    _tell(findings, notes, as_json=as_json)
    if any(one.verdict == "fail" for found in findings.values() for one in found):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look. ``kubeconfig`` None: not at a cluster."""

    paths: list[Path]
    workload: str | None
    kubeconfig: Path | None
    ops: str | None


@dataclass(frozen=True, slots=True)
class Wish:
    """A drill as it was asked for."""

    url: str
    model: str | None
    concurrency: int
    seconds: float
    tokens: int
    agreed: bool


def _facts(place: Place) -> tuple[list[Facts], list[str]]:
    """What is known of each workload, and what could not be known."""
    from scaler.cli.check_files import read
    from scaler.cli.check_objects import doubled, facts_of
    from scaler.cli.reach import workload_key

    wanted = None if place.workload is None else workload_key(place.workload, "--workload")
    gathered = read(place.paths)
    notes = [_twice(key, files) for key, files in doubled(gathered)]
    if place.kubeconfig is not None:
        gathered, more = _clustered(place.kubeconfig, wanted, gathered)
        notes += more
    found = [facts_of(key, gathered) for key in _keys(gathered, wanted)]
    if place.ops is None:
        return found, notes
    from scaler.cli.check_scaler import ask

    asked = [(one, *ask(place.ops, one.key)) for one in found]
    if not gathered.items and all(live is None for _, live, _ in asked):
        raise ConfigError(*(f"--ops: {why}" for _, _, why in asked))
    return [_running(one, live) for one, live, _ in asked], [*notes, *(why for _, _, why in asked if why)]


def _twice(key: WorkloadKey, files: tuple[str, ...]) -> str:
    return f"{key} has {len(files)} ScaledObjects with our trigger, in {', '.join(dict.fromkeys(files))}; the last one is looked at"


def _running(facts: Facts, live: Live | None) -> Facts:
    """With what a running scaler tells; what a person decided is taken from it only where the files do not tell."""
    return facts if live is None else replace(facts, live=live, spec=facts.spec or live.spec)


def _clustered(kubeconfig: Path, wanted: WorkloadKey | None, files: Gathered) -> tuple[Gathered, tuple[str, ...]]:
    from scaler.cli.check_cluster import look

    if wanted is None:
        raise ConfigError("--workload: required with --cluster: NAMESPACE/NAME of the ScaledObject")
    if files.items:
        raise ConfigError(
            "PATHS: with --cluster only the scaler's configuration may be named; its objects are the cluster's"
        )
    return asyncio.run(look(kubeconfig, wanted, files.configuration))


def _keys(gathered: Gathered, wanted: WorkloadKey | None) -> list[WorkloadKey]:
    """The workloads to speak of. Raises ConfigError where there is none."""
    from scaler.cli.check_objects import scaled_objects

    there = {*scaled_objects(gathered.items)}
    if gathered.configuration is not None:
        there |= {spec.key for spec in gathered.configuration.workloads}
    if wanted is None and not there:
        raise ConfigError(
            "PATHS: no ScaledObject there has a trigger of type external; name one, or --workload NAMESPACE/NAME"
        )
    if wanted is not None and gathered.items and wanted not in there:
        raise ConfigError(f"--workload: {wanted} is not among {', '.join(map(str, sorted(there))) or 'the files'}")
    return sorted(there) if wanted is None else [wanted]


def _drilled(facts: list[Facts], wish: Wish) -> Facts:
    """The one workload, with what a drill shows."""
    if len(facts) != 1:
        raise ConfigError("--workload: a drill is at one workload; name it")
    return replace(facts[0], drill=asyncio.run(_drill(wish)))


async def _drill(wish: Wish) -> Drill:
    from scaler.cli.check_drill import Burst, models, run

    if not wish.url.startswith(("http://", "https://")):
        raise ConfigError("--drill: an address that begins with http:// or https:// is needed")
    url, api_key = wish.url.rstrip("/").removesuffix("/v1"), os.environ.get("OPENAI_API_KEY")
    model = wish.model or next(iter(await models(url, api_key)), None)
    if model is None:
        raise ConfigError("--model: the endpoint lists none, so name one")
    burst = Burst(url, model, wish.concurrency, wish.seconds, wish.tokens, api_key)
    typer.echo(f"slo-scaler check: the drill sends {burst}", err=True)
    if not wish.agreed and not (
        sys.stdin.isatty() and typer.confirm("Is that a staging endpoint, and may it start?", err=True)
    ):
        raise ConfigError("--drill: not started; --yes starts it without asking")
    return await run(burst)


def _examined(facts: Facts) -> tuple[Finding, ...]:
    from scaler.checks import examine

    return examine(facts)


def _tell(findings: dict[str, tuple[Finding, ...]], notes: list[str], *, as_json: bool) -> None:
    from scaler.cli.check_screen import show
    from scaler.core.plain import plain

    if as_json:
        told = [{"workload": workload, "findings": plain(found)} for workload, found in findings.items()]
        typer.echo(json.dumps({"workloads": told, "notes": notes}, indent=2, ensure_ascii=False))
        return
    for workload, found in findings.items():
        show(workload, found)
