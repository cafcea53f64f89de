"""The replica model the slow and obvious way: a step at a time, lists, no spans, no heap, all inputs known before."""

from dataclasses import dataclass, field

from scaler.sim import Coefficients, EngineLimits, Event, Finished, FirstToken, Preempted, Request, RequestId


@dataclass
class Job:
    request: Request
    cancelled_at: float
    entered_at: float
    to_prefill: int
    reserved: int = 0
    scheduled_at: float | None = None
    token_times: list[float] = field(default_factory=list)

    @property
    def kv(self) -> int:
        return self.reserved if self.to_prefill else self.request.prompt_tokens + len(self.token_times)

    @property
    def done(self) -> bool:
        return len(self.token_times) == self.request.output_tokens


@dataclass
class NaiveReplica:
    cost: Coefficients
    limits: EngineLimits
    now: float = 0.0
    later: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def simulate(self, requests: list[Request], cancels: dict[RequestId, float]) -> dict[RequestId, list[float]]:
        """Until all is done: when each request got its tokens. Requests arrive in order of time."""
        overhead_s = self.cost.overhead_s
        jobs = [Job(r, cancels.get(r.id, float("inf")), r.arrived_at + overhead_s, r.prompt_tokens) for r in requests]
        self.later = list(jobs)
        while self.later or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, self.later[0].entered_at)
            self._inputs_until(self.now)
            if self.waiting or self.running:
                self._step()
        return {job.request.id: job.token_times for job in jobs}

    def _inputs_until(self, at: float) -> None:
        self.waiting += [job for job in self.later if job.entered_at <= at]
        self.later = [job for job in self.later if job.entered_at > at]
        self.waiting = [job for job in self.waiting if job.cancelled_at > at]
        self.running = [job for job in self.running if job.cancelled_at > at]

    def _step(self) -> None:
        self._preempt()
        chunks = {id(job): 1 for job in self.running if not job.to_prefill}
        budget = self.limits.token_budget - len(chunks)
        context = sum(job.kv for job in self.running if not job.to_prefill)
        decoding = len(chunks)
        for job in [*self.running, *self.waiting]:
            if id(job) in chunks:
                continue
            if job not in self.running and not self._admit(job, budget):
                break
            chunks[id(job)] = min(job.to_prefill, budget)
            budget -= chunks[id(job)]
        prefill = sum(chunks.values()) - decoding
        cost = self.cost
        end = self.now + cost.a_s + cost.b_s * len(chunks) + cost.c_s * prefill + cost.d_s * context
        for job in list(self.running):
            if job.cancelled_at >= end:
                self._take(job, chunks[id(job)], end)
        self.now = end

    def _preempt(self) -> None:
        while sum(job.kv for job in self.running) > self.limits.kv_tokens:
            job = self.running.pop()
            job.to_prefill = job.request.prompt_tokens + len(job.token_times)
            self.waiting.insert(0, job)
            self.events.append(Preempted(job.request.id, self.now))

    def _admit(self, job: Job, budget: int) -> bool:
        free = self.limits.kv_tokens - sum(other.kv for other in self.running)
        if budget == 0 or len(self.running) == self.limits.max_num_seqs or job.to_prefill > free:
            return False
        self.waiting.remove(job)
        self.running.append(job)
        job.reserved = job.to_prefill
        job.scheduled_at = self.now if job.scheduled_at is None else job.scheduled_at
        return True

    def _take(self, job: Job, tokens: int, at: float) -> None:
        if job.to_prefill:
            job.to_prefill -= tokens
            if job.to_prefill:
                return
        job.token_times.append(at)
        request, first_at = job.request, job.token_times[0]
        if len(job.token_times) == 1:
            self.events.append(FirstToken(request.id, at, at - request.arrived_at))
        if job.done:
            self.running.remove(job)
            tpot_s = (at - first_at) / (request.output_tokens - 1) if request.output_tokens > 1 else None
            queue_wait_s = (job.scheduled_at or 0.0) - job.entered_at
            ttft_s = first_at - request.arrived_at
            self.events.append(Finished(request.id, at, ttft_s, tpot_s, queue_wait_s, at - request.arrived_at))
