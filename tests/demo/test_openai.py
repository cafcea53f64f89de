"""What an emulated replica understands of the OpenAI API, and how it answers."""

import json

import pytest

from scaler.demo.openai import Ask, BadRequest, answer, chunk, parse, usage_chunk

MODEL = "demo-llm"


def body(**given) -> bytes:
    return json.dumps(given).encode()


@pytest.mark.parametrize(
    ("given", "chat", "ask"),
    [
        pytest.param({"prompt": "x" * 9}, False, Ask(False, 3, 16, False, False), id="defaults"),
        pytest.param({"prompt": [7, 8], "max_tokens": 5}, False, Ask(False, 2, 5, False, False), id="token numbers"),
        pytest.param(
            {"prompt": "x", "stream": True, "stream_options": {"include_usage": True}, "model": MODEL},
            False,
            Ask(False, 1, 16, True, True),
            id="streaming with usage",
        ),
        pytest.param(
            {"messages": [{"content": "x" * 8}, {"content": "y"}], "max_completion_tokens": 3},
            True,
            Ask(True, 3, 3, False, False),
            id="chat",
        ),
    ],
)
def test_a_request_is_understood(given, chat, ask) -> None:
    assert parse(body(**given), MODEL, chat=chat) == ask


@pytest.mark.parametrize(
    ("given", "chat", "complaint"),
    [
        pytest.param(b"{", False, "JSON", id="no JSON"),
        pytest.param(b"[]", False, "object", id="no object"),
        pytest.param(body(prompt="x", model="other"), False, "model", id="another model"),
        pytest.param(body(), False, "prompt", id="no prompt"),
        pytest.param(body(prompt=[]), False, "prompt", id="an empty list of tokens"),
        pytest.param(body(prompt="x", max_tokens=0), False, "max_tokens", id="no tokens"),
        pytest.param(body(prompt="x", max_tokens=True), False, "max_tokens", id="a truth for a number"),
        pytest.param(body(messages=[]), True, "messages", id="no messages"),
        pytest.param(body(messages=["x"]), True, "messages", id="messages that are none"),
    ],
)
def test_a_request_that_cannot_be_served_says_what_to_change(given, chat, complaint) -> None:
    with pytest.raises(BadRequest, match=complaint):
        parse(given, MODEL, chat=chat)


def test_a_chunk_is_one_server_sent_event() -> None:
    event = chunk(Ask(False, 1, 5, True, False), "7", MODEL, 2, finished=False)
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    told = json.loads(event.removeprefix(b"data: "))
    assert told["object"] == "text_completion"
    assert told["choices"] == [{"index": 0, "text": " token token", "logprobs": None, "finish_reason": None}]


def test_the_last_chunk_of_a_chat_says_why_it_ended() -> None:
    told = json.loads(chunk(Ask(True, 1, 5, True, False), "7", MODEL, 1, finished=True).removeprefix(b"data: "))
    assert told["object"] == "chat.completion.chunk"
    assert told["choices"][0]["delta"] == {"content": " token"}
    assert told["choices"][0]["finish_reason"] == "length"


def test_usage_counts_the_tokens_of_both_sides() -> None:
    ask = Ask(True, 4, 5, False, True)
    usage = {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}
    assert answer(ask, "7", MODEL)["usage"] == usage
    assert json.loads(usage_chunk(ask, "7", MODEL).removeprefix(b"data: "))["usage"] == usage
