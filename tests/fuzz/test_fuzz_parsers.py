"""Made-up text and bytes for everything that reads what others wrote: a value, or the error that is named for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import AgentSpec, BadFile, BadInput, CursorGone, HaloError, ModelError, SessionInfo, SettingsFile, Stop
from halo_kernel.egress import parse_allowed
from halo_kernel.journal import make_cursor, parse_cursor
from halo_kernel.log import logger
from halo_kernel.manifests import read_manifest
from halo_kernel.outbox.courier import lane_of
from halo_kernel.settings.loaded import Declared, Reading
from halo_kernel.settings.sections import KERNEL_SECTIONS
from halo_lib_client.client import read_events
from halo_lib_wire import ChatDecoder, MessagesDecoder, SseParser
from halo_lib_wire.vendors.endpoint import parse_endpoint
from halo_lib_wire.vendors.manifests import load_manifests
from halo_openai.family import FAMILY
from halo_search.finding import Cursor
from halo_search.finding import parse_cursor as parse_page
from halo_search.query import parse_query
from halo_workspace.catalog import Catalog
from halo_workspace.definition import read_definition
from halo_workspace.prompts import compose

from . import words
from .amount import SECONDS, amount
from .words import prose

pytestmark = pytest.mark.timeout(SECONDS)

DECLARED = Declared(("kernel", section) for section in KERNEL_SECTIONS)


def settings(text: str) -> object:
    """Read a text as the home's settings and, below these, as a workspace's."""
    home = Reading(SettingsFile(Path("settings.yaml"), text), DECLARED, {"HOME": '"\n'})
    return Reading(SettingsFile(Path("w", "settings.yaml"), text), home, None).fields


def endpoint(text: str) -> object:
    """Read a base URL; what was made exact is exact."""
    found = parse_endpoint(text, field="endpoint")
    assert parse_endpoint(found.url, field="endpoint") == found
    return found.origin, found.is_loopback, found.shown, found.path("x")


READERS: dict[str, tuple[Callable[[str], object], st.SearchStrategy[str], tuple[type[Exception], ...]]] = {
    "agent.yaml": (
        lambda text: read_definition(text, agent="a", folder="f"),
        prose(*words.YAML, *words.AGENT),
        (BadFile,),
    ),
    "settings.yaml": (settings, prose(*words.YAML, *words.SETTINGS), (BadInput,)),
    "an endpoint": (endpoint, prose(*words.URL), (BadInput,)),
    "egress.allow": (parse_allowed, prose(*words.URL), (ValueError,)),
    "a search": (lambda text: parse_query(text).expression(1), prose(*words.QUERY), (BadInput,)),
    "a page": (parse_page, prose(".", "1", "9" * 20, "-"), (BadInput,)),
    "a cursor": (lambda text: parse_cursor(text, "j", 9), prose("j.", ".", "9" * 20, "٣"), (BadInput, CursorGone)),
    "a route": (lambda text: lane_of("post", text), prose("post:", ":", "a"), ()),
}


@pytest.mark.parametrize("name", READERS)
@amount(200)
@given(data=st.data())
def test_a_value_or_the_named_error(name: str, data: st.DataObject) -> None:
    """Whatever somebody writes is understood, or refused with a sentence."""
    read, texts, errors = READERS[name]
    try:
        read(data.draw(texts))
    except errors as error:
        assert str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a home, and with a package that can be imported."""
    found = tmp_path_factory.mktemp("made_up")
    (found / "made_up").mkdir()
    (found / "made_up" / "__init__.py").touch()
    (found / "home" / "global" / "models").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(found)
        yield found


@amount(100)
@given(text=prose(*words.FRONT))
def test_front_matter_is_text_with_names_in_it(folder: Path, text: str) -> None:
    """A profile with or without front matter, closed or not, makes a prompt."""
    home = folder / "home"
    (home / "global" / "USER.md").write_bytes(text.encode(errors="replace"))
    info = SessionInfo(
        id="s", root="s", workspace="w", folder=str(folder), agent="a", access="full", principal="operator"
    )
    assert compose(info, AgentSpec(id="a", name="a"), Catalog(home, logger("test")))


@amount(100)
@given(text=prose(*words.YAML, *words.VENDOR))
def test_a_vendor_or_a_file_that_is_broken(folder: Path, text: str) -> None:
    """A person's file about a vendor is taken or is in the list with what is wrong; no other vendor suffers from it."""
    models = folder / "home" / "global" / "models"
    (models / "mine.yaml").write_bytes(text.encode(errors="replace"))
    assert {each.id for each in load_manifests(models, FAMILY)} >= set(FAMILY.order) - {"kimi"}


@amount(200)
@given(raw=prose(*words.TOML).map(lambda text: text.encode(errors="surrogatepass")) | st.binary(max_size=40))
def test_a_manifest_or_a_file_that_is_bad(folder: Path, raw: bytes) -> None:
    """Whatever bytes a plugin ships as its halo.toml, they are a manifest or refused with the file's name."""
    path = folder / "made_up" / "halo.toml"
    path.write_bytes(raw)
    try:
        assert read_manifest("made_up").allows("0.1.0") in (True, False)
    except BadFile as error:
        assert error.path == str(path)


# Streams

PIECES = st.lists(st.sampled_from(words.SSE) | st.binary(max_size=5), max_size=20)


@amount(300)
@given(pieces=PIECES)
def test_a_stream_is_the_same_however_it_comes(pieces: list[bytes]) -> None:
    """Bytes that are no stream are events or nothing; too long an event is a `ValueError`."""
    whole, cut = SseParser(), SseParser()
    expected = [*whole.feed(b"".join(pieces)), *whole.close()]
    assert [event for piece in pieces for event in cut.feed(piece)] + cut.close() == expected
    with suppress(ValueError):
        SseParser(limit=8).feed(b"".join(pieces))


@amount(300)
@given(pieces=PIECES)
def test_a_client_reads_events_or_says_that_it_cannot(pieces: list[bytes]) -> None:
    """What is between a server and its client may write anything into a stream."""
    with suppress(HaloError):
        list(read_events(pieces))


DECODERS: dict[str, tuple[Callable[[], Any], st.SearchStrategy[Any]]] = {
    "chat": (lambda: ChatDecoder(new_id=lambda: "new"), words.CHAT),
    "chat with tags": (lambda: ChatDecoder(new_id=lambda: "new", think_tags=True), words.CHAT),
    "messages": (lambda: MessagesDecoder(new_id=lambda: "new", issuer="me"), words.MESSAGE),
}


@pytest.mark.parametrize("name", DECODERS)
@amount(300)
@given(data=st.data())
def test_an_answer_or_an_error_of_the_model(name: str, data: st.DataObject) -> None:
    """Whatever a server streams is an answer that can be stored and ends once, or a `ModelError` that can be shown."""
    new, events = DECODERS[name]
    decoder, chunks = new(), list[Any]()
    try:
        for said in data.draw(st.lists(events.map(json.dumps) | words.ODD, max_size=6)):
            chunks += decoder.feed(said)
        chunks += decoder.finish()
    except ModelError as error:
        assert f"{error.message}{error.advice}".encode()
    else:
        assert [each for each in chunks if isinstance(each, Stop)] == chunks[-1:]
    for chunk in chunks:
        assert msgspec.json.encode(chunk)


# There and back

COUNT = st.integers(0, 10**15 - 1)


@amount(100)
@given(journal=st.text("0123456789abcdef", min_size=1), seq=COUNT)
def test_a_cursor_is_read_as_it_was_given_out(journal: str, seq: int) -> None:
    """A position in a journal comes back as itself, and is none of any other journal."""
    assert parse_cursor(make_cursor(journal, seq), journal, seq) == seq
    with pytest.raises(CursorGone):
        parse_cursor(make_cursor(journal, seq), f"{journal}0", seq)


@amount(100)
@given(cursor=st.builds(Cursor, now=COUNT, upto=COUNT, behind=st.integers(0, 1000)))
def test_a_page_is_read_as_it_was_given_out(cursor: Cursor) -> None:
    """Where a search goes on is read as it was written."""
    assert parse_page(str(cursor)) == cursor


@amount(100)
@given(parts=st.lists(st.text("ab/-@é"), min_size=2, max_size=4))
def test_a_route_leads_to_its_chat(parts: list[str]) -> None:
    """A thread is in the lane of its chat, and an account's lanes share a lease."""
    account, chat, *_ = parts
    lane = lane_of("post", ":".join(["post", *parts]))
    assert (lane.lease, lane.chat) == (f"deliver:post:{account}", chat)
