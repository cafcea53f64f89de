"""``python -m bench [NAME ...]``: all benchmarks but the long ones, or the named ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from bench import (
    backpressure,
    decisions,
    floods,
    gateways,
    memory,
    parse,
    prometheus,
    replay,
    replica,
    rpc,
    scale,
    soak,
    study,
    tick,
)

BENCHES: Mapping[str, Callable[[], list[str]]] = {
    "parse": parse.run,
    "rpc": rpc.run,
    "prometheus": prometheus.run,
    "tick": tick.run,
    "memory": memory.run,
    "replica": replica.run,
    "backpressure": backpressure.run,
    "replay": replay.run,
    "gateways": gateways.run,
}
LONG: Mapping[str, Callable[[], list[str]]] = {
    "decisions": decisions.run,
    "decisions-quick": decisions.quick,
    "study": study.run,
}
"""Those that take from ten minutes to more than an hour: only by name."""

PROGRAMS: Mapping[str, Callable[[list[str]], int]] = {"scale": scale.main, "soak": soak.main, "floods": floods.main}
"""Those that have options, and an exit code: by name, and alone."""


def main(names: list[str]) -> int:
    """Run the named benchmarks, without names all that are not long; 2 for a name that is not one."""
    if names and names[0] in PROGRAMS:
        return PROGRAMS[names[0]](names[1:])
    known = {**BENCHES, **LONG}
    if unknown := [name for name in names if name not in known]:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join([*known, *PROGRAMS])}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        print(f"== {name}")
        print("\n".join(known[name]()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
