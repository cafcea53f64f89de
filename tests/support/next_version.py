"""The scaler as its next version may be: ``python -m tests.support.next_version serve``, in a process of its own.

What it stores has a newer form, with a key that today's version does not know, and it reads today's form.
"""

import json

from scaler import cli
from scaler.core import memory
from scaler.core.memory import Recalled
from scaler.core.step import State, WorkloadSpec

THIS_VERSION, NEXT_VERSION = memory.VERSION, memory.VERSION + 1
_remember, _recall = memory.remember, memory.recall


def remember(state: State, now: float, wall: float) -> str:
    written = json.loads(_remember(state, now, wall))
    return json.dumps({**written, "v": NEXT_VERSION, "z": ["new"]}, separators=(",", ":"))


def recall(text: str, spec: WorkloadSpec, now: float, wall: float) -> Recalled:
    return _recall(text.replace(f'"v":{NEXT_VERSION}', f'"v":{THIS_VERSION}'), spec, now, wall)


if __name__ == "__main__":
    memory.remember, memory.recall = remember, recall
    cli.main()
