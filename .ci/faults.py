#!/usr/bin/env python3
"""docs/faults.md from the tests: each fault, what it does to whom, and the tests that hold it to that.

.ci/faults.py [FILE]: writes the page to FILE, else prints it. What is stated stands in faults.yaml, beside this; a test names the faults
that it is about: ``@pytest.mark.fault("engine hangs")``.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
INTRODUCTION = """# When something fails

Written by `make faults` from the tests and `.ci/faults.yaml`; edit there. For each fault: what KEDA, a gateway and whoever operates it see,
and the tests that hold the scaler to it, each by its sentence. {faults} faults, {tests} tests. `make test` runs them; those marked *e2e*
start whole processes and run with `make test-e2e`, as does a run in which faults come at random (`tests/demo/test_chaos.py`;
`.venv/bin/python -m bench.chaos --seed 7 --minutes 3.5` is another).

Two rules are behind all of it. **Missing is never zero**: what cannot be read counts as full going down and as empty going up.
**An error is safe and a wrong number is not**: for KEDA an error holds the replicas, so what is not known is an error and never a 0."""
WHO = {"keda": "KEDA", "gateways": "Gateways", "operators": "Operators"}


def page(parts: Mapping[str, Mapping[str, Mapping[str, str]]], marked: Mapping[str, list[str]]) -> str:
    """The whole page. Exits where a fault has no test, a test names a fault that is not stated, or a statement is not whole."""
    stated = {fault for part in parts.values() for fault in part}
    if unstated := sorted(marked.keys() - stated):
        sys.exit(f"faults.yaml: states nothing of {', '.join(unstated)}, which tests name")
    if untested := sorted(stated - marked.keys()):
        sys.exit(f"faults.yaml: no test is marked with {', '.join(untested)}")
    lines = [INTRODUCTION.format(faults=len(stated), tests=len({test for tests in marked.values() for test in tests}))]
    for part, faults in parts.items():
        lines.append(f"## {part}")
        for fault, seen in faults.items():
            if seen.keys() != WHO.keys():
                sys.exit(f"faults.yaml: {fault}: needs {', '.join(WHO)}")
            rows = [f"| {name} | {seen[who]} |" for who, name in WHO.items()]
            lines += [f"### {fault[0].upper()}{fault[1:]}", "\n".join(["| who | sees |", "| --- | --- |", *rows])]
            lines.append("\n".join(f"* {test}" for test in marked[fault]))
    return "\n\n".join(lines) + "\n"


def marked_tests(folder: Path) -> dict[str, list[str]]:
    """The tests by the faults that they are marked with, each as its sentence and where it stands."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.fault(" not in text:
            continue
        module = ast.parse(text)
        whole = any(_mark(one) == "e2e" for node in module.body if isinstance(node, ast.Assign) for one in _marks(node))
        for node in module.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                e2e = whole or any(_mark(one) == "e2e" for one in node.decorator_list)
                sentence = node.name.removeprefix("test_").replace("_", " ")
                for fault in _faults(node):
                    place = path.relative_to(ROOT).as_posix()
                    found[fault].append(f"{sentence} (`{place}`{', *e2e*' if e2e else ''})")
    return dict(found)


def _faults(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for one in test.decorator_list:
        if isinstance(one, ast.Call) and _mark(one) == "fault":
            yield from (str(ast.literal_eval(argument)) for argument in one.args)


def _marks(assigned: ast.Assign) -> list[ast.expr]:
    """What a module gives all of its tests."""
    value = assigned.value
    named = any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in assigned.targets)
    return (value.elts if isinstance(value, ast.List | ast.Tuple) else [value]) if named else []


def _mark(decorator: ast.expr) -> str:
    """The name of a mark of pytest; empty for another decorator."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return named.attr if isinstance(named, ast.Attribute) and ast.unparse(named).startswith("pytest.mark.") else ""


if __name__ == "__main__":
    stated: Any = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    text = page(stated, marked_tests(ROOT / "tests"))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
