"""Files and folders of YAML: Kubernetes objects, and the scaler's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from scaler.cli.check_objects import Gathered
from scaler.cluster.api import Json
from scaler.cluster.fields import strings, text
from scaler.errors import ConfigError
from scaler.settings import Configuration, parse_configuration
from scaler.settings.file import VALUE_ERRORS
from scaler.settings.sections import FileSections

SUFFIXES = (".yaml", ".yml", ".json")
CONFIGURATION = "slo-scaler.yaml"
"""What the configuration is called in a ConfigMap."""


def read(paths: Iterable[Path]) -> Gathered:
    """What the files hold. Raises ConfigError for one that cannot be read, is no YAML, or for two configurations."""
    items: list[Json] = []
    places: list[str] = []
    configurations: dict[str, str] = {}
    for file in _files(paths):
        body = _text(file)
        for document in _documents(file, body):
            if text(document, "apiVersion") and text(document, "kind"):
                items += (more := _listed(document))
                places += [str(file)] * len(more)
            elif FileSections.model_fields.keys() & document.keys():
                configurations[str(file)] = body
    configurations |= {f"ConfigMap {text(one, 'metadata', 'name')}": said for one in items if (said := configured(one))}
    if len(set(configurations.values())) > 1:
        raise ConfigError(f"PATHS: {' and '.join(sorted(configurations))} both configure a scaler; name one of them")
    return Gathered(tuple(items), configuration_of(configurations), files=tuple(places))


def configured(item: Json) -> str:
    """The configuration in a ConfigMap, empty where it has none."""
    return strings(item, "data").get(CONFIGURATION, "") if text(item, "kind") == "ConfigMap" else ""


def configuration_of(texts: dict[str, str]) -> Configuration | None:
    """The first configuration by where it is from. Raises ConfigError with the place before each fault."""
    for place, body in texts.items():
        try:
            return parse_configuration(body)
        except ConfigError as error:
            raise ConfigError(*(f"{place}: {fault}" for fault in error.faults)) from None
    return None


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
        else:
            yield path


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not UTF-8 text") from None


def _documents(file: Path, body: str) -> list[Json]:
    try:
        loaded: list[Any] = list(yaml.safe_load_all(body))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{file}: not YAML" + (f" in line {mark.line + 1}" if mark else "")) from None
    except VALUE_ERRORS:
        raise ConfigError(f"{file}: a value that YAML takes for a date or a number is none; put it in quotes") from None
    return [one for one in loaded if isinstance(one, dict)]


def _listed(document: Json) -> list[Json]:
    """The objects of a List, or the one."""
    items = document.get("items")
    if text(document, "kind").endswith("List") and isinstance(items, list):
        return [one for one in items if isinstance(one, dict)]
    return [document]
