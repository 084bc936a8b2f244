"""What a server says, as the client reads it: events in any chunks, and errors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halo_kernel import HaloError, ServerEvent, errors
from halo_kernel.http.replies import encode, shape
from halo_lib_client.client import read_events, rebuild

FACTS = {
    "str": "words",
    "int": 3,
    "float": 1.5,
    "object": {"title": "words"},
    "float | None": 2.5,
    "bool": True,
    "ModelErrorKind": "throttle",
    "Sequence[tuple[str, str, int]]": [("root", "AGENTS.md", 9)],
}
TREE = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HaloError)]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.builds(
            ServerEvent,
            event=st.text("abc.", min_size=1, max_size=8),
            data=st.recursive(
                st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                max_leaves=8,
            ),
            id=st.none() | st.text("0123456789abcdef.", min_size=1, max_size=20),
        ),
        max_size=6,
    ),
    st.data(),
)
def test_events_survive_any_cut_into_chunks(events: list[ServerEvent], data: st.DataObject) -> None:
    """What is encoded is read back the same, however the bytes arrive; one that is not ended is dropped."""
    wire = b"retry: 1000\n\n" + b": keep-alive\n\n".join(encode(event) for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    chunks = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert list(read_events(chunks)) == events
    assert list(read_events([wire[:-1]])) == events[:-1]


@pytest.mark.parametrize(
    "wire", [b"event: a\n\n", b"event: a\ndata: {\n\n", b"event: a\ndata: " + b"[" * 5000 + b"\n\n"]
)
def test_what_is_no_event_is_an_error(wire: bytes) -> None:
    """What something between server and client made of a stream is refused with a sentence; a remark is nothing."""
    remarks = b": a remark\nid: 1\n\nevent: a\n: and one within\ndata: 1\n\n"
    assert list(read_events([remarks])) == [ServerEvent(event="a", data=1)]
    with pytest.raises(HaloError, match="has not sent"):
        list(read_events([wire]))


@pytest.mark.parametrize("kind", TREE)
def test_every_error_comes_back_as_it_was(kind: type[HaloError]) -> None:
    """Each class of the error tree is the same error again at the client, with its facts."""
    facts: dict[str, Any] = {each.name: FACTS[str(each.type)] for each in fields(kind)}
    error = kind(facts.pop("message"), **facts)
    again = rebuild(shape(error))
    assert type(again) is kind
    assert vars(again) == vars(error)


@pytest.mark.parametrize("told", [None, "text", {}, {"type": "ModelError"}, {"type": "ensure_home", "error": "x"}])
def test_what_is_no_error_shape_becomes_a_plain_error(told: object) -> None:
    """Whatever another program answers, the client has an error with a sentence, and calls nothing that it names."""
    assert type(rebuild(told)) is HaloError
    assert rebuild(told).message
