"""The Dockerfile carried out without a container engine: every RUN literally, below an empty directory.

Each stage is a directory with nothing of its own at first. Mounted over it are this machine's /usr and /etc, read-only, and
at /usr/local, as in the official image, the prefix of the Python that runs the tests, with what is changed there kept apart.
The mounts live in a namespace of their own, so they end with the command. Unlike the base image this has a compiler.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from string import Template

from tests.image.dockerfile import ROOT, Instruction, ignored, stages

BASE_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
LIBRARIES = {"LD_LIBRARY_PATH": "/usr/local/lib"}
"""Where a Python that was moved finds its own library; the official image is built to look there."""
TOOLS = ("unshare", "mount", "chroot", "env", "tar", "gzip")
MOUNTED = ("usr", "etc", "dev", "proc")
ENTER = """
set -e
root=$1 local=$2 mode=$3; shift 3
mount --bind "$root" "$root"
for place in usr etc; do mount --bind "/$place" "$root/$place"; mount -o remount,bind,ro "$root/$place"; done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t overlay overlay -o "$local" "$root/usr/local"
mount -o "remount,bind,$mode" "$root"
exec chroot "$@"
"""
LAYER = 'cd "$1"; shift; tar -c "$@" | gzip -6 | wc -c'


@dataclass
class Machine:
    """A stage under construction, and the machine that it is in the end. ``directory`` is empty at first."""

    directory: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(BASE_ENVIRONMENT))
    workdir: str = "/"
    copied: list[str] = field(default_factory=list)
    """What COPY added, from the root: the layers of ours."""

    def __post_init__(self) -> None:
        self.directory.chmod(0o755)
        for name in ("root", "changed", "work"):
            (self.directory / name).mkdir()
        for name in (*MOUNTED, "tmp"):
            (self.root / name).mkdir()
        for link in Path("/").iterdir():
            if link.is_symlink() and str(link.readlink()).startswith("usr/"):  # /bin, /lib and their like
                (self.root / link.name).symlink_to(link.readlink())

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def command(self, arguments: Sequence[str], user: str, environment: Mapping[str, str]) -> tuple[str, ...]:
        """A command line that runs the arguments in here, on a read-only file system, as process 1 of that user."""
        local = f"lowerdir={self.directory / 'changed'}:{sys.base_prefix}"
        given = {**self.environment, **LIBRARIES, **environment}
        return self._entered(local, "ro", [f"--userspec={user}", "--groups=", str(self.root)], given, arguments)

    def run(self, line: str) -> None:
        """What RUN does. Raises RuntimeError with what the line printed."""
        local = f"lowerdir={sys.base_prefix},upperdir={self.directory / 'changed'},workdir={self.directory / 'work'}"
        given = {**_of_the_network(), **self.environment, **LIBRARIES, "HOME": "/root"}
        command = self._entered(local, "rw", [str(self.root)], given, ["/bin/sh", "-c", line])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{line}\n{done.stdout}")

    def _entered(
        self, local: str, mode: str, chroot: Sequence[str], environment: Mapping[str, str], arguments: Sequence[str]
    ) -> tuple[str, ...]:
        variables = [f"{name}={value}" for name, value in environment.items()]
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        enter = ("sh", "-c", ENTER, "enter", str(self.root), local, mode, *chroot)
        return (*namespaces, *enter, "/usr/bin/env", "-i", "-C", self.workdir, *variables, *arguments)

    def copy(self, source: Path, target: str) -> None:
        """What COPY does with one source: a directory's content, or a file; times are kept, as builders do."""
        to = self.root / PurePosixPath(self.workdir, target).relative_to("/")
        self.copied.append(to.relative_to(self.root).as_posix())
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=_left_out if source.is_relative_to(ROOT) else None)
        else:
            to = to / source.name if target.endswith("/") else to
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to)


def _left_out(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if ignored(Path(directory, name).relative_to(ROOT).as_posix())]


def _of_the_network() -> dict[str, str]:
    """How this machine reaches its package registry."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}


def build(directory: Path) -> Machine:
    """The image: all stages carried out in turn, each in an empty directory below this one."""
    built: dict[str, Machine] = {}
    for number, stage in enumerate(stages()):
        place = directory / str(number)
        place.mkdir()
        machine = Machine(place)
        for instruction in stage.instructions:
            _apply(instruction, machine, built)
        built[stage.name] = machine
    return machine


def _apply(instruction: Instruction, machine: Machine, before: Mapping[str, Machine]) -> None:
    match instruction.name:
        case "RUN":
            machine.run(instruction.text)
        case "ENV":
            pairs = [pair.partition("=") for pair in shlex.split(instruction.text)]
            machine.environment |= {name: Template(value).substitute(machine.environment) for name, _, value in pairs}
        case "WORKDIR":
            machine.workdir = instruction.text
            (machine.root / instruction.text.removeprefix("/")).mkdir(parents=True)
        case "COPY":
            *sources, target = shlex.split(instruction.text)
            origin = ROOT
            if sources[0].startswith("--from="):
                origin = before[sources.pop(0).removeprefix("--from=")].root
            for source in sources:
                machine.copy(origin / source.removeprefix("/"), target)
        case "LABEL" | "USER" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT":
            pass  # of the running container
        case unknown:
            raise NotImplementedError(f"{unknown}: teach this module what it does")


def compressed_size(machine: Machine) -> int:
    """Bytes of what COPY added, as a registry keeps a layer: tar and gzip, at the level of Docker's."""
    done = subprocess.run(
        ["sh", "-c", LAYER, "layer", str(machine.root), *machine.copied], stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout)


def exec_form(text: str) -> list[str]:
    """The arguments of an ENTRYPOINT, a CMD or a HEALTHCHECK that is written as JSON."""
    arguments: list[str] = json.loads(text[text.index("[") :])
    return arguments


def cannot() -> str | None:
    """Why the Dockerfile cannot be carried out here, if so."""
    if os.geteuid() != 0:
        return "needs root, to mount and to change users"
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(absent)}"
    if sys.base_prefix == "/usr":
        return "needs a Python with a prefix of its own, as the official image has"
    return None
