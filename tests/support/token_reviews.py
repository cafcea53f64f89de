"""The stand-in for the API server, with TokenReviews: it knows whose each token is and for which audience it was made."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.discovery import KINDS
from tests.support.kubernetes_api import KubernetesApi
from tests.support.kubernetes_objects import Place, Refused, Resource

TOKEN_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)


@dataclass(eq=False)
class ReviewingApi(KubernetesApi):
    """``users``: the user name of each good token.

    ``audience``: whom they were all made for. ``code``: the status of a refusal that repeats the token."""

    users: dict[str, str] = field(default_factory=dict)
    audience: str = "slo-scaler"
    code: int = 0
    resources: list[Resource] = field(default_factory=lambda: [*KINDS, TOKEN_REVIEWS])

    def create(self, place: Place, body: Any) -> Any:
        if place.resource is not TOKEN_REVIEWS:
            return super().create(place, body)
        if self.code:
            raise Refused(self.code, f"webhook denied {body['spec']['token']}")
        user = self.users.get(body["spec"]["token"])
        if user is None or self.audience not in body["spec"]["audiences"]:
            return {**body, "status": {"authenticated": False, "error": "token is not for you"}}
        status = {"authenticated": True, "audiences": [self.audience], "user": {"username": user}}
        return {**body, "status": status}
