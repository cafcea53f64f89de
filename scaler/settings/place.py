"""Where the process runs: inside a Kubernetes cluster, beside one, or without any; and where its state may be kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scaler.errors import ConfigError
from scaler.settings.process import ENVIRONMENT_PREFIX

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet puts the credentials of a pod that has any. A pod without them (``automountServiceAccountToken: false``) has no cluster."""
SERVICE = "slo-scaler"


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A cluster to talk to, and who we are in it. ``kubeconfig`` None: as the service account of our own pod.

    ``uid`` tells a pod from an earlier one of the same name; empty where the downward API does not give it.
    """

    namespace: str
    pod: str
    uid: str = ""
    service: str = SERVICE
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """``kubernetes`` is None without a cluster; ``state_dir`` is where state is then kept, None for nowhere."""

    kubernetes: Kubernetes | None = None
    state_dir: Path | None = None


def read_place(environment: Mapping[str, str] | None = None, account: Path = ACCOUNT) -> Place:
    """The place from ``SLO_SCALER_{KUBECONFIG,POD_NAMESPACE,POD_NAME,POD_UID,SERVICE,STATE_DIR}`` and the pod's own credentials.

    Raises ConfigError.
    """
    given = os.environ if environment is None else environment
    kubeconfig, state_dir = _path(given, "KUBECONFIG"), _path(given, "STATE_DIR")
    if kubeconfig is None and not (account / "token").exists():
        return Place(state_dir=state_dir)
    if state_dir is not None:
        raise ConfigError(
            f"{ENVIRONMENT_PREFIX}STATE_DIR: of no use in a cluster, where ConfigMaps keep the state; unset it"
        )
    return Place(
        Kubernetes(
            namespace=_required(given, "POD_NAMESPACE", _own_namespace(account)),
            pod=_required(given, "POD_NAME", given.get("HOSTNAME")),
            uid=given.get(f"{ENVIRONMENT_PREFIX}POD_UID", ""),
            service=given.get(f"{ENVIRONMENT_PREFIX}SERVICE", SERVICE),
            kubeconfig=kubeconfig,
        )
    )


def _path(given: Mapping[str, str], name: str) -> Path | None:
    text = given.get(ENVIRONMENT_PREFIX + name)
    return Path(text) if text else None


def _own_namespace(account: Path) -> str | None:
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _required(given: Mapping[str, str], name: str, otherwise: str | None) -> str:
    value = given.get(ENVIRONMENT_PREFIX + name) or otherwise
    if not value:
        raise ConfigError(
            f"{ENVIRONMENT_PREFIX}{name}: required in a cluster; the downward API gives it (see manifests/base)"
        )
    return value
