"""What ``manifests/components/monitoring`` holds, written by ``make manifests``: the alerts and the dashboards.

python -m scaler.report.monitoring DIRECTORY [ADDRESS OF docs/runbooks.md]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from scaler.report.alerts import RUNBOOKS, prometheus_rule
from scaler.report.dashboard import rendered
from scaler.report.dashboard_fleet import FLEET
from scaler.report.dashboard_workload import WORKLOAD

NOTE = "# Written by `make manifests` from scaler/report/alerts*.py; edit there.\n"
WIDE = 10_000


class _Readable(yaml.SafeDumper):
    """An expression of several lines is written as such, and no line is broken elsewhere."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def files(runbooks: str = RUNBOOKS) -> Mapping[str, str]:
    """Text by name of file. ``runbooks`` is where the page lies that every alert leads to."""
    rule = yaml.dump(prometheus_rule(runbooks), Dumper=_Readable, sort_keys=False, width=WIDE)
    boards = {f"{board.uid}.json": json.dumps(rendered(board), indent=1) + "\n" for board in (FLEET, WORKLOAD)}
    return {"prometheusrule.yaml": NOTE + rule, **boards}


def main(directory: str, runbooks: str = RUNBOOKS) -> None:
    """Write them all."""
    for name, text in files(runbooks).items():
        (Path(directory) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
