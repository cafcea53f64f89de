"""One engine replica with vLLM's V1 scheduler: tell it what arrives, ask it what happened up to now.

Engine steps between two events differ only by the growth of the context, so they are taken as one span whose times have
a closed form; nothing loops over tokens. How often the owner asks changes nothing: where a span starts and ends depends
on what was submitted and cancelled alone.
"""

from __future__ import annotations

from collections import deque

from scaler.core.model import Reading
from scaler.sim.batch import Batch, Sequence
from scaler.sim.meters import Meters
from scaler.sim.span import Span
from scaler.sim.values import (
    Coefficients,
    Counters,
    EngineLimits,
    Event,
    Finished,
    FirstToken,
    Preempted,
    Request,
    RequestId,
)


class Replica:
    """A mutable simulated engine with one owner, who passes times that never go back. All that it hands out is frozen.

    A request is *entering* (in the API server for ``overhead_s``, shown by no gauge), *waiting*, then *running*.
    Admission is first come, first served while sequences, token budget and KV allow; the whole prompt must fit into the
    KV cache, as in vLLM 0.19 (``scheduler_reserve_full_isl``). When the decoding sequences outgrow the cache, the last
    admitted is preempted and recomputed later, prompt and output.
    """

    def __init__(self, coefficients: Coefficients, limits: EngineLimits, started_at: float = 0.0) -> None:
        """An idle engine at ``started_at`` seconds of the owner's clock."""
        self._cost = coefficients
        self._limits = limits
        self._now = started_at
        self._boundary_at = started_at  # the end of the last complete step, before which none can start
        self._span: Span | None = None  # the steps under way
        self._live: dict[RequestId, Sequence] = {}
        self._entering: deque[Sequence] = deque()
        self._waiting: deque[Sequence] = deque()
        self._batch = Batch()
        self._events: list[Event] = []
        self._meters = Meters()
        self._submitted = self._cancelled = self._finished = self._first_tokens = 0
        self._preemptions = self._prompt_tokens = self._generation_tokens = 0

    def submit(self, request: Request, now: float) -> None:
        """Take in a request at ``now``. ValueError: a live id again, no tokens, or more than the KV cache holds."""
        if request.id in self._live:
            raise ValueError(f"request {request.id!r} is already here")
        prompt, output = request.prompt_tokens, request.output_tokens
        if prompt < 1 or output < 1 or prompt + output > self._limits.kv_tokens:
            raise ValueError(f"prompt and output need a token each, and at most {self._limits.kv_tokens} together")
        self._pass_time(now)
        self._submitted += 1
        sequence = Sequence(request, self._submitted, now + self._cost.overhead_s)
        self._live[request.id] = sequence
        self._entering.append(sequence)
        if self._span is not None:
            self._stop_for_arrival(self._span)

    def retime(self, coefficients: Coefficients, now: float) -> None:
        """Steps that begin after ``now`` take this long."""
        self._pass_time(now)
        self._interrupt(now)
        self._cost = coefficients

    def cancel(self, request_id: RequestId, now: float) -> bool:
        """The client went away at ``now``: forget its request; False if it is not here. As in vLLM, no event tells.

        What it held is free at once; the step under way still takes its time.
        """
        self._pass_time(now)
        sequence = self._live.pop(request_id, None)
        if sequence is None:
            return False
        self._cancelled += 1
        self._interrupt(now)
        if sequence in self._batch:
            self._batch.remove(sequence)
        else:
            (self._waiting if sequence.entered_at <= now else self._entering).remove(sequence)
        return True

    def advance(self, now: float) -> tuple[Event, ...]:
        """Let time pass until ``now``: the events since the last call, in order of time. ValueError if it went back."""
        self._pass_time(now)
        if not self._events:
            return ()
        events = tuple(self._events)
        self._events.clear()
        return events

    def next_event_at(self) -> float | None:
        """When to ask again, in seconds: never later than the next first token or finish; None while idle."""
        if self._events:
            return self._now
        if (span := self._span) is not None:
            return span.end + self._cost.a_s if span.early else span.end
        start = self._next_start()
        return None if start is None else start + self._cost.a_s

    @property
    def ongoing(self) -> int:
        """Requests here: entering, waiting and running."""
        return len(self._live)

    @property
    def entering(self) -> int:
        """Requests still in the API server, which no gauge of an engine shows."""
        return len(self._entering)

    @property
    def waiting(self) -> int:
        """Requests in the engine's queue, the preempted included."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences admitted, those in prefill included."""
        return self._batch.size

    @property
    def kv_tokens(self) -> int:
        """KV tokens held: never more than the limit. A prompt is held whole from its admission."""
        batch = self._batch
        if self._span is None:  # the next step has not taken its tokens yet
            return batch.kv_tokens - batch.decoding
        return batch.kv_tokens + self._steps_under_way() * batch.decoding

    @property
    def kv_usage_ratio(self) -> float:
        """KV tokens held over those that there are, 0..1."""
        return self.kv_tokens / self._limits.kv_tokens

    @property
    def counters(self) -> Counters:
        """All that was counted up to the last time passed in."""
        return Counters(
            submitted=self._submitted,
            cancelled=self._cancelled,
            finished=self._finished,
            first_tokens=self._first_tokens,
            preemptions=self._preemptions,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens + self._steps_under_way() * self._batch.decoding,
        )

    def generated(self, request_id: RequestId) -> int:
        """Output tokens so far of a request that is here, for streaming. KeyError once it is finished or cancelled."""
        sequence = self._live[request_id]
        return self._batch.generated(sequence) + (self._steps_under_way() if sequence.decoding else 0)

    def reading(self, replica: str, now: float) -> Reading:
        """What a scrape at ``now`` says, under the name ``replica``. Events stay for the next ``advance``.

        TPOT is the mean of each finished request, as in load tests and ``vllm:request_time_per_output_token_seconds``.
        """
        self._pass_time(now)
        counters, meters = self.counters, self._meters
        return Reading(
            replica=replica,
            observed_at=now,
            running=float(self.running),
            waiting=float(self.waiting),
            kv_usage_ratio=self.kv_usage_ratio,
            prompt_tokens_total=float(counters.prompt_tokens),
            generation_tokens_total=float(counters.generation_tokens),
            preemptions_total=float(counters.preemptions),
            rejections_total=0.0,  # an engine without an admission limit queues instead
            ttft=meters.ttft.read(),
            tpot=meters.tpot.read(),
            queue_time=meters.queue_time.read(),
            prompt_tokens=meters.prompt_tokens.read(),
            output_tokens=meters.output_tokens.read(),
        )

    def _steps_under_way(self) -> int:
        return 0 if self._span is None else self._span.steps_by(self._now)

    def _pass_time(self, now: float) -> None:
        if now < self._now:
            raise ValueError(f"time went back from {self._now} to {now}")
        span = self._span or self._start_span(now)
        while span is not None and span.end <= now:
            self._complete(span)
            span = self._start_span(now)
        if self._entering:
            self._enter(now)
        self._now = now

    def _enter(self, at: float) -> None:
        entering = self._entering
        while entering and entering[0].entered_at <= at:
            self._waiting.append(entering.popleft())

    def _next_start(self) -> float | None:
        """When the next step starts if none is under way; None without work."""
        if self._batch.size:
            return self._boundary_at
        queue = self._waiting or self._entering
        return max(self._boundary_at, queue[0].entered_at) if queue else None

    def _start_span(self, now: float) -> Span | None:
        """Schedule the next step, once time has passed its start: until then, more may arrive at that very instant."""
        batch, cost = self._batch, self._cost
        start = self._boundary_at if batch.size else self._next_start()
        if start is None or start >= now:
            return None
        if self._entering:
            self._enter(start)
        if batch.context + batch.reserved > self._limits.kv_tokens:
            self._make_room(start)
        decoding = batch.decoding
        first_s = cost.a_s + cost.b_s * decoding + cost.d_s * batch.context
        chunks = batch.prefill(self._waiting, self._limits, start) if self._waiting or batch.partial else ()
        for _, tokens in chunks:
            first_s += cost.b_s + cost.c_s * tokens
        self._span = span = Span(start, first_s, cost.d_s * decoding, chunks)
        if not chunks:
            until_full = (self._limits.kv_tokens - batch.context) // decoding + 1
            span.extend(min(batch.steps_to_next_finish, until_full))
            if self._entering:
                self._stop_for_arrival(span)
        return span

    def _make_room(self, at: float) -> None:
        """Preempt the last admitted until the next step fits; each then needs more than is free, so it stays out."""
        batch = self._batch
        while batch.kv_tokens > self._limits.kv_tokens:
            sequence = batch.preempt()
            self._waiting.appendleft(sequence)
            self._preemptions += 1
            self._events.append(Preempted(sequence.request.id, at))

    def _stop_for_arrival(self, span: Span) -> None:
        """End a span where the next arrival could be admitted. While others wait, what blocks them lasts as long."""
        if self._entering and not self._waiting and self._batch.size < self._limits.max_num_seqs:
            span.stop_at(self._entering[0].entered_at)

    def _interrupt(self, now: float) -> None:
        """Credit what is done, so that somebody else may be admitted after the step under way, or in the one that would start now."""
        if (span := self._span) is None:
            return
        done = span.steps_by(now)
        if done and span.boundary(done) == now:
            span.extend(done)
            self._complete(span)
        else:
            self._generation_tokens += self._batch.decoded(span.cut(now))

    def _complete(self, span: Span) -> None:
        """Credit a whole span: first tokens, then those that are done."""
        self._span = None
        self._boundary_at = at = span.end
        batch = self._batch
        self._generation_tokens += batch.decoded(span.steps)
        if span.chunks:
            batch.partial = None
            for sequence, tokens in span.chunks:
                # Nothing is reserved if it was cancelled meanwhile.
                if sequence.reserved and batch.prefilled(sequence, tokens):
                    self._token_after_prefill(sequence, at)
        for sequence in batch.take_done():
            self._finish(sequence, at)

    def _token_after_prefill(self, sequence: Sequence, at: float) -> None:
        self._generation_tokens += 1
        request = sequence.request
        if sequence.first_token_at is None:
            sequence.first_token_at = at
            ttft_s = at - request.arrived_at
            self._first_tokens += 1
            self._prompt_tokens += request.prompt_tokens
            self._meters.ttft.observe(ttft_s)
            self._events.append(FirstToken(request.id, at, ttft_s))
        if sequence.generated == request.output_tokens:
            self._batch.remove(sequence)
            self._finish(sequence, at)

    def _finish(self, sequence: Sequence, at: float) -> None:
        request = sequence.request
        del self._live[request.id]
        self._finished += 1
        scheduled_at, first_token_at = sequence.scheduled_at, sequence.first_token_at
        if scheduled_at is None or first_token_at is None:
            raise AssertionError("a request cannot finish before it started")
        queue_wait_s = scheduled_at - sequence.entered_at
        tpot_s = (at - first_token_at) / (request.output_tokens - 1) if request.output_tokens > 1 else None
        self._meters.finished(request, queue_wait_s, tpot_s)
        ttft_s, e2e_s = first_token_at - request.arrived_at, at - request.arrived_at
        self._events.append(Finished(request.id, at, ttft_s, tpot_s, queue_wait_s, e2e_s))
