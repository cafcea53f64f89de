"""The admitted sequences of one engine and the KV tokens that they hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from heapq import heappop, heappush

from scaler.sim.values import EngineLimits, Request, RequestId

NEVER = -1


class Sequence:
    """One request inside an engine. Mutable, owned by a replica."""

    __slots__ = (
        "entered_at",
        "first_token_at",
        "generated",
        "last_step",
        "ordinal",
        "request",
        "reserved",
        "scheduled_at",
        "to_prefill",
    )

    def __init__(self, request: Request, ordinal: int, entered_at: float) -> None:
        """It enters the engine's queue at ``entered_at``."""
        self.request = request
        self.ordinal = ordinal
        self.entered_at = entered_at
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.generated = 0  # output tokens; while decoding, those it had when it started to
        self.to_prefill = request.prompt_tokens
        self.reserved = 0  # KV tokens while in prefill
        self.last_step = NEVER  # the decode step that gives the last token, while decoding

    @property
    def decoding(self) -> bool:
        """Whether it gets a token in every step."""
        return self.last_step != NEVER


Chunks = Collection[tuple[Sequence, int]]
"""Prompts in one step, with how many tokens of each."""


class Batch:
    """Who runs, in order of admission, and when each is done. Mutable, owned by a replica.

    Every decoding sequence gets one token in every step, so one counter of decode steps serves all, and a heap keyed
    by it knows the next that is done.
    """

    __slots__ = ("_decode_steps", "_last_tokens", "_running", "context", "decoding", "partial", "reserved", "size")

    def __init__(self) -> None:
        """Nobody."""
        self.size = 0  # sequences running, those in prefill included
        self.decoding = 0
        self.context = 0  # KV tokens that the decoding sequences need in their next step
        self.reserved = 0  # KV tokens of those in prefill: a prompt is reserved whole
        self.partial: Sequence | None = None  # at most one, the last: a prompt is cut where the token budget ends
        self._decode_steps = 0
        self._last_tokens: list[tuple[int, int, Sequence]] = []
        self._running: dict[RequestId, Sequence] = {}

    def __contains__(self, sequence: Sequence) -> bool:
        """Whether it runs."""
        return sequence.request.id in self._running

    @property
    def kv_tokens(self) -> int:
        """KV tokens needed for the next step."""
        return self.context + self.reserved

    @property
    def steps_to_next_finish(self) -> int:
        """Decode steps until the next sequence is done; somebody must be decoding."""
        heap = self._last_tokens
        while heap[0][0] != heap[0][2].last_step:  # preempted or cancelled since
            heappop(heap)
        return heap[0][0] - self._decode_steps

    def generated(self, sequence: Sequence) -> int:
        """Output tokens so far, as of the last step credited."""
        if not sequence.decoding:
            return sequence.generated
        return sequence.request.output_tokens - (sequence.last_step - self._decode_steps)

    def admit(self, sequence: Sequence) -> None:
        """Start to prefill: its prompt, and after a preemption what it had generated."""
        self._running[sequence.request.id] = sequence
        self.size += 1
        sequence.reserved = sequence.to_prefill
        self.reserved += sequence.reserved

    def prefill(self, waiting: deque[Sequence], limits: EngineLimits, at: float) -> Chunks:
        """The prefill of the next step: first the prompt under way, then whoever of those waiting can be admitted ``at`` its start."""
        budget = limits.token_budget - self.decoding
        chunks: list[tuple[Sequence, int]] = []
        if self.partial is not None:
            chunks.append((self.partial, min(self.partial.to_prefill, budget)))
            budget -= chunks[0][1]
        free = limits.kv_tokens - self.kv_tokens
        while waiting and budget > 0 and self.size < limits.max_num_seqs and waiting[0].to_prefill <= free:
            sequence = waiting.popleft()
            if sequence.scheduled_at is None:
                sequence.scheduled_at = at
            self.admit(sequence)
            free -= sequence.to_prefill
            chunks.append((sequence, min(sequence.to_prefill, budget)))
            budget -= chunks[-1][1]
        return chunks

    def prefilled(self, sequence: Sequence, tokens: int) -> bool:
        """Credit a chunk; True when that was the last, whose step also gives an output token."""
        sequence.to_prefill -= tokens
        if sequence.to_prefill:
            self.partial = sequence
            return False
        sequence.generated += 1
        if sequence.generated < sequence.request.output_tokens:
            self.reserved -= sequence.reserved
            self.context += sequence.reserved + 1
            self.decoding += 1
            sequence.reserved = 0
            sequence.last_step = self._decode_steps + sequence.request.output_tokens - sequence.generated
            heappush(self._last_tokens, (sequence.last_step, sequence.ordinal, sequence))
        return True

    def decoded(self, steps: int) -> int:
        """Credit that many decode steps to everybody who decodes; the tokens that they gave."""
        tokens = steps * self.decoding
        self._decode_steps += steps
        self.context += tokens
        return tokens

    def take_done(self) -> Collection[Sequence]:
        """Remove those whose last token has been credited, in the order in which they arrived."""
        heap = self._last_tokens
        if not heap or heap[0][0] > self._decode_steps:
            return ()
        done: list[Sequence] = []
        while heap and heap[0][0] <= self._decode_steps:
            last_step, _, sequence = heappop(heap)
            if sequence.last_step == last_step:
                self.remove(sequence)
                done.append(sequence)
        return done

    def remove(self, sequence: Sequence) -> None:
        """Give back its slot and its KV; what it generated is noted on it."""
        request = sequence.request
        del self._running[request.id]
        self.size -= 1
        if sequence.last_step != NEVER:
            sequence.generated = request.output_tokens - (sequence.last_step - self._decode_steps)
            sequence.last_step = NEVER
            self.decoding -= 1
            self.context -= request.prompt_tokens + sequence.generated
        self.reserved -= sequence.reserved
        sequence.reserved = 0
        if self.partial is sequence:
            self.partial = None

    def preempt(self) -> Sequence:
        """Remove the last admitted, to be computed anew from its first token."""
        sequence = self._running[next(reversed(self._running))]
        self.remove(sequence)
        sequence.to_prefill = sequence.request.prompt_tokens + sequence.generated
        return sequence
