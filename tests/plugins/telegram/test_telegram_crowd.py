"""Many people, topics and bots at once: every answer is where its question was."""

from __future__ import annotations

from collections.abc import Mapping

from tests.platforms.telegram import Stage

from halo_kernel import Account
from halo_kernel.testing import Workbench, until

from .conftest import repeat


async def test_no_answer_is_in_a_wrong_place(halo: Workbench, telegram_env: Mapping[str, str], stage: Stage) -> None:
    """Three bots, ten people and twenty topics, interleaved: each message has its answer, there and nowhere else."""
    halo.model.responder = repeat
    kernel = await halo.start(env=telegram_env)
    bots = [stage.bot(f"lamp{number}_bot") for number in range(3)]
    for bot in bots:
        account = Account(type="telegram", id=bot["username"], workspace=str(halo.folder))
        await kernel.host.accounts.put(account, secrets={"token": bot["token"]})
    people = [stage.user(f"user {number}") for number in range(10)]
    forums = [stage.group(f"Lamps {number}", people, bots=[bots[number]["id"]], forum=True) for number in range(2)]
    for forum in forums:
        stage.say(people[0], "Hello, all", chat=forum)
    topics = [(index, forum, stage.topic(forum, f"t{n}")) for n in range(10) for index, forum in enumerate(forums)]
    await kernel.work()
    for number, (index, forum, topic) in enumerate(topics):
        person = people[number % 10]
        stage.say(person, f"@lamp{index}_bot topic {number}", chat=forum, thread=topic, bot=bots[index]["id"])
        stage.say(person, f"alone {number}", bot=bots[2]["id"])

    def wrong() -> list[str]:
        seen = {f"topic {n}": stage.texts(chat=forum, thread=topic) for n, (_, forum, topic) in enumerate(topics)}
        return [said for said, texts in seen.items() if texts != [f"You said: {said}"]]

    await until(lambda: not wrong(), 30, what=f"an answer in each topic (wrong: {wrong()})")
    for number, person in enumerate(people):

        def answered(person: int = person, number: int = number) -> bool:
            texts = "\n".join(stage.texts(person, bot=bots[2]["id"]))
            return f"alone {number}" in texts and f"alone {number + 10}" in texts

        await until(answered, 30, what="an answer in each private chat")
        foreign = [text for text in stage.texts(person, bot=bots[2]["id"]) if "topic" in text]
        assert foreign == []
