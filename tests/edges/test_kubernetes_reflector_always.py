"""What holds of the reflector whatever happens between it and the API server."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cluster.client import Bounds
from tests.support.kubernetes_mirror import PODS, Mirror, mirroring

STEPS = st.one_of(
    st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abcd")),
    st.sampled_from(["compact", "reset", "bookmark", "end_watches", "garble", "settle"]).map(lambda name: (name, "")),
)


async def apply(mirror: Mirror, step: tuple[str, str], number: int) -> None:
    api, (name, pod) = mirror.api, step
    match name:
        case "put":
            api.put(f"{PODS}/{pod}", {"spec": {"step": number}})
        case "delete" if api.get(f"{PODS}/{pod}") is not None:
            api.delete(f"{PODS}/{pod}")
        case "garble":
            api.say(b"{\n")
        case "settle":
            await mirror.until_mirrored()
        case "compact" | "reset" | "bookmark" | "end_watches":
            getattr(api, name)()


@given(steps=st.lists(STEPS, max_size=25), gone_in_stream=st.booleans())
@settings(max_examples=40, deadline=None)
async def test_whatever_happened_it_ends_with_exactly_what_exists(steps, gone_in_stream):
    async with mirroring(bounds=Bounds(page_items=2), pods="ab") as mirror:
        mirror.api.gone_in_stream = gone_in_stream
        for number, step in enumerate(steps):
            await apply(mirror, step, number)
        await mirror.until_mirrored()
