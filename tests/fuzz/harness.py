"""Coverage-guided fuzzing of ``tests.support.hostile.CHECKS``: `python -m tests.fuzz.harness [SECONDS]`, a minute on each.

Needs atheris, which `make fuzz` installs. What breaks a check is kept in build/fuzz, with what was found to reach new code, and one such
input ends the run.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

KEPT = Path("build/fuzz")
SEEDS = {
    "exposition": "tests/data/metrics",
    "check_request": "tests/data/ext_authz",
    "load_test": "tests/data/load-tests",
    "trace": "tests/data/traces",
}
NAMES = (
    *("exposition", "metadata", "check_request", "http_query", "configuration"),
    *("trace", "load_test", "kubernetes", "memory"),
)
MOST_BYTES, MOST_MB, SLOWEST_S = 65_536, 2048, 10
"""Of one input; of the process, a leak included; and for one input."""


def main(seconds: str = "60") -> int:
    """Fuzz each; the number of those that were broken."""
    if find_spec("atheris") is None:
        print("SKIPPED: atheris is not installed for this Python")
        return 0
    return sum(not _ran(name, seconds) for name in NAMES)


def _ran(name: str, seconds: str) -> bool:
    corpus = KEPT / name
    corpus.mkdir(parents=True, exist_ok=True)
    bounds = (f"-max_len={MOST_BYTES}", f"-rss_limit_mb={MOST_MB}", f"-timeout={SLOWEST_S}")
    options = (f"-max_total_time={seconds}", f"-artifact_prefix={KEPT}/{name}-", *bounds)
    places = [str(corpus), *([SEEDS[name]] if name in SEEDS else [])]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.harness", name, *options, *places],
        capture_output=True,
        text=True,
        check=False,
    )
    done = [line for line in ended.stderr.splitlines() if line.startswith("Done ")]
    print(f"{name}: {done[0] if done and not ended.returncode else ended.stderr[-4000:]}", flush=True)
    return not ended.returncode


def _fuzz(name: str, arguments: list[str]) -> None:
    """Until the time is over or the check breaks; ends the process."""
    import atheris  # noqa: PLC0415 - is not in .venv unless somebody fuzzes

    with atheris.instrument_imports(include=["scaler"]):
        from tests.support.hostile import CHECKS  # noqa: PLC0415 - is instrumented as it is imported
    atheris.Setup([sys.argv[0], *arguments], CHECKS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in NAMES:
        _fuzz(sys.argv[1], sys.argv[2:])
    sys.exit(main(*sys.argv[1:2]))
