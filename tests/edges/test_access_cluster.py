"""A whole scaler in a cluster: what exists is what the API server says, and whose a token is, too."""

import aiohttp
import grpc
import grpc.aio
import pytest

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from tests.support.engines import PageEngine, listening
from tests.support.in_cluster import GOOD, Setting, put_workload, scaler, until
from tests.support.kubernetes_api import kubernetes
from tests.support.token_reviews import ReviewingApi

LLAMA = WorkloadKey("prod", "llama")
SCALED_OBJECT = "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects/{}"


async def test_a_forged_ref_makes_nothing_and_one_of_a_deleted_scaled_object_brings_nothing_back(tmp_path):
    forged = [ScaledObject(WorkloadKey(namespace, "x"), GOOD) for namespace in ("prod", "victim", "keda")]
    async with kubernetes(ReviewingApi()) as api, listening(PageEngine()) as address:
        put_workload(api, "llama", address)
        async with (
            scaler(api, Setting(tmp_path)) as bound,
            grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as link,
        ):
            client, codes = AioKedaClient(link), []
            await until(lambda: isinstance(bound.board.latest(LLAMA), Decision))
            api.delete(SCALED_OBJECT.format("prod", "llama"))
            await until(lambda: LLAMA not in bound.supervisor)
            for of in (*forged, ScaledObject(LLAMA, GOOD)):
                with pytest.raises(RpcFailed) as failed:
                    await client.metrics(of)
                codes.append((failed.value.code, "no ScaledObject" in failed.value.details))
            found = list(bound.supervisor.specs()), list(bound.board.pending())
    assert (codes, found) == ([(grpc.StatusCode.UNAVAILABLE, True)] * 4, ([], []))


async def test_what_the_operators_file_says_where_to_find_may_be_brought_by_a_call(tmp_path):
    async with kubernetes(ReviewingApi()) as api, listening(PageEngine()) as address:
        setting = Setting(tmp_path, {"workloads": {"lab/bare": {"targets": [address]}}})
        async with (
            scaler(api, setting) as bound,
            grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as link,
        ):
            await AioKedaClient(link).metric_spec(ScaledObject(WorkloadKey("lab", "bare"), GOOD))
            assert WorkloadKey("lab", "bare") in bound.supervisor


async def test_a_namespace_at_its_limit_says_so_and_runs_the_next_when_one_goes(tmp_path):
    async with kubernetes(ReviewingApi()) as api, listening(PageEngine()) as address:
        for name in ("a", "b", "c"):
            put_workload(api, name, address, "crowd")
        put_workload(api, "llama", address)
        setting = Setting(tmp_path, {"access": {"per_namespace": {"workloads": 2}}})
        async with scaler(api, setting) as bound:
            ran = {WorkloadKey("crowd", name) for name in ("a", "b", "c")}
            await until(lambda: len(ran & {spec.key for spec in bound.supervisor.specs()}) == 2)
            await until(lambda: LLAMA in bound.supervisor)
            (left,) = (key for key in ran if key not in bound.supervisor)
            said = bound.board.latest(left)
            gone = min(ran - {left})
            api.delete(SCALED_OBJECT.format("crowd", gone.name))
            await until(lambda: left in bound.supervisor)
    assert isinstance(said, Pending)
    assert said.why.startswith("namespace crowd has 2 workloads, which is its limit")


async def test_a_service_accounts_token_reads_its_own_namespace_and_one_for_another_audience_nothing(tmp_path):
    api = ReviewingApi()
    async with kubernetes(api), listening(PageEngine()) as address:
        api.users = {"of-prod": "system:serviceaccount:prod:any", "of-test": "system:serviceaccount:test:any",
                     "of-a-person": "jane"}  # fmt: skip
        put_workload(api, "llama", address)
        setting = Setting(tmp_path, {"access": {"review_tokens": True}})
        async with scaler(api, setting) as bound, aiohttp.ClientSession() as client:
            await until(lambda: LLAMA in bound.supervisor)

            async def status(token: str) -> int:
                url = f"http://127.0.0.1:{bound.gate_port}/v1/state/prod/llama"
                async with client.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
                    return answer.status

            statuses = [await status(token) for token in ("of-prod", "of-test", "of-a-person", "unknown")]
            api.audience = "somebody-else"
            api.users["new"] = api.users["of-prod"]
            statuses.append(await status("new"))
    assert statuses == [200, 404, 401, 401, 401]


async def test_without_the_right_to_review_nobody_new_is_let_in_and_the_log_says_what_to_grant(tmp_path):
    async with kubernetes(ReviewingApi()) as api:
        api.forbid("create", "tokenreviews")
        setting = Setting(tmp_path, {"access": {"review_tokens": True}})
        async with scaler(api, setting) as bound, aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{bound.gate_port}/v1/state"
            async with client.get(url, headers={"Authorization": "Bearer any"}) as answer:
                assert answer.status == 503
        assert "components/token-review" in setting.log.getvalue()
