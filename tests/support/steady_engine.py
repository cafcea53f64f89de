"""An engine on loopback whose load never changes, while its counters go on."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from tests.support.engines import PageEngine

PAGE = """\
vllm:num_requests_running{{engine="0",model_name="llama"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="llama"}} 0
vllm:generation_tokens_total{{engine="0",model_name="llama"}} {tokens}
vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="llama",le="0.25"}} {started}
vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="llama",le="+Inf"}} {started}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="llama"}} {started}
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="llama"}} {seconds}
"""
TOKENS, TTFT_S = 200, 0.1


@dataclass(kw_only=True)
class SteadyEngine(PageEngine):
    """``rate_per_s`` requests begin a second and ``running`` are under way."""

    clock: Callable[[], float]
    running: int
    rate_per_s: float

    def __post_init__(self) -> None:
        self.since = self.clock()

    async def answer(self, request: web.Request) -> web.Response:
        started = int((self.clock() - self.since) * self.rate_per_s)
        text = PAGE.format(running=self.running, tokens=TOKENS * started, started=started, seconds=TTFT_S * started)
        return web.Response(text=text, content_type="text/plain")
