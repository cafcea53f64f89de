"""What a Prometheus says, and how it is asked, over real sockets; its content is a fake's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Absent, Histogram, Missing, Reading, WorkloadKey
from scaler.engines import ENGINES
from scaler.errors import ConfigError
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from tests.support.engines import OVERLOAD, PAGES
from tests.support.prometheus_fake import NOW, FakePrometheus, faking, page_series

VLLM = ENGINES["vllm"]
MODEL = "tiny"
NO_SAMPLE = "Prometheus has no fresh sample with pod"


@dataclass
class Hand:
    """A clock that a test turns."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(*pods: str, namespace: str = "prod", name: str = "llama", model_name: str | None = None) -> Ask:
    return Ask(WorkloadKey(namespace, name), VLLM, tuple(Target(pod, "") for pod in pods), model_name)


def engine(pod: str = "a", running: float = 4.0, waiting: float = 2.0, first: float = 10.0, **labels) -> list:
    """The series of one pod with the least that the law needs."""
    at, namespace = labels.pop("at", NOW), labels.pop("namespace", "prod")
    rank = {"namespace": namespace, "pod": pod, "model_name": MODEL, "engine": "0", **labels}
    values = {
        ("vllm:num_requests_running", ""): running,
        ("vllm:num_requests_waiting", ""): waiting,
        ("vllm:generation_tokens_total", ""): 100.0,
        ("vllm:time_to_first_token_seconds_count", ""): first,
        ("vllm:time_to_first_token_seconds_sum", ""): first,
        ("vllm:time_to_first_token_seconds_bucket", "1.0"): first,
        ("vllm:time_to_first_token_seconds_bucket", "+Inf"): first,
    }
    return [
        ({"__name__": name, **rank, **({"le": le} if le else {})}, value, at) for (name, le), value in values.items()
    ]


def reading(pod: str = "a", running: float = 4.0, waiting: float = 2.0, first: float = 10.0, at: float = 1000.0):
    ttft = Histogram((1.0,), (first, first), first)
    return Reading(pod, at, running, waiting, ttft=ttft, generation_tokens_total=100.0)


def first_tokens(found: Reading) -> Histogram:
    assert found.ttft is not None
    return found.ttft


@asynccontextmanager
async def sourcing(fake: FakePrometheus, clock: Hand, **settings) -> AsyncIterator[PrometheusSource]:
    async with faking(fake):
        api = PrometheusApi(PrometheusSettings(fake.url, **{"timeout_s": 10.0, **settings}), clock)
        source = PrometheusSource(api, clock)
        try:
            yield source
        finally:
            if fake.hold is not None:
                fake.hold.set()
            await source.close()
            await api.close()


async def test_a_reading_is_as_old_as_its_sample():
    fake = FakePrometheus(engine(at=NOW - 7.5))

    async with sourcing(fake, Hand()) as source:
        assert await source.read(ask("a")) == Scrape((reading(at=992.5),), ())


async def test_the_query_is_a_form_because_a_url_has_limits():
    fake, seen = FakePrometheus(engine()), []

    async def look(request):
        seen.append((request.method, request.query_string, request.content_type))

    fake.misbehave = look
    async with sourcing(fake, Hand()) as source:
        await source.read(ask("a"))

    assert set(seen) == {("POST", "", "application/x-www-form-urlencoded")}


async def test_loops_of_one_prometheus_share_a_poll():
    namespaces = [f"team-{number}" for number in range(20)]
    fake = FakePrometheus([series for ns in namespaces for series in engine(namespace=ns)])

    async with sourcing(fake, Hand()) as source:
        scrapes = await asyncio.gather(*(source.read(ask("a", namespace=ns)) for ns in namespaces))

    assert scrapes == [Scrape((reading(),), ())] * 20
    assert fake.polls == 1


async def test_what_comes_too_late_for_a_poll_waits_for_the_next_together():
    fake = FakePrometheus([*engine(namespace="one"), *engine(namespace="two"), *engine(namespace="three")])
    fake.hold = asyncio.Event()

    async with sourcing(fake, Hand()) as source:
        first = asyncio.create_task(source.read(ask("a", namespace="one")))
        await fake.asked.wait()
        others = [asyncio.create_task(source.read(ask("a", namespace=ns))) for ns in ("two", "three")]
        fake.hold.set()
        scrapes = await asyncio.gather(first, *others)

    assert scrapes == [Scrape((reading(),), ())] * 3
    assert fake.polls == 2


async def test_within_half_an_interval_nothing_is_asked_again():
    fake, clock = FakePrometheus(engine()), Hand()

    async with sourcing(fake, clock) as source:
        await source.read(ask("a"))
        clock.now += 7.4
        await source.read(ask("a", name="other"))
        before = fake.polls
        clock.now += 0.2
        await source.read(ask("a"))

    assert (before, fake.polls) == (1, 2)


async def test_a_reader_that_gives_up_leaves_the_poll_to_the_others():
    fake = FakePrometheus(engine())
    fake.hold = asyncio.Event()

    async with sourcing(fake, Hand()) as source:
        impatient = asyncio.create_task(source.read(ask("a")))
        patient = asyncio.create_task(source.read(ask("a")))
        await fake.asked.wait()
        impatient.cancel()
        fake.hold.set()

        assert await patient == Scrape((reading(),), ())
        assert impatient.cancelled()


async def test_a_scrape_seen_twice_is_one_reading():
    fake, clock = FakePrometheus(engine()), Hand()

    async with sourcing(fake, clock) as source:
        first = await source.read(ask("a"))
        clock.now, fake.now = clock.now + 10.0, fake.now + 10.3  # clocks and networks jitter
        second = await source.read(ask("a"))

    assert second == first


@pytest.mark.fault("Prometheus has another clock", "counters go backwards or jump")
async def test_a_lagging_twin_behind_one_address_turns_no_counter_back():
    fake, clock = FakePrometheus(engine(first=10.0, at=NOW - 1.0)), Hand()

    async with sourcing(fake, clock) as source:
        newer = await source.read(ask("a"))
        clock.now, fake.now = clock.now + 10.0, fake.now + 10.0
        fake.series = engine(first=7.0, at=NOW - 4.0)
        assert await source.read(ask("a")) == newer
        clock.now, fake.now = clock.now + 10.0, fake.now + 10.0
        fake.series = engine(first=12.0, at=NOW + 15.0)
        assert await source.read(ask("a")) == Scrape((reading(first=12.0, at=1015.0),), ())


async def test_a_pod_scraped_twice_counts_once_and_ranks_add_up():
    copies = [*engine(), *engine(job="again", running=3.0), *engine(engine="1", running=1.0, waiting=0.0, first=5.0)]

    async with sourcing(FakePrometheus(copies), Hand()) as source:
        (found,) = (await source.read(ask("a"))).readings

    assert (found.running, found.waiting, first_tokens(found).count) == (5.0, 2.0, 15.0)


@pytest.mark.fault("Prometheus has another clock")
@pytest.mark.parametrize(
    ("age_s", "why"),
    [
        pytest.param(60.0, "newest sample is 60 s old, stale after 45 s", id="old"),
        pytest.param(1e9, "newest sample is 1000000000 s old, stale after 45 s", id="clock far ahead"),
        pytest.param(-30.0, "clocks disagree: newest sample 30 s in the future", id="from the future"),
    ],
)
async def test_a_sample_of_the_wrong_age_is_a_reason(age_s, why):
    fake = FakePrometheus(engine(at=NOW - age_s))

    async with sourcing(fake, Hand()) as source:
        assert await source.read(ask("a")) == Scrape((), (Missing("a", why),))


async def test_a_pod_that_prometheus_does_not_know_is_missing():
    async with sourcing(FakePrometheus(engine("a")), Hand()) as source:
        assert await source.read(ask("a", "b")) == Scrape((reading(),), (Missing("b", f"{NO_SAMPLE} b"),))


@pytest.mark.fault("Prometheus answers with nothing")
async def test_an_empty_answer_is_no_empty_fleet():
    async with sourcing(FakePrometheus(), Hand()) as source:
        assert await source.read(ask("a")) == Scrape((), (Missing("a", f"{NO_SAMPLE} a"),))


@pytest.mark.fault("engine dies")
async def test_a_dead_pod_that_is_still_served_is_read_by_nobody():
    async with sourcing(FakePrometheus([*engine("a"), *engine("dead")]), Hand()) as source:
        assert await source.read(ask("a")) == Scrape((reading(),), ())


async def test_pods_of_one_name_in_two_namespaces_are_two():
    fake = FakePrometheus([*engine(namespace="one", running=1.0), *engine(namespace="two", running=2.0)])

    async with sourcing(fake, Hand()) as source:
        both = [await source.read(ask("a", namespace=namespace)) for namespace in ("one", "two")]

    assert both == [Scrape((reading(running=running),), ()) for running in (1.0, 2.0)]


async def test_labels_that_prometheus_renamed_are_read_where_the_settings_say():
    renamed = [
        (
            {**labels, "exported_namespace": "prod", "exported_pod": "a", "namespace": "monitoring", "pod": "agent"},
            *rest,
        )
        for labels, *rest in engine()
    ]
    labels = {"namespace_label": "exported_namespace", "pod_label": "exported_pod"}

    async with sourcing(FakePrometheus(renamed), Hand(), **labels) as source:
        assert await source.read(ask("a")) == Scrape((reading(),), ())


async def test_of_a_pod_with_two_models_one_is_read():
    fake = FakePrometheus([*engine(), *engine(model_name="large", running=9.0)])

    async with sourcing(fake, Hand()) as source:
        found = await source.read(ask("a", model_name=MODEL))
        other = await source.read(ask("a", model_name="huge"))

    assert found == Scrape((reading(),), ())
    assert other == Scrape((), (Missing("a", "no model of the name in modelName, but large, tiny"),))


async def test_not_a_number_is_unknown_and_named():
    fake = FakePrometheus(engine(running=float("nan")))

    async with sourcing(fake, Hand()) as source:
        (found,) = (await source.read(ask("a"))).readings

    assert (found.running, found.absent) == (Absent.UNKNOWN, ("running",))


async def test_an_unused_engine_without_gauges_is_idle():
    page = (PAGES / "0.32.0-12-api-server-count-2-before.prom").read_bytes()

    async with sourcing(FakePrometheus(page_series(page, "a")), Hand()) as source:
        (found,) = (await source.read(ask("a"))).readings

    assert (found.running, found.waiting, found.usable) == (Absent.IDLE, Absent.IDLE, True)


WARNED = {"warnings": ["store thanos-b: connection refused"]}
PARTIAL = "partial answer: store thanos-b: connection refused"


@pytest.mark.fault("Prometheus answers in part")
async def test_a_partial_answer_that_lacks_a_rank_is_missing_not_half_the_load():
    fake, clock = FakePrometheus([*engine(), *engine(engine="1")]), Hand()

    async with sourcing(fake, clock) as source:
        await source.read(ask("a"))
        clock.now, fake.now = clock.now + 15.0, fake.now + 15.0
        fake.series, fake.beside = engine(at=NOW + 15.0), WARNED
        assert await source.read(ask("a", "b")) == Scrape((), (Missing("a", PARTIAL), Missing("b", PARTIAL)))


@pytest.mark.fault("Prometheus answers in part")
async def test_a_partial_answer_that_lacks_gauges_is_never_idle():
    page = (PAGES / "0.32.0-12-api-server-count-2-before.prom").read_bytes()
    fake = FakePrometheus(page_series(page, "a"), beside=WARNED)

    async with sourcing(fake, Hand()) as source:
        assert await source.read(ask("a")) == Scrape((), (Missing("a", PARTIAL),))


@pytest.mark.fault("Prometheus answers in part")
async def test_an_empty_partial_answer_says_so():
    async with sourcing(FakePrometheus(beside=WARNED), Hand()) as source:
        assert await source.read(ask("a")) == Scrape((), (Missing("a", PARTIAL),))


@pytest.mark.fault("Prometheus answers in part")
async def test_what_a_partial_answer_has_whole_is_read():
    fake, clock = FakePrometheus(engine(), beside=WARNED), Hand()

    async with sourcing(fake, clock) as source:
        first = await source.read(ask("a"))
        clock.now, fake.now = clock.now + 15.0, fake.now + 15.0
        fake.series = engine(running=5.0, at=NOW + 15.0)
        second = await source.read(ask("a"))

    assert first == Scrape((reading(),), ())
    assert second == Scrape((reading(running=5.0, at=1015.0),), ())


async def test_remarks_beside_a_whole_answer_are_no_warnings():
    async with sourcing(
        FakePrometheus(engine(), beside={"infos": ["metric might not be a counter"]}), Hand()
    ) as source:
        assert await source.read(ask("a")) == Scrape((reading(),), ())


async def test_after_a_failure_the_next_poll_goes_on():
    fake, clock = FakePrometheus(engine()), Hand()

    async with sourcing(fake, clock) as source:
        before = await source.read(ask("a"))
        clock.now, fake.now = clock.now + 15.0, fake.now + 15.0
        fake.beside = {"status": "error", "errorType": "execution", "error": "expanding series"}
        failed = await source.read(ask("a"))
        clock.now, fake.now = clock.now + 15.0, fake.now + 15.0
        fake.beside = {}
        after = await source.read(ask("a"))

    assert failed == Scrape((), (Missing("a", "Prometheus: execution: expanding series"),))
    assert after == before  # the same scrape, still fresh


async def test_only_edges_about_the_objectives_are_fetched():
    page, clock = (PAGES / OVERLOAD).read_bytes(), Hand()
    fake = FakePrometheus(page_series(page, "a"))

    async with faking(fake):
        api = PrometheusApi(PrometheusSettings(fake.url, timeout_s=10.0), clock)
        source = PrometheusSource(api, clock, lambda: (2.0,))
        (found,) = (await source.read(ask("a"))).readings
        await api.close()

    assert first_tokens(found).edges == (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5)
    assert first_tokens(found).counts == (1.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0, 9.0, 9.0)


async def test_edges_follow_the_objectives():
    fake, clock = FakePrometheus(page_series((PAGES / OVERLOAD).read_bytes(), "a")), Hand()
    objectives = [2.0]

    async with faking(fake):
        api = PrometheusApi(PrometheusSettings(fake.url, timeout_s=10.0), clock)
        source = PrometheusSource(api, clock, lambda: objectives)
        await source.read(ask("a"))
        objectives[:] = [0.06]
        clock.now, fake.now = clock.now + 15.0, fake.now + 15.0
        fake.series = [(labels, value, at + 15.0) for labels, value, at in fake.series]
        (found,) = (await source.read(ask("a"))).readings
        await api.close()

    assert first_tokens(found).edges == (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25)


async def test_headers_and_a_token_go_along_and_the_token_is_read_again_when_it_changed(tmp_path):
    token, fake, clock = tmp_path / "token", FakePrometheus(engine()), Hand()
    token.write_text("first\n")
    settings = {"bearer_token_file": str(token), "headers": (("X-Scope-OrgID", "team"),)}

    async with sourcing(fake, clock, **settings) as source:
        await source.read(ask("a"))
        first = fake.headers[-1]
        token.write_text("second, rotated\n")
        clock.now += 15.0
        await source.read(ask("a"))
        second = fake.headers[-1]

    assert (first["Authorization"], first["X-Scope-OrgID"]) == ("Bearer first", "team")
    assert second["Authorization"] == "Bearer second, rotated"
    assert {headers["Authorization"] for headers in fake.headers} == {"Bearer first", "Bearer second, rotated"}


async def test_a_token_that_is_not_there_is_a_reason(tmp_path):
    async with sourcing(FakePrometheus(engine()), Hand(), bearer_token_file=str(tmp_path / "none")) as source:
        scrape = await source.read(ask("a"))

    assert scrape == Scrape((), (Missing("a", "Prometheus: token or CA file not found"),))


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async with sourcing(FakePrometheus(engine()), Hand()) as source:
        assert await source.read(ask("a")) == Scrape((reading(),), ())


async def test_the_background_keeps_what_is_wished_for():
    fake, clock = FakePrometheus(engine()), Hand()

    async with sourcing(fake, clock) as source:
        runs = asyncio.create_task(source.run())
        source.wish(VLLM, "prod")
        await fake.asked.wait()
        scrape = await source.read(ask("a"))
        runs.cancel()

    assert scrape == Scrape((reading(),), ())
    assert fake.polls == 1


async def test_what_nobody_asks_for_any_more_is_not_polled():
    fake, clock = FakePrometheus([*engine(namespace="one"), *engine(namespace="two")]), Hand()

    async with sourcing(fake, clock) as source:
        await source.read(ask("a", namespace="one"))
        clock.now += 61.0
        fake.queries.clear()
        await source.read(ask("a", namespace="two"))

    assert all('"one"' not in query for query in fake.queries)


async def test_no_targets_make_an_empty_scrape():
    async with sourcing(FakePrometheus(engine()), Hand()) as source:
        assert await source.read(ask()) == Scrape((), ())


def test_a_label_that_is_none_is_a_fault():
    with pytest.raises(ConfigError, match=r"labels\.pod"):
        PrometheusSettings("http://p", pod_label='pod"} or up')


def test_the_defaults_are_these():
    assert PrometheusSettings("http://p") == PrometheusSettings(
        url="http://p",
        interval_s=15.0,
        namespace_label="namespace",
        pod_label="pod",
        bearer_token_file=None,
        ca_file=None,
        headers=(),
        timeout_s=5.0,
    )
    assert PrometheusSettings("http://p").stale_s == 45.0
    assert replace(PrometheusSettings("http://p"), interval_s=1.0).stale_s == 10.0
