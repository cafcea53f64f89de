"""Certificates of our own ports: what is accepted at start, what replaces what, and what is told of it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from scaler.api.certificates import Certificates, ServerTls
from scaler.api.x509 import blocks, validity
from scaler.errors import ConfigError
from scaler.telemetry.certificates import OnCertificates
from tests.support.tls import A_WHILE_AGO, Authority, Issued, Told, certificates, openssl, server_tls, wall

DAY_S = 86400.0
# Nested elements of up to 127 bytes, as certificates are made of, and bytes that are anything.
DER = st.recursive(
    st.binary(min_size=1, max_size=16),
    lambda inner: st.builds(
        lambda tag, parts: bytes([tag, len(b"".join(parts)) % 128, *b"".join(parts)]),
        st.sampled_from([0x30, 0xA0, 0x17, 0x18]),
        st.lists(inner, max_size=5),
    ),
)


@pytest.fixture
def ours(tmp_path) -> Authority:
    return Authority(tmp_path / "ours")


@dataclass
class Case:
    """Files that somebody may name."""

    folder: Path
    ours: Authority
    pair: Issued

    def written(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def tls(self, **changed: str) -> ServerTls:
        named = {"cert_file": str(self.pair.cert), "key_file": str(self.pair.key), **changed}
        return ServerTls(**named)


def encrypted(case: Case) -> str:
    path = str(case.folder / "encrypted.key")
    openssl("ec", "-in", str(case.pair.key), "-aes256", "-passout", "pass:secret", "-out", path)
    return path


FAULTS = [
    pytest.param(lambda c: c.tls(cert_file="gone.crt"), "server.tls.cert_file: gone.crt cannot be read", id="no-cert"),
    pytest.param(lambda c: c.tls(key_file=str(c.folder)), "server.tls.key_file: .* cannot be read", id="key-a-folder"),
    pytest.param(lambda c: c.tls(client_ca_file="no.pem"), "client_ca_file: no.pem cannot be read", id="no-ca"),
    pytest.param(
        lambda c: c.tls(cert_file=c.written("a.crt", b"hello")), "cert_file: .*a.crt holds no PEM", id="cert-is-text"
    ),
    pytest.param(
        lambda c: c.tls(cert_file=c.written("a.crt", c.pair.cert.read_bytes().replace(b"MII", b"AAA"))),
        "cert_file: .*a.crt holds a certificate that cannot be read",
        id="cert-is-garbled",
    ),
    pytest.param(
        lambda c: c.tls(key_file=c.written("a.key", b"hello")), "key_file: .*a.key holds no usable", id="key-is-text"
    ),
    pytest.param(
        lambda c: c.tls(key_file=str(c.ours.issue().key)), "key_file: .* does not match .*crt", id="key-of-another"
    ),
    pytest.param(lambda c: c.tls(key_file=encrypted(c)), "key_file: the key has a passphrase", id="key-is-encrypted"),
    pytest.param(
        lambda c: server_tls(c.ours.issue(days=A_WHILE_AGO)), "cert_file: .* has expired, valid until 20", id="expired"
    ),
    pytest.param(
        lambda c: c.tls(client_ca_file=c.written("ca.pem", b"# none yet\n")),
        "client_ca_file: .*ca.pem holds no PEM certificate",
        id="ca-is-empty",
    ),
]


@pytest.mark.parametrize(("named", "fault"), FAULTS)
def test_files_that_cannot_serve_are_a_configuration_error_that_names_the_setting_and_the_file(
    tmp_path, ours, named, fault
):
    tls = named(Case(tmp_path, ours, ours.issue()))
    with pytest.raises(ConfigError, match=fault):
        Certificates.load(tls, wall, Told())


def test_a_certificate_from_the_future_makes_one_look_at_the_clock(ours):
    with pytest.raises(ConfigError, match=r"is not valid before .*; is the clock right"):
        Certificates.load(server_tls(ours.issue()), lambda: 0.0, Told())


def test_every_file_that_is_missing_is_named_at_once():
    with pytest.raises(ConfigError) as refused:
        Certificates.load(ServerTls("a.crt", "a.key", "ca.pem"), wall, Told())
    assert len(refused.value.faults) == 3


def test_a_bundle_expires_with_the_next_of_its_cas_and_not_with_one_that_is_gone(tmp_path):
    short, long = Authority(tmp_path / "short", days=2), Authority(tmp_path / "long", days=9)
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"# the one that goes\n" + short.ca.read_bytes() + long.ca.read_bytes())
    tls = server_tls(long.issue(days=8), bundle)
    now = wall()
    both = Certificates.load(tls, lambda: now, Told()).expiries[str(bundle)]
    one = Certificates.load(tls, lambda: now + 3 * DAY_S, Told()).expiries[str(bundle)]
    assert [round((at - now) / DAY_S) for at in (both, one)] == [2, 9]


async def test_unchanged_files_are_no_news(ours):
    told = Told()
    await certificates(ours.issue(), told=told).refresh()
    assert told.news == []


async def test_a_new_pair_replaces_the_old_one(tmp_path, ours):
    told, pair = Told(), ours.issue(days=1).copy(tmp_path / "mounted")
    held = certificates(pair, told=told)
    ours.issue(days=2).over(pair)
    before = held.expiries[str(pair.cert)]
    await held.refresh()
    assert (told.kinds, round((held.expiries[str(pair.cert)] - before) / DAY_S)) == (["certificate_loaded"], 1)


async def test_a_volume_that_swaps_its_symlink_is_noticed(tmp_path, ours):
    for name in ("first", "second"):
        ours.issue().copy(tmp_path / name)
    data = tmp_path / "..data"
    data.symlink_to("first")
    told = Told()
    held = certificates(Issued(data / "tls.crt", data / "tls.key"), told=told)
    (tmp_path / "..data_tmp").symlink_to("second")
    (tmp_path / "..data_tmp").replace(data)
    await held.refresh()
    assert told.kinds == ["certificate_loaded"]


async def test_a_broken_pair_keeps_the_old_one_and_says_so_until_it_is_mended(tmp_path, ours):
    told, pair = Told(), ours.issue().copy(tmp_path / "mounted")
    held = certificates(pair, told=told)
    before = held.expiries
    pair.key.write_bytes(ours.issue().key.read_bytes())
    await held.refresh()
    await held.refresh()
    broken = held.fault, held.expiries
    ours.issue().over(pair)
    await held.refresh()
    assert broken == (f"server.tls.key_file: {pair.key} does not match {pair.cert}", before)
    assert (held.fault, told.kinds) == ("", ["certificate_not_loaded", "certificate_not_loaded", "certificate_loaded"])
    assert told.news[0][1].endswith("; what was loaded before stays in use")


async def test_files_that_vanish_keep_the_old_pair(tmp_path, ours):
    told, pair = Told(), ours.issue().copy(tmp_path / "mounted")
    held = certificates(pair, told=told)
    pair.cert.unlink()
    await held.refresh()
    assert (told.kinds, held.fault) == (
        ["certificate_not_loaded"],
        f"server.tls.cert_file: {pair.cert} cannot be read (No such file or directory)",
    )


async def test_a_pair_that_expires_in_use_is_told(ours):
    pair = ours.issue(days=1)
    told, now = Told(), [wall()]  # not before the pair was issued: it is not valid yet then
    held = Certificates.load(server_tls(pair), lambda: now[0], told)
    now[0] += 2 * DAY_S
    await held.refresh()
    assert told.kinds == ["certificate_expired"]


async def test_prometheus_sees_expiry_failing_reloads_and_refused_clients(tmp_path, ours):
    pair = ours.issue().copy(tmp_path / "mounted")
    held = certificates(pair)
    pair.cert.unlink()
    await held.refresh()
    held.refused("client_without_tls", "a sentence")
    registry = CollectorRegistry()
    registry.register(OnCertificates(held))
    file = {"file": str(pair.cert)}
    assert (
        registry.get_sample_value("slo_scaler_certificate_expiry_timestamp_seconds", file),
        registry.get_sample_value("slo_scaler_certificate_reload_failing"),
        registry.get_sample_value("slo_scaler_tls_refused_total", {"kind": "client_without_tls"}),
    ) == (held.expiries[str(pair.cert)], 1.0, 1.0)


@pytest.mark.parametrize("days", [1, 20_000], ids=["two-digit-years", "four-digit-years"])
def test_the_days_of_a_certificate_are_read_whatever_the_form_of_its_years(ours, days):
    period = validity(blocks(ours.issue(days=days).cert.read_bytes())[0])
    now = datetime.now(UTC).timestamp()
    assert (round((period.not_before - now) / DAY_S), round((period.not_after - now) / DAY_S)) == (0, days)


@given(DER)
def test_what_is_no_certificate_is_refused_and_never_more_than_that(junk):
    (block,) = blocks(DER_cert_to_PEM_cert(junk).encode())
    with pytest.raises(ValueError, match=r".*"):
        validity(block)
