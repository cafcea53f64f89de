"""Whose token it is, by a TokenReview: the API server knows, also whether the pod that it was made for still exists."""

from __future__ import annotations

import re

from scaler.cluster.api import Api, ApiError, Forbidden
from scaler.cluster.fields import mapping, text, texts

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
AUDIENCE = "slo-scaler"
"""A token that was made for anybody else, as the one that every pod has for the API server, must not be shown to us, and is not taken."""
UNGRANTED = (
    'tokens cannot be reviewed: grant it to the scaler\'s ServiceAccount by a ClusterRole with apiGroups ["authentication.k8s.io"], '
    'resources ["tokenreviews"], verbs ["create"] (manifests/components/token-review)'
)
_ACCOUNT = re.compile(
    r"system:serviceaccount:([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?):([a-z0-9][-a-z0-9.]{0,252})", re.ASCII
)


async def account_of(api: Api, token: str) -> str | None:
    """The ServiceAccount of a token as namespace/name; None when the token is not good, or nobody's of these. Raises ApiError."""
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    try:
        status = mapping(await api.create(PATH, asked), "status")
    except Forbidden:  # in our own words, also below: an admission's could repeat what it was asked about
        raise Forbidden(UNGRANTED) from None
    except ApiError as error:
        raise type(error)("tokens cannot be reviewed: the API server gave no answer that counts") from None
    user = _ACCOUNT.fullmatch(text(status, "user", "username"))
    if status.get("authenticated") is not True or AUDIENCE not in texts(status, "audiences") or user is None:
        return None
    return f"{user[1]}/{user[3]}"
