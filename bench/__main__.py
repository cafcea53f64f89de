"""``python -m bench [NAME ...]``: all benchmarks, or the named ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from bench import backpressure, gateways, memory, parse, prometheus, replay, replica, rpc, tick

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


def main(names: list[str]) -> int:
    """Run the named benchmarks, all without names; 2 for a name that is not one."""
    if unknown := [name for name in names if name not in BENCHES]:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        print(f"== {name}")
        print("\n".join(BENCHES[name]()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
