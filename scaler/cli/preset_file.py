"""A kind of replica as a file: what ``slo-scaler fit`` writes and ``--preset`` reads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scaler.errors import ConfigError
from scaler.settings.file import VALUE_ERRORS
from scaler.sim.presets import PRESETS, Preset
from scaler.sim.values import Coefficients, EngineLimits

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Coefficients(_Section):
    a_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    b_s: Seconds
    c_s: Seconds
    d_s: Seconds
    overhead_s: Seconds = 0.015


class _Limits(_Section):
    max_num_seqs: Count
    token_budget: Count
    kv_tokens: Count


class _File(_Section):
    coefficients: _Coefficients
    limits: _Limits
    gpus: Count = 1


def written(preset: Preset, comments: tuple[str, ...] = ()) -> str:
    """The file."""
    body: dict[str, Any] = {
        "coefficients": asdict(preset.coefficients),
        "limits": asdict(preset.limits),
        "gpus": preset.gpus,
    }
    return "".join(f"# {line}\n" for line in comments) + yaml.safe_dump(body, sort_keys=False)


def preset_named(name: str) -> Preset:
    """One that is shipped, or that of a file. Raises ConfigError."""
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"--preset: no such kind of replica; there are {', '.join(PRESETS)}, and {name} is no file that `slo-scaler fit` wrote"
        )
    try:
        file = _File.model_validate(_loaded(path))
        limits = EngineLimits(**file.limits.model_dump())
    except ValidationError as error:
        raise ConfigError(
            *(
                f"--preset: {path}: {'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
                for fault in error.errors()
            )
        ) from None
    except ValueError as error:
        raise ConfigError(f"--preset: {path}: limits: {error}") from None
    return Preset(Coefficients(**file.coefficients.model_dump()), limits, file.gpus)


def _loaded(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, *VALUE_ERRORS) as error:
        raise ConfigError(f"--preset: {path}: unreadable: {error}") from None
