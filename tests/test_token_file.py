"""The section ``access`` and the file of readers' tokens."""

import hashlib
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.api.access import Readers
from scaler.errors import ConfigError
from scaler.settings import WatchedFile, parse_configuration
from scaler.settings.token_file import NO_NAMESPACES, parse_tokens

HASH, OTHER = (hashlib.sha256(text).hexdigest() for text in (b"a", b"b"))
TLS = {"cert_file": "c", "key_file": "k"}


def faults(access: dict, **rest) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        parse_configuration(json.dumps({"access": access, **rest}))
    return refused.value.faults


def test_without_the_section_whoever_reaches_a_port_reads_and_pages_are_for_this_machine():
    assert parse_configuration("").access.readers == Readers(None, None, "loopback")


def test_the_section_is_understood():
    given = {
        "keda_names": ["keda-operator"],
        "review_tokens": True,
        "service_accounts": {"gateways/envoy": ["*"], "prod/router": ["test"]},
        "pages": "open",
        "per_namespace": {"workloads": 7, "replicas": 9},
    }
    tls = {"server": {"tls": {**TLS, "client_ca_file": "ca"}}}
    access = parse_configuration(json.dumps({"access": given, **tls})).access
    accounts = {"gateways/envoy": frozenset({"*"}), "prod/router": frozenset({"test"})}
    assert access.readers == Readers(None, accounts, "open")
    assert (access.keda_names, access.limits.in_namespace, access.share.replicas) == (
        frozenset({"keda-operator"}),
        7,
        9,
    )


@pytest.mark.parametrize(
    ("access", "fault"),
    [
        ({"keda_names": ["x"]}, "access.keda_names: nobody shows a certificate without server.tls.client_ca_file; set it"),
        ({"service_accounts": {"a/b": ["*"]}}, "access.service_accounts: of no use without review_tokens: true"),
        (
            {"review_tokens": True, "service_accounts": {"ab": ["*"]}},
            "access.service_accounts.ab: write a ServiceAccount as namespace/name",
        ),
        (
            {"review_tokens": True, "service_accounts": {"a/b": ["A*"]}},
            'access.service_accounts.a/b.0: write the name of a namespace, or "*" for every one',
        ),
        ({"pages": "all"}, "access.pages: Input should be 'loopback' or 'open'"),
        ({"per_namespace": {"workloads": 0}}, "access.per_namespace.workloads: Input should be greater than or equal to 1"),
        ({"kedanames": []}, "access.kedanames: unknown key, did you mean keda_names?"),
    ],
)  # fmt: skip
def test_a_fault_of_the_section_names_its_place_and_what_is_allowed(access, fault):
    assert faults(access) == (fault,)


def test_a_file_of_tokens_is_read_again_and_a_bad_version_leaves_the_one_before(tmp_path):
    tokens, path = tmp_path / "tokens.yaml", tmp_path / "c.yaml"
    tokens.write_text(json.dumps({HASH: ["prod"]}))
    path.write_text(json.dumps({"access": {"token_file": str(tokens)}}))
    file = WatchedFile(path)
    first = file.first().access.readers.tokens
    tokens.write_text(json.dumps({"a token that nobody hashed": ["prod"]}))
    refused, faults = file.changed(), file.faults
    tokens.write_text(json.dumps({HASH: ["prod"], OTHER: ["*"]}))
    mended = file.changed()
    assert (first, refused, [fault.partition(": ")[0] for fault in faults]) == (
        {HASH: frozenset({"prod"})},
        None,
        ["access.token_file"],
    )
    assert "nobody hashed" not in faults[0]
    assert mended is not None
    assert mended.access.readers.tokens == {HASH: frozenset({"prod"}), OTHER: frozenset({"*"})}


def test_no_process_starts_without_the_file_of_tokens_that_is_named(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps({"access": {"token_file": str(tmp_path / "absent")}}))
    with pytest.raises(ConfigError) as refused:
        WatchedFile(path).first()
    assert refused.value.faults == (
        f"access.token_file: {tmp_path / 'absent'}: cannot be read (No such file or directory)",
    )


@pytest.mark.parametrize("entry", [[], "prod", {"namespaces": ["prod"]}, [1], ["PROD"], ["prod/x"], ["*", ""], None])
def test_an_entry_without_namespaces_is_a_fault_by_its_number(tmp_path, entry):
    with pytest.raises(ConfigError) as refused:
        parse_tokens(tmp_path, json.dumps({HASH: entry}))
    assert refused.value.faults == (f"{tmp_path}: entry 1{NO_NAMESPACES}",)


@given(st.binary(max_size=200))
def test_whatever_the_file_holds_is_tokens_or_a_list_of_faults(tmp_path_factory, content):
    found: Mapping[str, frozenset[str]] = {}
    refused: tuple[str, ...] = ()
    try:
        found = parse_tokens(tmp_path_factory.getbasetemp(), content.decode(errors="replace"))
    except ConfigError as error:
        refused = error.faults
    assert bool(refused) or all(len(name) == 64 for name in found)
