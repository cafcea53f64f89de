"""The part of the OpenAI API that load generators and gateways use, as values. Pure.

The text of an answer means nothing; its number of tokens is what was asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHARACTERS_PER_TOKEN = 4
DEFAULT_TOKENS = 16
"""What OpenAI's completions default to; vLLM's chat would go on to the end of the context."""
WORD = " token"
DONE = b"data: [DONE]\n\n"


class BadRequest(Exception):
    """The client must change the request; the message says how."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as understood. ``usage`` asks for a last chunk with the token counts."""

    chat: bool
    prompt_tokens: int
    output_tokens: int
    stream: bool
    usage: bool


def parse(body: bytes, model: str, *, chat: bool) -> Ask:
    """The request in a body. Raises BadRequest."""
    try:
        given = json.loads(body)
    except ValueError:
        raise BadRequest("the body must be JSON") from None
    if not isinstance(given, Mapping):
        raise BadRequest("the body must be a JSON object")
    if given.get("model", model) != model:
        raise BadRequest(f"model: only {model} is served here")
    chosen = given.get("max_completion_tokens", given.get("max_tokens"))
    tokens = DEFAULT_TOKENS if chosen is None else chosen
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise BadRequest("max_tokens: a whole number of at least 1")
    options = given.get("stream_options")
    usage = isinstance(options, Mapping) and options.get("include_usage") is True
    prompt = _chat_tokens(given) if chat else _prompt_tokens(given)
    return Ask(chat, prompt, tokens, given.get("stream") is True, usage)


def chunk(ask: Ask, request_id: str, model: str, tokens: int, *, finished: bool) -> bytes:
    """A server-sent event with that many more tokens; the one that is ``finished`` says why it ended."""
    text: dict[str, Any] = {"delta": {"content": WORD * tokens}} if ask.chat else {"text": WORD * tokens}
    choice = {"index": 0, **text, "logprobs": None, "finish_reason": "length" if finished else None}
    return _event(_envelope(ask, request_id, model, chunked=True) | {"choices": [choice]})


def usage_chunk(ask: Ask, request_id: str, model: str) -> bytes:
    """The server-sent event with the token counts, which follows the last token."""
    return _event(_envelope(ask, request_id, model, chunked=True) | {"choices": [], "usage": _usage(ask)})


def answer(ask: Ask, request_id: str, model: str) -> dict[str, Any]:
    """The whole answer of a request that does not stream."""
    text = WORD * ask.output_tokens
    said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if ask.chat else {"text": text}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": "length"}
    return _envelope(ask, request_id, model, chunked=False) | {"choices": [choice], "usage": _usage(ask)}


def error(message: str, status: int) -> dict[str, Any]:
    """The body of an error answer."""
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}


def models(model: str) -> dict[str, Any]:
    """The answer of ``/v1/models``."""
    return {"object": "list", "data": [{"id": model, "object": "model", "owned_by": "emulated"}]}


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def _envelope(ask: Ask, request_id: str, model: str, *, chunked: bool) -> dict[str, Any]:
    kind = ("chat.completion" + (".chunk" if chunked else "")) if ask.chat else "text_completion"
    return {"id": f"{'chatcmpl' if ask.chat else 'cmpl'}-{request_id}", "object": kind, "created": 0, "model": model}


def _usage(ask: Ask) -> dict[str, int]:
    prompt, output = ask.prompt_tokens, ask.output_tokens
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _prompt_tokens(given: Mapping[str, Any]) -> int:
    prompt = given.get("prompt")
    if isinstance(prompt, str):
        return _tokens(prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return len(prompt)
    raise BadRequest("prompt: a text, or a list of token numbers")


def _chat_tokens(given: Mapping[str, Any]) -> int:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, Mapping) for m in messages):
        raise BadRequest("messages: a list of at least one message")
    return sum(_tokens(str(message.get("content", ""))) for message in messages)


def _tokens(text: str) -> int:
    return max(1, math.ceil(len(text) / CHARACTERS_PER_TOKEN))
