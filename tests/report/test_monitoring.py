"""What is committed is what the code makes, and every alert leads to something that a person can read."""

from __future__ import annotations

import re
from pathlib import Path

from scaler.report.alerts import ALERTS, prometheus_rule
from scaler.report.monitoring import files, main

ROOT = Path(__file__).resolve().parents[2]
COMPONENT = ROOT / "manifests" / "components" / "monitoring"
RUNBOOKS = ROOT / "docs" / "runbooks.md"


def test_what_is_committed_is_what_is_generated():
    committed = {name: (COMPONENT / name).read_text(encoding="utf-8") for name in files()}
    assert committed == dict(files()), "run: make manifests"


def test_a_component_holds_nothing_that_nobody_made():
    assert {path.name for path in COMPONENT.iterdir()} == {"kustomization.yaml", *files()}


def test_the_address_of_the_runbooks_can_be_anothers(tmp_path):
    main(str(tmp_path), "https://wiki.example.com/slo")
    rule = (tmp_path / "prometheusrule.yaml").read_text(encoding="utf-8")
    assert re.findall(r"runbook_url: (.*)", rule) == [
        f"https://wiki.example.com/slo#{alert.name.lower()}" for alert in ALERTS
    ]


def test_every_alert_has_a_section_in_the_runbooks_and_every_section_an_alert():
    headings = re.findall(r"^#+ (SloScaler\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [alert.name for alert in ALERTS]


def test_every_alert_says_how_bad_what_and_where_to_read():
    rules = [rule for group in prometheus_rule()["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    said = [(set(rule["labels"]), set(rule["annotations"])) for rule in rules]
    assert said == [({"severity"}, {"summary", "description", "runbook_url"})] * len(ALERTS)


def test_every_description_holds_a_number():
    assert [alert.name for alert in ALERTS if "$value" not in alert.description] == []
