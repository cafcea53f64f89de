"""The store in ConfigMaps: entries and their places as values, then the store over a real socket."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cluster.api import Json
from scaler.cluster.client import Bounds, Client
from scaler.cluster.config_maps import ConfigMapStore, Paces
from scaler.cluster.shards import LABEL, ConfigMaps, Shards
from scaler.core.model import WorkloadKey
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Place, Refused

SPACE = "/api/v1/namespaces/scaler/configmaps"
FIRST, SECOND = f"{SPACE}/slo-scaler-state-0", f"{SPACE}/slo-scaler-state-1"
LLAMA, QWEN = WorkloadKey("prod", "llama"), WorkloadKey("prod", "qwen.v2")
QUICK = Paces(every_s=0.1, soon_s=0.02, load_s=0.3, last_s=0.3)
BOUNDS = Bounds(call_s=0.5)
NAMES = st.text("abcdefgh.-", min_size=1, max_size=248).map(lambda name: f"prod_{name}")


def config_map(data: object, name: str = "slo-scaler-state-0") -> dict:
    metadata = {"name": name, "labels": {LABEL: "true"}, "resourceVersion": "1"}
    return {"metadata": metadata, "data": data}


# Places


@settings(max_examples=40)
@given(st.sets(NAMES, max_size=30), st.integers(1, 700), st.integers(100, 1400))
def test_no_config_map_exceeds_900_kib_whatever_its_texts_grow_to(names, size, more):
    entries = [*sorted(names), *(f"prod_{index:0240d}" for index in range(more))]
    shards = Shards([config_map({entries[0]: "x" * size}), config_map(None, "slo-scaler-state-1")])
    parts = [part for _, part in shards.placed(dict.fromkeys(entries, "y" * 700))]
    sizes = [sum(len(entry) + len(text or "") for entry, text in part.items()) for part in parts]
    assert (max(sizes) <= 900 * 1024, sorted(entry for part in parts for entry in part)) == (True, sorted(entries))


@settings(max_examples=40)
@given(st.lists(NAMES, unique=True, max_size=40), st.randoms(use_true_random=False))
def test_an_entry_stays_where_it_was_found(names, chance):
    data: list[dict[str, str]] = [{}, {}, {}]
    for name in names:
        chance.choice(data)[name] = "text"
    shards = Shards(config_map(part, f"slo-scaler-state-{index}") for index, part in enumerate(data))
    chance.shuffle(names)
    placed = {shard.name: part for shard, part in shards.placed(dict.fromkeys(names, "new"))}
    assert placed == {
        f"slo-scaler-state-{index}": dict.fromkeys(part, "new") for index, part in enumerate(data) if part
    }


def test_new_entries_fill_the_first_config_map_with_room_and_then_a_new_one():
    full = {f"prod_{index:0200d}": "x" for index in range(1018)}
    shards = Shards([config_map(full), config_map({}, "slo-scaler-state-1")])
    shards.placed({"prod_llama": "text"})
    shards.placed({f"prod_{index:0201d}": "text" for index in range(1017)})
    where = [shards.find(entry) for entry in ("prod_llama", f"prod_{0:0201d}", f"prod_{1016:0201d}")]
    assert [shard and shard.name for shard in where] == [f"slo-scaler-state-{number}" for number in (1, 1, 2)]


# The store


@dataclass
class Storing:
    """A store in one process, which leads in that ``term``; a clock of its own where a test turns it."""

    api: KubernetesApi
    client: Client
    paces: Paces
    term: int = 1
    told: list[str] = field(default_factory=list)
    now: float | None = None

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.store = ConfigMapStore(
            ConfigMaps(self.client, "scaler"),
            lambda: self.term,
            lambda: loop.time() if self.now is None else self.now,
            self.told.append,
            self.paces,
        )

    def change(self, key: WorkloadKey, text: str) -> None:
        assert self.store.due(key, changed=True)
        self.store.put(key, text)

    async def until_stored(self, data: dict[str, str], path: str = FIRST) -> None:
        await self.api.until(lambda: stored(self.api, path) == data)


class Overtaken(Client):
    """Between its reading and its writing somebody else writes."""

    overtake: Callable[[], object]

    async def get(self, path: str) -> Json:
        found = await super().get(path)
        self.overtake()
        return found


@asynccontextmanager
async def storing(
    api: KubernetesApi, *, term: int = 1, paces: Paces = QUICK, client: Client | None = None
) -> AsyncIterator[Storing]:
    """A store that has started, writes if it leads, and runs."""
    client = client or Client.at(api.url, random.Random(7), BOUNDS)
    process = Storing(api, client, paces, term)
    await process.store.start()
    if term:
        await process.store.reload()
    task = asyncio.create_task(process.store.run())
    try:
        yield process
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.aclose()


def stored(api: KubernetesApi, path: str = FIRST) -> dict[str, str] | None:
    return (api.get(path) or {}).get("data")


async def test_what_was_put_is_there_for_the_next_process():
    async with kubernetes() as api, storing(api) as first:
        first.change(LLAMA, "one")
        await first.until_stored({"prod_llama": "one"})
        async with storing(api, term=0) as second:
            known = [second.store.recall(key) for key in (LLAMA, QWEN)]
    assert (known, first.told) == (["one", None], [])


async def test_changes_of_several_workloads_are_one_write_that_others_can_find_by_its_label():
    async with kubernetes() as api, storing(api) as process:
        process.change(LLAMA, "one")
        process.change(QWEN, "two")
        await process.until_stored({"prod_llama": "one", "prod_qwen.v2": "two"})
        labels = (api.get(FIRST) or {})["metadata"]["labels"]
        assert (labels, api.count("create", "configmaps"), api.count("patch", "configmaps")) == ({LABEL: "true"}, 1, 0)


async def test_an_unchanged_workload_is_due_once_and_then_every_30_seconds():
    async with kubernetes() as api, storing(api, paces=Paces()) as process:
        due = []
        for process.now in (0.0, 1.0, 29.9, 30.0, 31.0):
            due.append(process.store.due(LLAMA, changed=False))
            if due[-1]:
                process.store.put(LLAMA, "one")
    assert due == [True, False, False, True, False]


async def test_an_unchanged_workload_is_written_without_haste():
    async with kubernetes() as api, storing(api) as process:
        process.change(LLAMA, "one")
        await process.until_stored({"prod_llama": "one"})
        await api.until(lambda: process.store.due(LLAMA, changed=False))
        process.store.put(LLAMA, "two")
        await process.until_stored({"prod_llama": "two"})


async def test_only_the_config_maps_that_changed_are_written():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "one"}))
        api.put(SECOND, config_map({"prod_qwen.v2": "two"}))
        async with storing(api) as process:
            process.change(QWEN, "three")
            await process.until_stored({"prod_qwen.v2": "three"}, SECOND)
    assert {asked.path for asked in api.requests if asked.verb in {"create", "patch"}} == {SECOND}


async def test_a_process_that_does_not_lead_is_never_due_and_writes_nothing():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "one"}))
        async with storing(api, term=0) as process:
            due = process.store.due(LLAMA, changed=True)
            process.store.put(QWEN, "two")
            process.store.forget(LLAMA)
            await process.store.stop()
            assert (due, stored(api), process.store.recall(LLAMA)) == (False, {"prod_llama": "one"}, None)


async def test_nothing_is_due_in_a_term_before_what_is_stored_was_read_in_it():
    async with kubernetes() as api, storing(api, term=0) as process:
        due = []
        for process.term in (1, 2):
            due.append(process.store.due(LLAMA, changed=True))
            await process.store.reload()
            due.append(process.store.due(LLAMA, changed=True))
        assert due == [False, True, False, True]


async def test_who_begins_to_lead_soon_writes_what_changed_while_nobody_did():
    async with kubernetes() as api, storing(api, paces=Paces(every_s=1000.0, soon_s=0.02)) as process:
        for process.term, text in ((1, "one"), (2, "two")):
            await process.store.reload()
            assert process.store.due(LLAMA, changed=False)
            process.store.put(LLAMA, text)
            await process.until_stored({"prod_llama": text})


async def test_what_was_put_is_not_written_once_the_process_leads_no_more():
    async with kubernetes() as api, storing(api, paces=Paces()) as process:
        process.change(LLAMA, "one")
        process.term = 0
        await process.store.stop()
        assert stored(api) is None


async def test_who_begins_to_lead_learns_what_others_wrote_and_keeps_what_only_it_knows():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "old", "prod_qwen.v2": "old"}))
        async with storing(api, paces=Paces()) as process:
            process.change(LLAMA, "mine")
            process.change(QWEN, "mine")
            api.put(FIRST, config_map({"prod_llama": "theirs", "prod_qwen.v2": "old"}))
            news = await process.store.reload()
            await process.store.stop()
            written = stored(api)
    assert (news, written) == ({LLAMA: "theirs"}, {"prod_llama": "theirs", "prod_qwen.v2": "mine"})


@pytest.mark.fault("ConfigMap conflict")
async def test_after_a_conflict_the_texts_of_both_are_there():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "old"}))
        async with storing(api) as process:
            api.put(FIRST, config_map({"prod_llama": "old", "test_other": "theirs"}))
            process.change(LLAMA, "new")
            await process.until_stored({"prod_llama": "new", "test_other": "theirs"})
            assert process.told == []


@pytest.mark.fault("ConfigMap conflict")
async def test_who_is_overtaken_again_and_again_says_so_and_goes_on():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "old"}))
        client = Overtaken.at(api.url, random.Random(7), BOUNDS)
        assert isinstance(client, Overtaken)
        client.overtake = lambda: api.put(
            FIRST, config_map({"prod_llama": "old", "test_other": str(len(api.requests))})
        )
        async with storing(api, client=client) as process:
            client.overtake()
            process.change(LLAMA, "new")
            await api.until(lambda: process.told)
            client.overtake = lambda: None
            await api.until(lambda: (stored(api) or {})["prod_llama"] == "new")
    assert "409" in process.told[0]


@pytest.mark.fault("ConfigMap conflict", "two scalers at once")
async def test_two_that_write_at_once_lose_nothing():
    wanted: dict[str, str] = {}
    async with kubernetes() as api, storing(api) as one, storing(api) as other:
        for number in range(10):
            for process, name in ((one, f"llama-{number}"), (other, f"qwen-{number}")):
                process.change(WorkloadKey("prod", name), name)
                wanted[f"prod_{name}"] = name
            await one.until_stored(wanted)


async def test_a_config_map_that_was_made_without_our_label_is_joined():
    async with kubernetes() as api, storing(api) as process:
        api.put(FIRST, {"metadata": {}, "data": {"prod_qwen.v2": "theirs"}})
        process.change(LLAMA, "mine")
        await process.until_stored({"prod_llama": "mine", "prod_qwen.v2": "theirs"})
        assert (api.get(FIRST) or {})["metadata"]["labels"] == {LABEL: "true"}


class Validating(KubernetesApi):
    """Refuses a ConfigMap above one MiB, as the API server does."""

    def _stored(self, place: Place, body: Json) -> Json:
        if sum(len(key) + len(text) for key, text in (body.get("data") or {}).items()) > 2**20:
            raise Refused(422, "Too long: may not be more than 1048576 bytes", "Invalid")
        return super()._stored(place, body)


@pytest.mark.fault("ConfigMap cannot be written")
async def test_from_a_config_map_that_somebody_filled_up_its_entries_move_to_the_next():
    async with kubernetes(Validating()) as api:
        api.put(FIRST, config_map({"prod_llama": "one", "test_other": "theirs"}))
        async with storing(api) as process:
            filled = {"prod_llama": "one", "test_other": "theirs", "by_hand": "x" * (2**20 - 50)}
            api.put(FIRST, config_map(filled))
            process.change(LLAMA, "longer" * 20)
            await process.until_stored({"prod_llama": "longer" * 20}, SECOND)
            del filled["prod_llama"]
            await process.until_stored(filled)
            process.change(LLAMA, "two")
            await process.until_stored({"prod_llama": "two"}, SECOND)
        async with storing(api, term=0) as another:
            assert another.store.recall(LLAMA) == "two"


@pytest.mark.fault("ConfigMap cannot be written")
async def test_a_config_map_that_was_deleted_by_hand_is_made_again_with_all_that_is_known():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "one", "test_other": "theirs"}))
        async with storing(api) as process:
            api.delete(FIRST)
            process.change(LLAMA, "two")
            await process.until_stored({"prod_llama": "two", "test_other": "theirs"})


@pytest.mark.fault("ConfigMap cannot be written")
async def test_without_the_permission_texts_are_kept_and_tried_again_and_the_reason_is_told_once():
    async with kubernetes() as api, storing(api, paces=Paces(soon_s=0.02)) as process:
        api.forbid("create", "configmaps")
        process.change(LLAMA, "one")
        await api.until(lambda: api.count("create", "configmaps") >= 3)
        told, known = list(process.told), process.store.recall(LLAMA)
        api.allow("create", "configmaps")
        await process.until_stored({"prod_llama": "one"})
    (reason,) = told
    assert ('resources ["configmaps"], verbs ["create"]' in reason, known) == (True, "one")


@pytest.mark.fault("ConfigMap cannot be written")
async def test_an_outage_delays_what_is_written_and_each_is_told():
    async with kubernetes() as api, storing(api) as process:
        for text in ("one", "two"):
            process.told.clear()
            await api.away()
            process.change(LLAMA, text)
            await api.until(lambda: process.told)
            await api.back()
            await process.until_stored({"prod_llama": text})
            (told,) = process.told
            assert "cannot" in told


@pytest.mark.fault("API server is gone")
async def test_a_start_without_an_answer_begins_with_nothing_and_reads_later():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "one"}))
        api.hang()
        async with storing(api, term=0) as process:
            at_start = process.store.recall(LLAMA)
            api.recover()
            await api.until(lambda: process.store.recall(LLAMA) == "one")
    assert (at_start, len(process.told)) == (None, 1)


async def test_a_list_that_expires_between_its_pages_is_read_again():
    async with kubernetes(KubernetesApi(slow_s=0.05)) as api:
        api.put(FIRST, config_map({"prod_llama": "one"}))
        api.put(SECOND, config_map({"prod_qwen.v2": "two"}))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_forgetting(api))
            client = Client.at(api.url, random.Random(7), Bounds(page_items=1))
            async with storing(api, term=0, client=client) as process:
                await api.until(lambda: process.store.recall(QWEN) == "two")
    (told,) = process.told
    assert "410" in told


async def _forgetting(api: KubernetesApi) -> None:
    """The history, while the second page is asked for."""
    await api.until(lambda: api.count("list", "configmaps") == 2)
    api.put(f"{SPACE}/unrelated", {"metadata": {}})
    api.compact()


async def test_a_text_that_is_too_long_or_has_no_name_is_refused_aloud():
    async with kubernetes() as api, storing(api) as process:
        process.change(QWEN, "μ" * 351)
        process.change(WorkloadKey("prod", "a/b"), "text")
        process.change(LLAMA, "μ" * 350)
        await process.until_stored({"prod_llama": "μ" * 350})
    assert process.told == [
        "state of prod/qwen.v2 is not stored: it has 702 bytes, at most 700 are allowed",
        "state of prod/a/b is not stored: its name cannot be a key of a ConfigMap",
    ]


async def test_a_forgotten_workload_is_removed_and_unknown_ones_are_left_alone():
    async with kubernetes() as api:
        api.put(FIRST, config_map({"prod_llama": "one", "prod_qwen.v2": "two", "test_other": "theirs"}))
        async with storing(api) as process:
            process.change(QWEN, "three")
            process.store.forget(LLAMA)
            process.store.forget(WorkloadKey("prod", "never-seen"))
            known = process.store.recall(LLAMA)
            await process.until_stored({"prod_qwen.v2": "three", "test_other": "theirs"})
            process.change(LLAMA, "again")
            await process.until_stored({"prod_llama": "again", "prod_qwen.v2": "three", "test_other": "theirs"})
    assert known is None


async def test_a_workload_that_comes_back_after_it_was_forgotten_is_written():
    async with kubernetes() as api, storing(api) as process:
        process.change(LLAMA, "one")
        process.store.forget(LLAMA)
        process.change(LLAMA, "two")
        await process.until_stored({"prod_llama": "two"})


@pytest.mark.fault("stored state is damaged")
async def test_what_another_version_stored_is_never_fatal():
    strange = {"no-workload": "?", "prod_llama": "v9 " + "x" * 2000, "prod_a_b": "", "prod_qwen.v2": "two"}
    async with kubernetes() as api:
        api.put(FIRST, config_map(strange))
        api.put(SECOND, config_map(None, "slo-scaler-state-1"))
        async with storing(api, term=0) as process:
            process.term = 1
            api.put(FIRST, config_map(strange | {"no-workload": "!", "prod_qwen.v2": "three"}))
            news = await process.store.reload()
            process.change(LLAMA, "v1")
            await process.until_stored(strange | {"no-workload": "!", "prod_qwen.v2": "three", "prod_llama": "v1"})
    assert news == {QWEN: "three"}


async def test_the_last_texts_are_written_on_the_way_out():
    async with kubernetes() as api, storing(api, paces=Paces()) as process:
        process.change(LLAMA, "one")
        await process.store.stop()
        assert stored(api) == {"prod_llama": "one"}


async def test_the_way_out_is_not_barred_by_a_server_that_does_not_answer():
    async with kubernetes() as api, storing(api) as process:
        process.change(LLAMA, "one")
        api.hang()
        await process.store.stop()
        assert "did not answer" in process.told[-1]
