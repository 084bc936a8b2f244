"""`/help`: what can be asked for, as far as whoever asks may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from halo_kernel import Access, CommandResult, CommandSpec, CommandVerb, NotFound, fold_access

from .commands import SHORT_FORMS, Asked


async def show(asked: Asked) -> CommandResult:
    """List all commands, or tell about one."""
    word = asked.arguments.removeprefix("/").lower()
    if word:
        return await show_one(word)(asked)
    lines = [_line(spec, asked.level) for spec in await asked.session.commands() if _may_use(spec, asked.level)]
    return CommandResult(text="\n".join([*lines, "", "/help <command> tells more about one."]))


def show_one(name: str) -> Callable[[Asked], Awaitable[CommandResult]]:
    """Return what tells about one command."""

    async def tell(asked: Asked) -> CommandResult:
        found = next((spec for spec in await asked.session.commands() if spec.name == name), None)
        if found is None or not _may_use(found, asked.level):
            raise NotFound(f"there is no command /{name} for you", advice="/help lists those that there are")
        return CommandResult(text="\n".join(_details(found, asked.level)))

    return tell


def _may(needed: Access, level: Access) -> bool:
    return fold_access(needed, level) == needed


def _verbs(spec: CommandSpec, level: Access) -> Sequence[tuple[str, CommandVerb]]:
    return [(name, verb) for name, verb in spec.verbs.items() if _may(verb.access, level)]


def _may_use(spec: CommandSpec, level: Access) -> bool:
    return bool(_verbs(spec, level)) if spec.verbs else _may(spec.access, level)


def _line(spec: CommandSpec, level: Access) -> str:
    words = " | ".join(name for name, _ in _verbs(spec, level)) or spec.arguments
    return f"/{spec.name} {words}".strip() + f" – {spec.summary}"


def _details(spec: CommandSpec, level: Access) -> list[str]:
    lines = [f"/{spec.name} {spec.arguments}".strip() + f" – {spec.summary}"]
    shorts = {whole: short for short, whole in SHORT_FORMS.items()}
    for name, verb in _verbs(spec, level):
        short = shorts.get((spec.name, name))
        others = [*(f"/{spec.name} {alias}" for alias in verb.aliases), *([f"/{short}"] if short else [])]
        also = f" Also {', '.join(others)}." if others else ""
        lines.append(f"/{spec.name} {name} {verb.arguments}".rstrip() + f" – {verb.summary}{also}")
    return lines
