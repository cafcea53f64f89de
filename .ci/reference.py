#!/usr/bin/env python3
"""docs/reference.md from the code: keys, ranges and defaults, environment, commands, ports and paths, metrics.

.ci/reference.py [FILE]: writes the page to FILE, else prints it. What keys mean stands in reference.yaml, beside this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import typer
import yaml
from prometheus_client.registry import Collector

import scaler.cli
import scaler.telemetry
from scaler.api.http import GATE_ROUTES, OPS_ROUTES
from scaler.api.openapi import contract
from scaler.backpressure import admit, check
from scaler.cli.calibrate_run import KEY
from scaler.cli.commands import app
from scaler.cluster.scaled_objects import FLOOR, GATE, SHADOW
from scaler.control.board import Board
from scaler.core.decision import Reason
from scaler.settings import read_place, read_ports, schema
from scaler.telemetry import Reporter
from scaler.telemetry.certificates import OnCertificates
from scaler.telemetry.conditions import OnConditions
from scaler.telemetry.costs import OnCosts
from scaler.telemetry.gauges import AtGates
from scaler.telemetry.objectives import OnObjectives
from scaler.workload import CONNECTION_KEYS, TriggerMetadata

INTRODUCTION = """# Reference

Written by `make docs` from the code and `.ci/reference.yaml`; edit there. [concepts.md](concepts.md) explains the words,
[slo-scaler.yaml](slo-scaler.yaml) is a configuration with everything in it.

[Trigger metadata](#trigger-metadata) · [configuration file](#configuration-file) · [environment](#environment) · [commands](#commands) ·
[ports and paths](#ports-and-paths) · [reasons](#reasons) · [metrics](#metrics)"""
TRIGGER = """## Trigger metadata

An unknown key is an error that names it; a value is never repeated, since it may be a secret. `…FromEnv` works for every key. Beside
these there are KEDA's own: {own}. The ScaledObject's annotations {annotations} are in
[cluster.md](cluster.md#annotations-of-a-scaledobject)."""
FILE = """## Configuration file

YAML, `slo-scaler serve --config FILE`. An unknown key is an error that names its place; `slo-scaler serve --schema` prints the JSON Schema.
The file is read again when it changes; a bad one is refused whole and the one before stays. NAME is a name that you give."""
ENVIRONMENT = """## Environment

Options given on the command line count before these. `{key}` is what `calibrate --run` and `check --drill` show an endpoint."""
COMMANDS = """## Commands

`slo-scaler COMMAND --help` lists the options. Exit codes: {exits}"""
PATHS = """## Ports and paths

6000 is KEDA's gRPC service (`externalscaler.ExternalScaler`, `grpc.health.v1`, reflection), 6001 Envoy's ext_authz. All paths are GET but
`/v1/admit` and `/v1/backpressure`, which take any method. `/openapi.json` on 8081 has the fields."""
REASONS = """## Reasons

What binds the published number (`reason`; exactly one does): {reasons}.
`because` beside it is the sentence, [law.md](law.md) the formula."""
METRICS = """## Metrics

`/metrics` on 8081. What is unknown has no series, since a 0 would read as a measurement. Counters get `_total`, histograms `_bucket`,
`_sum` and `_count`.

A workload with one class has 43 series, and for each other class one of the admit ratio and one of its budget. Beside them stand those that
are there only while there is something to say: findings, phases of starts, what GPUs do, and three a class where gateways ask for each
request."""


KINDS = {"string": "text", "object": "mapping", "array": "list", "boolean": "true, false"}


@dataclass(frozen=True, slots=True)
class Row:
    """A key with what it may be and what it is without being given."""

    key: str
    value: str
    default: str
    meaning: str


class Recording(dict[str, str]):
    """An environment without any variable, that keeps which were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """What stands there, and the name is kept. A pod's own names are given, for otherwise nothing after them is asked."""
        self.asked[key] = None
        return "given" if key.endswith(("_POD_NAMESPACE", "_POD_NAME")) else default


class Meanings:
    """The sentences of one part; each is used once and none is left over."""

    def __init__(self, part: str, sentences: Mapping[str, str]) -> None:
        self._part, self._left = part, dict(sentences)

    def of(self, key: str, described: str = "") -> str:
        """The sentence of the key: the code's own where it has one."""
        if bool(described) == (key in self._left):
            sys.exit(f"reference.yaml: {self._part}: {key} needs one sentence, there or as its description in the code")
        return described or self._left.pop(key)

    def end(self) -> None:
        """Nothing more will be asked for."""
        if self._left:
            sys.exit(f"reference.yaml: {self._part}: the code has no {', '.join(self._left)}; take it out")


def page(sentences: Mapping[str, Mapping[str, str]]) -> str:
    """The whole page."""
    exits = " ".join((scaler.cli.__doc__ or "").partition("Exit codes: ")[2].partition("\n\n")[0].split())
    own = ", ".join(f"`{key}`" for key in sorted(CONNECTION_KEYS))
    reasons = ", ".join(f"`{reason}`" for reason in Reason)
    parts = (
        INTRODUCTION,
        TRIGGER.format(own=own, annotations=", ".join(f"`{name}`" for name in (FLOOR, GATE, SHADOW))),
        _keys(_trigger(Meanings("trigger", sentences["trigger"]))),
        FILE,
        *_file(Meanings("file", sentences["file"])),
        ENVIRONMENT.format(key=KEY),
        _table(("variable", "meaning"), _environment(Meanings("environment", sentences["environment"]))),
        COMMANDS.format(exits=exits),
        _table(("command", "what it does"), _commands()),
        PATHS,
        _table(("port", "path", "answers", "what"), _paths()),
        REASONS.format(reasons=reasons),
        METRICS,
        _table(("metric", "kind", "labels", "what"), _metrics()),
    )
    return "\n\n".join(parts) + "\n"


def _trigger(meanings: Meanings) -> Iterator[Row]:
    yield from _rows(TriggerMetadata.model_json_schema(), "", meanings)
    meanings.end()


def _file(meanings: Meanings) -> Iterator[str]:
    """A heading and a table for each section."""
    whole = schema()
    for name, section in whole["properties"].items():
        rows = [*_rows({"properties": {name: section}, "$defs": whole["$defs"]}, "", meanings)]
        yield f"### {name}"
        shape = _resolved(section, whole["$defs"])
        if text := (_named(shape, whole["$defs"]) or shape).get("description"):
            yield text
        yield _keys(rows)
    meanings.end()


def _rows(whole: Mapping[str, Any], before: str, meanings: Meanings) -> Iterator[Row]:
    """The keys of a schema that has some, those of sections within it by their whole path."""
    definitions = whole.get("$defs", {})
    for key, written in whole["properties"].items():
        shape, path = _resolved(written, definitions), f"{before}{key}"
        inner = _named(shape, definitions)
        if inner.get("type") in {"object", "number"}:
            shape, path = inner, f"{path}.NAME"
        if "properties" in shape:
            yield from _rows({**shape, "$defs": definitions}, f"{path}.", meanings)
        else:
            required = key in whole.get("required", ())
            default = "required" if required else _shown(written.get("default"))
            yield Row(path, _values(shape), default, meanings.of(path, written.get("description", "")))


def _resolved(written: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """What a reference or an optional value stands for."""
    if "anyOf" in written:
        either = [_resolved(one, definitions) for one in written["anyOf"] if one.get("type") != "null"]
        return either[0] if len(either) == 1 else {"either": either}
    return dict(definitions[written["$ref"].rpartition("/")[2]] if "$ref" in written else written)


def _named(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """What stands behind each name of a mapping whose names are the user's; nothing where they are not."""
    either = [shape.get("additionalProperties"), *shape.get("patternProperties", {}).values()]
    return next((_resolved(one, definitions) for one in either if isinstance(one, dict)), {})


def _values(shape: Mapping[str, Any]) -> str:
    if "either" in shape:
        return " or ".join(_values(one) for one in shape["either"])
    if "enum" in shape or "const" in shape:
        return ", ".join(f"`{one}`" for one in shape.get("enum", [shape.get("const")]))
    kind = KINDS.get(shape["type"], str(shape["type"]))
    least, most = (shape.get(bound, shape.get(other)) for bound, other in (("minimum", "ge"), ("maximum", "le")))
    if least is None and most is None:
        return kind
    return f"{kind}, {least:g} to {most:,.9g}" if most is not None else f"{kind}, {least:g} or more"


def _shown(default: object) -> str:
    if default in (None, "", (), [], {}):
        return ""
    return (
        f"{default:g}"
        if isinstance(default, float)
        else str(default).lower()
        if isinstance(default, bool)
        else str(default)
    )


def _environment(meanings: Meanings) -> Iterator[tuple[str, ...]]:
    """What the process asks its environment for in a pod and outside of one, and what options are taken from there."""
    asked = Recording()
    with TemporaryDirectory() as account:
        (Path(account) / "token").touch()
        read_ports(asked)
        read_place(asked, Path(account))
    for name in asked.asked:
        if name.startswith("SLO_SCALER_"):
            yield f"`{name}`", meanings.of(name)
    meanings.end()
    for command, option in _options():
        yield f"`{option.envvar}`", f"`slo-scaler {command} {option.opts[0]}`: {option.help}"


def _options() -> Iterator[tuple[str, Any]]:
    """(command, option) of each option that may come from the environment."""
    root = typer.main.get_command(app)
    for name, command in sorted(vars(root)["commands"].items()):
        yield from ((name, option) for option in command.params if option.envvar)


def _commands() -> Iterator[tuple[str, ...]]:
    root = typer.main.get_command(app)
    for name, command in vars(root)["commands"].items():
        yield f"`slo-scaler {name}`", command.help.partition("\n")[0]


def _paths() -> Iterator[tuple[str, ...]]:
    document: Any = contract((*GATE_ROUTES, *OPS_ROUTES), {**check.paths(), **admit.paths()})
    for path, item in document["paths"].items():
        port = item["servers"][0]["url"].rpartition(":")[2]
        asked = [one["name"] for one in item["get"].get("parameters", ()) if one["in"] == "query"]
        query = f"`{path}{'[?' + '&'.join(f'{name}=' for name in asked) + ']' if asked else ''}`"
        yield port, query, ", ".join(item["get"]["responses"]), item["get"]["summary"]


def _metrics() -> Iterator[tuple[str, ...]]:
    board, unasked = Board(), SimpleNamespace(fault="", expiries={}, refusals={})
    reporter = Reporter(board, lambda: 0.0, lambda: 0.0, StringIO())
    for collector in (
        AtGates(lambda: (), dict),
        OnConditions(board),
        OnCosts(board.costs, dict),
        OnObjectives(board, lambda: ()),
        OnCertificates(unasked),
    ):
        reporter.registry.register(collector)
    registered = dict(vars(reporter.registry)["_collector_to_names"])
    _all_known({type(one).__name__ for one in registered})
    labels = {vars(one)["_name"]: vars(one)["_labelnames"] for one in registered if "_labelnames" in vars(one)}
    for family in sorted(reporter.registry.collect(), key=lambda one: one.name):
        having: Iterable[str] = labels.get(family.name) or vars(family).get("_labelnames", ())
        yield f"`{family.name}`", family.type, ", ".join(having), family.documentation
    reporter.close()


def _all_known(asked: set[str]) -> None:
    """A collector of the scaler's that is not among those asked here is one that this script must learn of."""
    for module in iter_modules(scaler.telemetry.__path__):
        import_module(f"scaler.telemetry.{module.name}")
    every = {one.__name__ for one in Collector.__subclasses__() if one.__module__.startswith("scaler.telemetry")}
    if forgotten := sorted(every - asked):
        sys.exit(f".ci/reference.py: _metrics does not ask {', '.join(forgotten)}")


def _keys(rows: Iterable[Row]) -> str:
    return _table(("key", "value", "default", "meaning"), ((f"`{r.key}`", r.value, r.default, r.meaning) for r in rows))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = (head, ("---",) * len(head), *((cell.replace("|", "\\|") for cell in row) for row in rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


if __name__ == "__main__":
    text = page(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
