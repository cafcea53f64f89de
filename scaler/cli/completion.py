"""``slo-scaler completion``: the script that lets a shell complete commands, options and their values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]  # has no __all__

NAME, VARIABLE = "slo-scaler", "_SLO_SCALER_COMPLETE"


def prepare() -> None:
    """Let the shells' questions be answered; to be called before any command line is read."""
    completion_init()


class Shell(StrEnum):
    """Those that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="The shell to print it for.")]
) -> None:
    """Print a shell's completion script; in .zshrc it stands after compinit.

    Example: source <(slo-scaler completion bash)

    Example: source <(slo-scaler completion zsh)

    Example: slo-scaler completion fish > ~/.config/fish/completions/slo-scaler.fish
    """
    shell_complete(context.find_root().command, {}, NAME, VARIABLE, f"source_{shell}")
