"""What a call may bring: who is meant, in Kubernetes' own terms, and as much metadata as a trigger has use for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError, ScalerError

if TYPE_CHECKING:
    from scaler.pb import externalscaler_pb2 as pb

LONGEST_MESSAGE_BYTES = 64 * 1024
MOST_KEYS, LONGEST_KEY, LONGEST_VALUE_BYTES = 64, 128, 4096
LONGEST_NAMESPACE, LONGEST_NAME = 63, 253
"""Kubernetes' own: a namespace is a DNS-1123 label, the name of a ScaledObject a DNS-1123 subdomain."""
MOST_FAULTS, LONGEST_DETAILS_BYTES = 10, 1000
"""The details travel percent-encoded in a header and end in a Kubernetes Event: 8 KiB and 1 KiB are their limits."""
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def checked(ref: pb.ScaledObjectRef) -> WorkloadKey:
    """Whom the ref means. Raises ConfigError for what no ScaledObject can be, before anything of it is parsed."""
    faults = []
    if not (len(ref.namespace) <= LONGEST_NAMESPACE and _NAMESPACE.fullmatch(ref.namespace)):
        faults.append(
            f"namespace: required, of at most {LONGEST_NAMESPACE} lower-case letters, digits and '-', as Kubernetes has it"
        )
    if not (len(ref.name) <= LONGEST_NAME and _NAME.fullmatch(ref.name)):
        faults.append(
            f"name: required, of at most {LONGEST_NAME} lower-case letters, digits, '-' and '.', as Kubernetes has it"
        )
    faults += _too_much(ref.scalerMetadata)
    if faults:
        raise ConfigError(*faults)
    return WorkloadKey(ref.namespace, ref.name)


def _too_much(metadata: Mapping[str, str]) -> list[str]:
    if len(metadata) > MOST_KEYS:
        return [f"scalerMetadata: at most {MOST_KEYS} keys"]
    if any(len(key) > LONGEST_KEY for key in metadata):
        return [f"scalerMetadata: a key has at most {LONGEST_KEY} characters"]
    return [
        f"{key}: at most {LONGEST_VALUE_BYTES} bytes"
        for key, value in metadata.items()
        if len(value.encode()) > LONGEST_VALUE_BYTES
    ]


def details(error: ScalerError) -> str:
    """What the caller is told: as many faults as fit, and how many more there are."""
    faults = error.faults if isinstance(error, ConfigError) else (str(error),)
    kept = list(faults[:MOST_FAULTS])
    while len(kept) > 1 and len(_joined(kept, len(faults)).encode()) > LONGEST_DETAILS_BYTES:
        kept.pop()
    return _joined(kept, len(faults)).encode()[:LONGEST_DETAILS_BYTES].decode(errors="ignore")


def _joined(kept: list[str], of: int) -> str:
    return "; ".join(kept + ([f"and {of - len(kept)} more"] if of > len(kept) else []))
