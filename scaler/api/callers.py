"""Who may call on KEDA's port: the names that a client's certificate bears.

TLS has checked by then that the certificate is one of a CA in ``server.tls.client_ca_file``. That CA may have given certificates to others
than KEDA, to gateways for instance, and whoever may call here may introduce workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc.aio

from scaler.errors import NotAllowed

_NAMES = ("x509_common_name", "x509_subject_alternative_name")
STRANGER = "the certificate that was shown bears none of the names in access.keda_names"


def _nobody_listens(_kind: str, _sentence: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class Callers:
    """``names`` are those of the moment, of which a certificate must bear one; none: any certificate will do.

    ``refused`` is told, as (kind, sentence), of each call that is turned away.
    """

    names: Callable[[], frozenset[str]] = frozenset
    refused: Callable[[str, str], None] = _nobody_listens

    def check(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Raises NotAllowed. The certificate's own names are told to nobody: they are a stranger's words."""
        names = self.names()
        if names and names.isdisjoint(_borne(context)):
            self.refused("client_name_not_allowed", f"a client of KEDA's port was turned away: {STRANGER}")
            raise NotAllowed(STRANGER)


def _borne(context: grpc.aio.ServicerContext[Any, Any]) -> set[str]:
    shown = context.auth_context()
    return {name.decode(errors="replace") for kind in _NAMES for name in shown.get(kind, ())}
