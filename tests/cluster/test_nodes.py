"""The classes of nodes: each node is read once."""

import asyncio

import pytest

from scaler.cluster.api import Forbidden, NotFound, Unreachable
from scaler.cluster.nodes import Nodes, node_class
from tests.support.unasked import Unasked


class Machines(Unasked):
    """An API server with nodes, some of which it does not tell."""

    def __init__(self, **answers) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.now = 0.0

    async def get(self, path):
        name = path.rpartition("/")[2]
        self.asked.append(name)
        if isinstance(self.answers[name], Exception):
            raise self.answers[name]
        return {"metadata": {"labels": self.answers[name]}}


async def classes(nodes: Nodes, *names: str) -> list[str | None]:
    nodes.want(names)
    await nodes.read()
    return [nodes.class_of(name) for name in names]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "NVIDIA-H100"}, "NVIDIA-H100"),
        (
            {"node.kubernetes.io/instance-type": "a3-highgpu-8g", "cloud.google.com/gke-accelerator": "nvidia-h100"},
            "nvidia-h100",
        ),
        ({"node.kubernetes.io/instance-type": "m5.large"}, "m5.large"),
        ({}, ""),
    ],
)
def test_the_most_telling_label_is_the_class(labels, found):
    assert node_class({"metadata": {"labels": labels}}) == found


def reader(machines: Machines) -> Nodes:
    return Nodes(machines, asyncio.Semaphore(2), lambda: machines.now)


async def test_each_node_is_read_once_however_often_it_is_wanted():
    machines = Machines(a={"nvidia.com/gpu.product": "H100"}, b={})
    nodes = reader(machines)

    assert [await classes(nodes, "a", "b", "") for _ in range(3)] == [["H100", "", None]] * 3
    assert sorted(machines.asked) == ["a", "b"]


async def test_a_node_whose_gpu_was_not_named_when_it_joined_is_read_once_more():
    instance = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    machines = Machines(a=instance, b=instance)
    nodes = reader(machines)
    joined = await classes(nodes, "a", "b")
    machines.answers["a"] = instance | {"nvidia.com/gpu.product": "H100"}
    found = []
    for machines.now in (29.0, 30.0, 999.0):
        found.append(await classes(nodes, "a", "b"))

    assert joined == ["p5.48xlarge"] * 2
    assert found == [["p5.48xlarge"] * 2, ["H100", "p5.48xlarge"], ["H100", "p5.48xlarge"]]
    assert sorted(machines.asked) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("answer", "settled"),
    [
        ({"nvidia.com/gpu.product": "H100"}, [True, True]),
        ({}, [False, True]),
        (NotFound("no such node"), [True, True]),
        (Unreachable("timeout"), [False, False]),
        (Forbidden("cannot get nodes"), [True, True]),
    ],
)
async def test_a_class_is_settled_when_it_is_as_good_as_it_gets(answer, settled):
    machines = Machines(a=answer)
    nodes = reader(machines)
    found = [nodes.settled("a")]
    await classes(nodes, "a")
    for machines.now in (0.0, 30.0):
        found.append(nodes.settled("a"))

    assert found == [False, *settled]


async def test_a_node_that_is_gone_has_no_class():
    assert await classes(reader(Machines(a=NotFound("no such node"))), "a") == [""]


async def test_a_refusal_is_told_until_a_node_can_be_read_and_nothing_is_asked_for_half_a_minute():
    machines = Machines(a=Forbidden("cannot get nodes"))
    nodes = reader(machines)
    refused = [(await classes(nodes, "a"), nodes.fault) for machines.now in (0.0, 10.0, 29.0)]
    machines.answers["a"] = {"nvidia.com/gpu.product": "H100"}
    machines.now = 30.0

    assert refused == [([None], "cannot get nodes")] * 3
    assert (await classes(nodes, "a"), nodes.fault, machines.asked) == (["H100"], "", ["a", "a"])


async def test_a_node_that_could_not_be_read_is_read_when_it_is_wanted_again():
    machines = Machines(a=Unreachable("timeout"))
    nodes = reader(machines)
    first = await classes(nodes, "a")
    machines.answers["a"] = {"nvidia.com/gpu.product": "H100"}

    assert (first, await classes(nodes, "a")) == ([None], ["H100"])
