"""Who we are to an API server: a ServiceAccount with a token that is replaced, a kubeconfig's user, or nobody."""

import json
import random
from contextlib import aclosing
from pathlib import Path

import pytest

from scaler.cluster.api import ApiError, Forbidden, Unreachable
from scaler.cluster.client import Client
from scaler.errors import ConfigError
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.tls import Authority, server_context

PODS = "/api/v1/namespaces/prod/pods"
RNG = random.Random(7)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("kubernetes") / "authority")


@pytest.fixture
def account(tmp_path, authority) -> Path:
    """What a kubelet mounts."""
    (tmp_path / "token").write_text("first")
    (tmp_path / "namespace").write_text("scaler\n")
    (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
    return tmp_path


@pytest.fixture
async def api(authority, monkeypatch):
    """One that lets in the token ``first`` over TLS, as the environment of a pod names it."""
    async with kubernetes(KubernetesApi(token="first"), server_context(authority.issue())) as running:
        host, _, port = running.url.removeprefix("https://").partition(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        yield running


async def asked(client: Client) -> str:
    """What became of one call: the class of its error, empty when it was answered."""
    try:
        await client.page(PODS)
    except ApiError as error:
        return type(error).__name__
    return ""


async def test_a_pod_is_its_service_account(api, account):
    async with aclosing(Client.in_cluster(RNG, account=str(account))) as client:
        assert (client.namespace, await asked(client)) == ("scaler", "")


async def test_a_token_that_was_replaced_is_read_again(api, account):
    async with aclosing(Client.in_cluster(RNG, account=str(account))) as client:
        answers = [await asked(client)]
        api.token = "second"
        answers.append(await asked(client))
        (account / "token").write_text("second")
        answers.append(await asked(client))
        watch = client.watch(PODS, str(api.version))
        api.token = "third"
        (account / "token").write_text("third")
        answers.append((await anext(watch)).kind)
        await watch.aclose()
    assert answers == ["", "Forbidden", "", "BOOKMARK"]


async def test_a_token_that_is_gone_is_another_try_later(api, account):
    async with aclosing(Client.in_cluster(RNG, account=str(account))) as client:
        (account / "token").unlink()
        assert await asked(client) == "Unreachable"


async def test_an_api_server_of_another_authority_is_not_told_the_token(api, account, tmp_path):
    (account / "ca.crt").write_bytes(Authority(tmp_path / "other").ca.read_bytes())
    async with aclosing(Client.in_cluster(RNG, account=str(account))) as client:
        with pytest.raises(Unreachable, match="TLS certificate not trusted"):
            await client.page(PODS)
    assert api.requests == []


@pytest.mark.parametrize("missing", ["token", "namespace", "ca.crt"])
async def test_outside_a_cluster_the_remedy_is_said(api, account, missing):
    (account / missing).unlink()
    with pytest.raises(ConfigError, match=r"not in a Kubernetes cluster: .*or name a kubeconfig"):
        Client.in_cluster(RNG, account=str(account))


def test_without_the_environment_of_a_pod_the_remedy_is_said(account, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match=r"not in a Kubernetes cluster: .*KUBERNETES_SERVICE_HOST"):
        Client.in_cluster(RNG, account=str(account))


def kubeconfig(folder: Path, **changes) -> Path:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "first"}}],
        **changes,
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


async def test_a_kubeconfig_names_server_authority_and_user(api, account):
    server = {"server": api.url, "certificate-authority": "ca.crt"}
    path = kubeconfig(account, clusters=[{"name": "c", "cluster": server}])
    async with aclosing(Client.from_kubeconfig(path, RNG)) as client:
        assert (client.namespace, await asked(client)) == ("mine", "")


async def test_a_kubeconfig_may_name_no_user(tmp_path):
    async with kubernetes() as api:
        path = kubeconfig(
            tmp_path,
            contexts=[{"name": "here", "context": {"cluster": "c"}}],
            clusters=[{"name": "c", "cluster": {"server": api.url}}],
        )
        async with aclosing(Client.from_kubeconfig(path, RNG)) as client:
            assert (client.namespace, await asked(client)) == ("default", "")


@pytest.mark.parametrize(
    ("users", "outcome"),
    [
        pytest.param({"token": "wrong"}, Forbidden, id="an old token"),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}}, Unreachable, id="unknown"
        ),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/no/such/plugin"}},
            Unreachable,
            id="a plugin that is not there",
        ),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "echo", "args": ["{}"]}},
            Unreachable,
            id="a plugin that says nothing",
        ),
    ],
)
async def test_credentials_that_do_not_work_are_an_error_of_the_call(tmp_path, users, outcome):
    async with kubernetes(KubernetesApi(token="first")) as api:
        clusters = [{"name": "c", "cluster": {"server": api.url}}]
        path = kubeconfig(tmp_path, clusters=clusters, users=[{"name": "u", "user": users}])
        async with aclosing(Client.from_kubeconfig(path, RNG)) as client:
            with pytest.raises(outcome):
                await client.page(PODS)


@pytest.mark.parametrize(
    "changes",
    [
        {"current-context": None},
        {"current-context": "nowhere"},
        {"clusters": []},
        {"clusters": [{"name": "c"}]},
        {"clusters": [{"name": "c", "cluster": {"server": 3}}]},
        {"clusters": [{"name": "c", "cluster": {"certificate-authority": "/no/such/file"}}]},
        {"clusters": [{"name": "c", "cluster": {"certificate-authority-data": "!"}}]},
        {"users": []},
        {"users": [{"name": "u", "user": {"token": 3}}]},
        {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
        {"contexts": None},
    ],
    ids=str,
)
def test_a_kubeconfig_that_is_none_is_named_with_the_remedy(tmp_path, changes):
    path = kubeconfig(tmp_path, **changes)
    with pytest.raises(ConfigError, match=rf"kubeconfig {path}: .*kubectl config view"):
        Client.from_kubeconfig(path, RNG)


def test_a_kubeconfig_that_is_no_yaml_is_not_quoted(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("users: [{user: {token: secret}")
    with pytest.raises(ConfigError) as caught:
        Client.from_kubeconfig(path, RNG)
    assert str(caught.value) == f"kubeconfig {path}: it is not YAML. Compare `kubectl config view --minify`"


async def test_a_server_without_a_scheme_is_said(tmp_path):
    path = kubeconfig(tmp_path, clusters=[{"name": "c", "cluster": {"server": "127.0.0.1:6443"}}])
    async with aclosing(Client.from_kubeconfig(path, RNG)) as client:
        with pytest.raises(Unreachable, match="'http://' or 'https://'"):
            await client.page(PODS)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named_with_the_remedy(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"kubeconfig {path}: .*kubectl config view"):
        Client.from_kubeconfig(path, RNG)


def test_a_kubeconfig_that_is_not_there_is_named_with_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere: .*not found.*kubectl config view"):
        Client.from_kubeconfig(tmp_path / "nowhere", RNG)
