"""A process that dies in a compaction leaves the conversation as it was, or shortened; never in between."""

from __future__ import annotations

from halo_kernel import ContextCut, InputAdded, Text
from halo_kernel.testing import CrashPoints, Workbench, journal, until

SAID = [f"word {number}" for number in range(4)]


async def talk(halo: Workbench) -> None:
    session = await halo.session("talk_1")
    for text in SAID:
        await halo.ask(text, session=session)


async def compact(halo: Workbench) -> None:
    session = await halo.session("talk_1")
    assert await session.compact()


async def go_on(halo: Workbench) -> None:
    """The next message is answered from the whole history or from the shortened one, as the journal says."""
    session = await halo.session("talk_1")
    result = await halo.ask("and now?", session=session)
    assert result.outcome == "succeeded"
    await until(lambda: session.info.state == "idle")
    bodies = [event.body for event in await journal(session)]
    assert [body.text for body in bodies if isinstance(body, InputAdded)] == [*SAID, "and now?"], "no nudge, no loss"
    cut = [body for body in bodies if isinstance(body, ContextCut)]
    assert len(cut) <= 1
    request = next(each for each in reversed(halo.model.requests) if each.purpose == "turn")
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    assert texts[0].startswith("[Conversation Summary — 3 messages") if cut else texts[0] == SAID[0]
    assert texts[-2:] == [f"echo: {SAID[-1]}", "and now?"]


def test_a_crash_in_a_compaction_leaves_the_history_whole(crash_points: CrashPoints) -> None:
    """Wherever it is killed, the session opens, is not told to go on, and answers what comes next."""
    died = crash_points(compact, go_on, prepare=talk)
    told = " ".join(map(str, died))
    assert "make_room" in told or "Desk.commit" in told
    assert "Session.append" in told
