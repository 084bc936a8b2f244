"""`/session`, `/agent` and `/help`: what each does, what it answers, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Access, CommandFinished, Incoming, Kernel, NotFound, Principal, Session
from halo_kernel.testing import Answer, Calls, Hang, ScriptedModel, journal, until

BIRD = "name: Bird\ndescription: Knows birds.\ntools: [note]\ncontext:\n  maxTokens: 60000\n"


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def kernel(site: Any, running: Any, model: ScriptedModel) -> AsyncIterator[Kernel]:
    site.write({"workspace/.halo/agents/bird/agent.yaml": BIRD, "workspace/.halo/agents/bird/AGENT.md": "Sing."})
    (site.folder / "nest").mkdir()
    async with running(model) as kernel:
        yield kernel


async def a_session(kernel: Kernel, site: Any, principal: str = "ann", **options: Any) -> Session:
    workspace = await kernel.workspaces.open(site.folder)
    owner = Principal(name=principal, access=options.pop("level", "full"))
    return await kernel.host.sessions.create(workspace=workspace.id, principal=owner, **options)


async def ask(session: Session, text: str, access: Access | None = None, name: str = "ann") -> CommandFinished:
    """Ask for a command and return what the journal says of it."""
    await session.submit(Incoming(text=text, access=access, principal=Principal(name=name)))
    return [e.body for e in await journal(session) if isinstance(e.body, CommandFinished)][-1]


async def other(kernel: Kernel, session: Session, answer: CommandFinished) -> Session:
    """Open the session in which the conversation goes on."""
    assert answer.session
    owner = Principal(name=session.info.principal)
    return await kernel.host.sessions.open(answer.session, workspace=session.info.workspace, principal=owner)


async def test_new_keeps_agent_folder_origin_and_owner(kernel: Kernel, site: Any) -> None:
    """`/session new` goes on in an empty session like the root, of the same owner, whoever of the chat asks."""
    session = await a_session(kernel, site, agent="bird", origin="line", directory="nest")
    answer = await ask(session, "/session new", name="bob")
    made = (await other(kernel, session, answer)).info
    assert (made.agent, made.directory, made.origin, made.principal) == ("bird", "nest", "line", "ann")
    assert made.id.startswith("line_") and made.id in answer.text and made.id != session.info.id
    child = await session.start_child("default", directory="")
    below = (await other(kernel, session, await ask(child, "/sn"))).info
    assert (below.parent, below.agent, below.directory) == (None, "bird", "nest")


async def test_new_without_its_folder_is_about_the_workspace(kernel: Kernel, site: Any) -> None:
    """A folder that is gone is not kept, and the answer says so."""
    session = await a_session(kernel, site, directory="nest")
    (site.folder / "nest").rmdir()
    answer = await ask(session, "/s n")
    assert (await other(kernel, session, answer)).info.directory == ""
    assert answer.text.endswith("The folder nest is not there any more.")


async def test_the_list_shows_the_newest_50(kernel: Kernel, site: Any) -> None:
    """The newest come first, archived and foreign ones not at all, and the one that asks is marked."""
    session = await a_session(kernel, site, title="the\nfirst")
    for number in range(51):
        await a_session(kernel, site, title=f"talk {number}")
    await (await a_session(kernel, site, title="gone")).archive()
    await a_session(kernel, site, "bob", title="foreign")
    lines = (await ask(session, "/session list")).text.split("\n")
    assert len(lines) == 50 and lines[0].startswith("1. talk 50 – sid_") and lines[49].startswith("50. talk 1 –")
    one = await a_session(kernel, site, "eve", title="the\nfirst")
    (line,) = (await ask(one, "/sl", name="eve")).text.split("\n")
    assert re.fullmatch(rf"1\. the first – {one.info.id}, default, [\d-]+ [\d:]+ UTC \(this one\)", line)


async def test_below_full_only_the_same_origin_is_listed(kernel: Kernel, site: Any) -> None:
    """Who may less than all sees and reaches the sessions of the own origin."""
    session = await a_session(kernel, site, origin="line")
    far = await a_session(kernel, site, origin="web")
    assert far.info.id in (await ask(session, "/sl")).text
    assert far.info.id not in (await ask(session, "/sl", "workspace")).text
    assert not (await ask(session, f"/ss {far.info.id}", "workspace")).ok
    assert (await ask(session, f"/ss {far.info.id}")).session == far.info.id


async def test_switch_by_id_number_and_title(kernel: Kernel, site: Any) -> None:
    """A session is meant by its id, its number in the list, or how its title begins, if that is one."""
    herons = await a_session(kernel, site, title="Herons at dawn")
    hens = await a_session(kernel, site, title="Hens")
    session = await a_session(kernel, site)
    for word, meant in [(herons.info.id, herons), ("2", hens), ("herons", herons), ("HEN", hens)]:
        assert (await ask(session, f"/session switch {word}")).session == meant.info.id
    for word, said in [("he", "several titles begin so"), ("4", "there is no session"), ("", "say which session")]:
        answer = await ask(session, f"/session switch {word}")
        assert (answer.ok, answer.session) == (False, "") and answer.text.startswith(said)
    assert (await ask(session, "/session switch 1")).session == ""
    await herons.archive()
    assert "is archived" in (await ask(session, f"/session switch {herons.info.id}")).text


async def test_info_and_context(kernel: Kernel, site: Any, model: ScriptedModel) -> None:
    """Info tells what a session is; context what the model is given, and what of it is large."""
    session = await a_session(kernel, site, agent="bird", title="Song")
    before = (await ask(session, "/session ctx")).text
    assert "Tokens: no call yet" in before and ".halo/agents/bird/AGENT.md" in before
    model.then(Calls([("note", {"text": "x"})]), Answer("done"))
    await session.prompt(Incoming(text="word " * 2000, principal=Principal(name="ann"))).result
    info = dict(line.split(": ", 1) for line in (await ask(session, "/si")).text.split("\n"))
    assert (info["Session"], info["Title"], info["Agent"], info["State"]) == (session.info.id, "Song", "bird", "idle")
    lines = dict(line.split(": ", 1) for line in (await ask(session, "/session context")).text.split("\n"))
    assert lines["Model"] == "scripted/model" and lines["At most"] == "60,000 tokens"
    assert lines["Tokens"].endswith(" in the last call")
    assert ".halo/agents/bird/AGENT.md" in lines["Prompt"] and "global/prompts/all" in lines["Prompt"]
    assert lines["Largest"].startswith("messages about 2,") and "results of note about" in lines["Largest"]


async def test_stop_and_interrupt(kernel: Kernel, site: Any, model: ScriptedModel) -> None:
    """Interrupt cancels the turn, stop the session too; where nothing runs, interrupt says so."""
    model.responder = lambda request: Hang()
    session = await a_session(kernel, site)
    assert (await ask(session, "/session int")).text == "Nothing runs here."
    running = session.prompt(Incoming(text="go", principal=Principal(name="ann")))
    await until(lambda: model.active)
    assert "State: running" in (await ask(session, "/session info")).text
    assert (await ask(session, "/session interrupt")).text == "Interrupted."
    assert (await running.result).outcome == "cancelled" and not session.info.stopped
    running = session.prompt(Incoming(text="go", principal=Principal(name="ann")))
    await until(lambda: model.active)
    assert (await ask(session, "/session st")).ok and session.info.stopped
    assert (await running.result).outcome == "cancelled"


async def test_compact_says_what_came_of_it(kernel: Kernel, site: Any, model: ScriptedModel) -> None:
    """Without anything to shorten the history stays, and while a turn runs it is refused with what to do."""
    session = await a_session(kernel, site)
    assert (await ask(session, "/session compact")).text == "The history stays as it is."
    model.responder = lambda request: Hang()
    session.prompt(Incoming(text="go", principal=Principal(name="ann")))
    await until(lambda: model.active)
    refused = await ask(session, "/session compact")
    assert not refused.ok and refused.text.endswith("is running. wait until it rests")
    session.interrupt()


async def test_fork_rename_and_archive(kernel: Kernel, site: Any) -> None:
    """A copy goes on with the history; a title is given; an archived session takes no message, and says what to do."""
    session = await a_session(kernel, site)
    await session.prompt(Incoming(text="hello", principal=Principal(name="ann"))).result
    copy = await other(kernel, session, await ask(session, "/session fork Another way"))
    assert copy.info.title == "Another way" and "] hello'" in str(await journal(copy))
    assert "“Herons”" in (await ask(session, "/session rename Herons")).text and session.info.title == "Herons"
    assert not (await ask(session, "/session rename")).ok
    assert (await ask(session, "/session archive another")).ok and copy.info.archived
    answer = await ask(session, "/session archive")
    assert session.info.archived and answer.text.endswith("/session new begins another one.")
    assert (await ask(session, "/session new")).session


async def test_delete_is_for_full_and_for_another_session(kernel: Kernel, site: Any) -> None:
    """The session that asks is not deleted, nor the root above it; nor anything below `full`."""
    session, far = await a_session(kernel, site), await a_session(kernel, site, title="Old")
    assert (await ask(session, "/session delete old", "workspace")).text == "/session delete needs the level full."
    child = await session.start_child("default")
    for place in (session, child):
        refused = await ask(place, f"/session delete {session.info.id}")
        assert not refused.ok and f"/session delete {session.info.id}" in refused.text
    assert (await ask(session, "/session delete old")).text == f"{far.info.id} is deleted."
    assert far.info.id not in (await ask(session, "/session list")).text


async def test_agents_are_listed_described_and_switched_to(kernel: Kernel, site: Any) -> None:
    """Agents are found by id or name; another agent answers in a session of its own; folders are for `full`."""
    session = await a_session(kernel, site)
    listed = (await ask(session, "/al")).text.split("\n")
    assert "bird – Bird – Knows birds." in listed and any(line.endswith("(this one)") for line in listed)
    described = (await ask(session, "/agent desc Bird")).text
    assert "About: Knows birds." in described and "Tools: note" in described and str(site.folder) in described
    assert str(site.folder) not in (await ask(session, "/agent desc bird", "workspace")).text
    secrets = kernel.host.secrets
    secrets.path.parent.mkdir(parents=True, exist_ok=True)
    secrets.path.write_text('{"song": "birds-sing-7f3a"}')
    secrets.path.chmod(0o600)
    assert secrets.get("song")
    site.write({"workspace/.halo/agents/bird/agent.yaml": "description: Knows birds-sing-7f3a.\nname: Bird\n"})
    assert "birds-sing" not in (await ask(session, "/agent desc bird")).text
    made = await other(kernel, session, await ask(session, "/as bird"))
    assert made.info.agent == "bird"
    assert (await ask(session, "/agent switch default")).session == ""
    refused = await ask(session, "/agent switch crow")
    assert refused.text == "there is no agent 'crow' here. /agent list shows those that there are"


async def test_an_agent_is_deleted_so_that_it_can_come_back(kernel: Kernel, site: Any) -> None:
    """Its folder is moved away whole; never the agent one talks to, never below `full`, never through a link."""
    session, folder = await a_session(kernel, site), site.folder / ".halo/agents/bird"
    assert not (await ask(session, "/agent delete bird", "workspace")).ok and folder.exists()
    assert not (await ask(session, "/agent delete default")).ok
    answer = await ask(session, "/agent delete bird")
    place = Path(answer.text.partition("kept as ")[2].rstrip("."))
    assert answer.ok and not folder.exists() and (place / "AGENT.md").read_text() == "Sing."
    assert "bird" not in (await ask(session, "/agent list")).text
    place.rename(folder)
    assert "bird" in (await ask(session, "/agent list")).text
    trash, far = site.folder / ".halo/trash", site.folder.parent / "far"
    (trash / "agents").rmdir()
    trash.rmdir()
    trash.symlink_to(far)
    far.mkdir()
    assert "is a link" in (await ask(session, "/agent delete bird")).text and folder.exists()


async def test_a_session_outlives_its_agent(kernel: Kernel, site: Any, model: ScriptedModel) -> None:
    """A session whose agent is gone is opened, takes commands and is deleted; a message is refused by that name."""
    orphan = await a_session(kernel, site, agent="bird")
    healthy, name, workspace = await a_session(kernel, site), orphan.info.id, orphan.info.workspace
    assert (await ask(healthy, "/agent delete bird")).ok
    await orphan.close("abort")  # type: ignore[attr-defined]
    owner = Principal(name="ann")
    orphan = await kernel.host.sessions.open(name, workspace=workspace, principal=owner)
    with pytest.raises(NotFound, match="bird"):
        await orphan.submit(Incoming(text="sing", principal=owner))
    assert await orphan.waiting() == [] and model.requests == []
    assert (await ask(orphan, "/help")).ok and (await ask(orphan, "/session new")).session != ""
    await kernel.host.sessions.delete(name, workspace=workspace, principal=owner)
    with pytest.raises(NotFound):
        await kernel.host.sessions.open(name, workspace=workspace, principal=owner)


@pytest.mark.parametrize(("access", "seen"), [("full", True), ("readonly", False)])
async def test_help_lists_what_the_level_allows(kernel: Kernel, site: Any, access: Access, seen: bool) -> None:
    """Help has every command with the verbs that whoever asks may use, and tells more about one."""
    session = await a_session(kernel, site)
    text = (await ask(session, "/h", access)).text
    assert all(f"/{name} " in text for name in ("session", "agent", "help"))
    assert ("delete" in text) == seen and "switch" in text
    for asked in ("/help session", "/session", "/help /session"):
        more = (await ask(session, asked, access)).text
        assert "/session new – " in more and "Also /session n, /sn." in more and ("delete" in more) == seen
    assert not (await ask(session, "/help bird")).ok


async def test_commands_are_listed_with_their_verbs(kernel: Kernel, site: Any) -> None:
    """Every verb that lists have is carried out, and every one that is carried out is listed."""
    from halo_workspace.commands import resolve, specs

    session = await a_session(kernel, site)
    assert [spec.name for spec in await session.commands()] == ["agent", "help", "session"]
    for spec in specs():
        command: Any = resolve(spec.name, kernel.host, None)  # type: ignore[arg-type]
        assert set(command.acts) == {"", *spec.verbs} and command.spec == spec
