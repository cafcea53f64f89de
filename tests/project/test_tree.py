"""What may be committed: nothing that ties the tree to one machine, and no generated code that lags its source."""

import filecmp
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from os import environ
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Addresses and paths are put together from pieces, so that this file does not find itself.
REGISTRIES = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("deb.debian", "org"),
    ("security.debian", "org"),
    ("archive.ubuntu", "com"),
    ("registry.npmjs", "org"),
    ("registry.yarnpkg", "com"),
    ("proxy.golang", "org"),
    ("index.crates", "io"),
    ("conda.anaconda", "org"),
]
LOCAL_ROOTS = ["work", "root", "home", "Users", "tmp", "mnt", "builds"]
# What stands before the path must not make it the tail of a longer path or of an address, but `-I` and `file:` may.
BEFORE_PATH = r"(?:(?<=-[A-Z])|(?<=file://)|(?<![\w.~/*)}\]-]))"
# Where KServe mounts a model is the same on every machine.
LOCAL_PATH = re.compile(BEFORE_PATH + r"/(?!mnt/models\b)(?:" + "|".join(LOCAL_ROOTS) + r")/[\w.]")


def git(*arguments: str) -> str:
    executable = which("git")
    if executable is None:
        pytest.skip("git is not installed")
    done = subprocess.run([executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    return done.stdout


def committed_lines() -> Iterator[tuple[str, str]]:
    """(place, line) of every text file that git tracks or would add."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in sorted(filter(None, names)):
        path = ROOT / name
        if not path.is_file():
            continue  # deleted, and not yet committed as such
        content = path.read_bytes()
        if b"\0" in content:
            continue  # binary
        for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
            yield f"{name}:{number}", line


def own_index_hosts() -> set[str]:
    """The hosts that this machine's pip and uv are told to ask. They are nobody else's business."""
    addresses = [value for key, value in environ.items() if key.startswith(("PIP_", "UV_")) and "://" in value]
    for file in pip_configuration_files():
        parser = ConfigParser(interpolation=None, strict=False)
        parser.read(file, encoding="utf-8")
        for section in parser.sections():
            addresses += [word for _, value in parser.items(section) for word in value.split() if "://" in word]
    hosts = {urlsplit(address).hostname or "" for address in addresses}
    return {host for host in hosts if "." in host and not host.startswith("127.")}


def pip_configuration_files() -> list[Path]:
    fixed = [Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf"), Path(sys.prefix) / "pip.conf"]
    own = [Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"]
    named = [Path(environ["PIP_CONFIG_FILE"])] if "PIP_CONFIG_FILE" in environ else []
    return [file for file in fixed + own + named if file.is_file()]


def test_no_committed_file_names_a_package_registry() -> None:
    hosts = {".".join(pieces) for pieces in REGISTRIES} | own_index_hosts()
    address = re.compile("|".join(re.escape(host) for host in sorted(hosts)), re.IGNORECASE)
    assert [place for place, line in committed_lines() if address.search(line)] == []


def test_no_committed_file_holds_a_path_of_one_machine() -> None:
    assert [place for place, line in committed_lines() if LOCAL_PATH.search(line)] == []


@pytest.mark.parametrize("root", LOCAL_ROOTS)
@pytest.mark.parametrize("before", ["", " ", '"', "=", "(", ":", "-I", "file://"])
def test_a_path_of_one_machine_is_recognised(root: str, before: str) -> None:
    assert LOCAL_PATH.search(f"{before}/{root}/somebody")


@pytest.mark.parametrize("before", ["src", ".", "https:/", "https://example.com", "$PWD", "{base}"])
def test_the_tail_of_a_longer_path_is_no_path_of_one_machine(before: str) -> None:
    assert not LOCAL_PATH.search(f"{before}/home/somebody")


def test_the_generated_code_is_what_proto_generates(tmp_path: Path) -> None:
    generator = {**environ, "VENV_BIN": str(Path(sys.executable).parent)}
    subprocess.run([ROOT / ".ci" / "proto", tmp_path], cwd=ROOT, check=True, env=generator)
    committed, fresh = ROOT / "scaler" / "pb", tmp_path / "scaler" / "pb"
    names = sorted(path.name for path in committed.glob("*_pb2*.py*"))
    assert names == sorted(path.name for path in fresh.iterdir())
    assert filecmp.cmpfiles(committed, fresh, names, shallow=False) == (names, [], [])
