"""What a serving container's command line, ports and probe say of its engine: where its page is, and how many requests it runs at once.

The command may be a list, or one long script of a shell, as KServe writes it. Options are therefore looked for in the text, which
no shell has to be understood for; what the text leaves open (a variable without a literal value) is not known. Whoever may create a pod
writes it, so the text is bounded, and each pattern takes time in proportion to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scaler.cluster.api import Json
from scaler.cluster.fields import count, mapping, objects, text, texts

DEFAULT_PORT, DEFAULT_PORTS = 8000, {"sglang": 30000}
"""Where an engine listens when nothing says otherwise: vLLM, and others by the name that the trigger's metadata gives them."""
PORT_NAMES = ("http", "http1", "metrics")
PROXIED_PROBES = "/app-health/"
"""A service mesh sends probes to its own port, under this path."""
HTTPS = "https"
LONGEST_LINE, LONGEST_VALUE = 32_768, 1024
"""Characters that are looked at of a command line, and of a variable's value. KServe's longest script has some 5,000."""
MOST_PORT = 65_535

_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)(?::-([^{}]*))?\}|\$(\w+)")
_GAP = r"[\s\\\"']"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """``port`` and ``cap`` are None, and ``scheme`` is empty, where nothing tells.

    ``cap`` is the most requests that the engine runs at once, over all data-parallel ranks that answer on its page.
    """

    port: int | None = None
    scheme: str = ""
    cap: int | None = None


def engine_facts(container: Json, annotations: Mapping[str, str]) -> EngineFacts:
    """The facts that one container of a pod's spec shows, with the pod's annotations for Prometheus."""
    line = command_line(container)
    return EngineFacts(_port(line, container, annotations), _scheme(line, container, annotations), _cap(line))


def command_line(container: Json) -> str:
    """Command and arguments as one text, with the variables that have a literal value replaced, and without a script's comments."""
    given = ((text(one, "name"), text(one, "value")) for one in objects(container, "env"))
    env = {name: value for name, value in given if 0 < len(value) <= LONGEST_VALUE}
    line = " ".join([*texts(container, "command"), *texts(container, "args")])[:LONGEST_LINE]

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[4]
        return env.get(name, found[0] if found[3] is None else found[3])

    return _VARIABLE.sub(value, _COMMENT.sub("", line))[:LONGEST_LINE]


def port_of(told: str) -> int | None:
    """The port that a text names, None where it names none."""
    port = int(told) if told.isascii() and told.isdecimal() and len(told) <= len(str(MOST_PORT)) else 0
    return port if 0 < port <= MOST_PORT else None


def _port(line: str, container: Json, annotations: Mapping[str, str]) -> int | None:
    """The engine's own word first. Prometheus' annotation comes after the probe: a mesh that injects itself rewrites it."""
    ports = [(text(one, "name"), count(one, "containerPort")) for one in objects(container, "ports")]
    named = [port for wanted in PORT_NAMES for name, port in ports if name == wanted]
    return (
        _number(line, "--port")
        or _number(line, "--http-port")
        or _probed(container, dict(ports))
        or port_of(annotations.get("prometheus.io/port", ""))
        or next(iter(named), None)
        or (ports[0][1] if len(ports) == 1 else None)
    )


def _probed(container: Json, ports: Mapping[str, int | None]) -> int | None:
    probe = _probe(container)
    return count(probe, "port") or (ports.get(text(probe, "port")) if text(probe, "port") else None)


def _probe(container: Json) -> Json:
    """Where readiness is asked for, empty when it is not by a connection to the container itself."""
    http = mapping(container, "readinessProbe", "httpGet")
    if http:
        return {} if text(http, "path").startswith(PROXIED_PROBES) else http
    return mapping(container, "readinessProbe", "tcpSocket")


def _scheme(line: str, container: Json, annotations: Mapping[str, str]) -> str:
    """https where the engine or its probe says so. A probe that says http proves nothing: that is what is written by default."""
    if _has(line, "--ssl-certfile") or _has(line, "--ssl-keyfile") or text(_probe(container), "scheme") == "HTTPS":
        return HTTPS
    annotated = annotations.get("prometheus.io/scheme", "").lower()
    return annotated if annotated in {"http", HTTPS} else ""


def _cap(line: str) -> int | None:
    """vLLM's limit is that of each rank, SGLang's is shared out over them."""
    if limit := _number(line, "--max-num-seqs"):
        return limit * _ranks(line)
    return _number(line, "--max-running-requests") or None


def _ranks(line: str) -> int:
    """How many data-parallel ranks answer on one page: all, those of this node, or the one that the process is."""
    if _number(line, "--data-parallel-rank") is not None or _has(line, "--data-parallel-external-lb"):
        return 1
    size = _number(line, "--data-parallel-size") or _number(line, "-dp") or 1
    if _has(line, "--data-parallel-hybrid-lb"):
        return _number(line, "--data-parallel-size-local") or _number(line, "-dpl") or size
    return size


def _number(line: str, option: str) -> int | None:
    """The whole number that an option is given, the last one if several times, as the engines' own parsers do."""
    found = re.findall(rf"{_option(option)}(?:=|{_GAP}){_GAP}*([0-9]{{1,9}})(?![\w.-])", line)
    return int(found[-1]) if found else None


def _has(line: str, option: str) -> bool:
    return re.search(rf"{_option(option)}(?=[=\s\\\"']|$)", line) is not None


def _option(option: str) -> str:
    """An option as a whole word. vLLM takes underscores for dashes, too."""
    dashes = len(option) - len(option.lstrip("-"))
    return r"(?<![^\s\"'=])" + option[:dashes] + option[dashes:].replace("-", "[-_]")
