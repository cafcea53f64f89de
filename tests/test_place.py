from pathlib import Path

import pytest

from scaler.errors import ConfigError
from scaler.settings import Kubernetes, Place, read_place


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What kubelet mounts into a pod."""
    (tmp_path / "token").write_text("a token")
    (tmp_path / "namespace").write_text("slo-scaler\n")
    return tmp_path


def test_without_credentials_there_is_no_cluster(tmp_path: Path):
    assert read_place({"HOSTNAME": "laptop"}, tmp_path) == Place()


def test_outside_of_a_cluster_state_may_be_kept_in_a_directory(tmp_path: Path):
    assert read_place({"SLO_SCALER_STATE_DIR": "/var/lib/slo-scaler"}, tmp_path) == Place(
        state_dir=Path("/var/lib/slo-scaler")
    )


def test_a_pod_with_credentials_knows_its_name_and_namespace(account: Path):
    assert read_place({"HOSTNAME": "slo-scaler-7f"}, account) == Place(Kubernetes("slo-scaler", "slo-scaler-7f"))


def test_what_the_downward_api_says_counts_before_what_can_be_guessed(account: Path):
    given = {
        "HOSTNAME": "node-1",
        "SLO_SCALER_POD_NAME": "slo-scaler-7f",
        "SLO_SCALER_POD_NAMESPACE": "autoscaling",
        "SLO_SCALER_POD_UID": "c1d4",
        "SLO_SCALER_SERVICE": "llm-scaler",
    }
    assert read_place(given, account) == Place(Kubernetes("autoscaling", "slo-scaler-7f", "c1d4", "llm-scaler"))


def test_a_kubeconfig_reaches_a_cluster_from_outside(tmp_path: Path):
    given = {"SLO_SCALER_KUBECONFIG": "/k", "SLO_SCALER_POD_NAME": "me", "SLO_SCALER_POD_NAMESPACE": "here"}
    assert read_place(given, tmp_path) == Place(Kubernetes("here", "me", kubeconfig=Path("/k")))


@pytest.mark.parametrize("key", ["POD_NAME", "POD_NAMESPACE"])
def test_who_we_are_in_a_cluster_must_be_known(key: str, tmp_path: Path):
    given = {"SLO_SCALER_KUBECONFIG": "/k", "SLO_SCALER_POD_NAME": "me", "SLO_SCALER_POD_NAMESPACE": "here"}
    del given[f"SLO_SCALER_{key}"]
    with pytest.raises(ConfigError, match=f"SLO_SCALER_{key}: required in a cluster"):
        read_place(given, tmp_path)


def test_a_directory_for_state_is_refused_in_a_cluster(account: Path):
    with pytest.raises(ConfigError, match="SLO_SCALER_STATE_DIR: of no use in a cluster"):
        read_place({"HOSTNAME": "p", "SLO_SCALER_STATE_DIR": "/s"}, account)
