"""What a replica says of itself before it is tested."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException

from scaler.calibration.testers import Traffic, public
from scaler.errors import ConfigError

TIMEOUT_S = 10.0


def look_at(traffic: Traffic) -> None:
    """Whether it answers and has the model. Raises ConfigError; a load tester would say neither before its last request.

    An endpoint that answers and does not list its models, or not to us, is left to the load tester.
    """
    headers = {} if traffic.api_key is None else {"Authorization": f"Bearer {traffic.api_key}"}
    try:
        request = urllib.request.Request(f"{traffic.url}/v1/models", headers=headers)  # noqa: S310 - http or https, which base_url saw to
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - likewise
            served = _served(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        without_key = traffic.api_key is None and public(traffic.extra) == traffic.extra
        if error.code == HTTPStatus.UNAUTHORIZED and without_key:
            raise ConfigError(f"--run: {traffic.url} wants a key; put it into OPENAI_API_KEY") from None
        return
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(f"--run: {traffic.url} cannot be reached: {reason}") from None
    if served and traffic.model not in served:
        raise ConfigError(f"--model: {traffic.url} serves {', '.join(served)}; give one of these")


def base_url(given: str) -> str:
    """The address without ``/v1``, which load testers add. Raises ConfigError."""
    if not given.startswith(("http://", "https://")):
        raise ConfigError("--run: an address that begins with http:// or https:// is needed")
    return given.rstrip("/").removesuffix("/v1")


def _served(body: bytes) -> list[str]:
    """The models of a ``/v1/models`` page; none where it is something else."""
    try:
        return [model["id"] for model in json.loads(body)["data"] if isinstance(model["id"], str)]
    except (ValueError, TypeError, KeyError):
        return []
