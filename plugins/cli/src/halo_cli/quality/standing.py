"""Where a plugin stands on the scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from .project import Project
from .rules import RULES
from .scale import TIERS, Rule, Tier, read_scale

State = Literal["kept", "broken", "exempt"]


class Decided(Struct, frozen=True, kw_only=True):
    """A rule, and whether it is kept; `why` is what is wrong, or the reason why the rule is not for this plugin."""

    rule: str
    tier: Tier
    state: State
    why: tuple[str, ...] = ()
    advice: str = ""


class Standing(Struct, frozen=True, kw_only=True):
    """The tier that a plugin stands at, '' below all, the next one, '' at the top, and every rule."""

    tier: Tier | Literal[""]
    next: Tier | Literal[""]
    rules: tuple[Decided, ...]

    @property
    def missing(self) -> list[Decided]:
        """What the next tier asks for."""
        return [each for each in self.rules if each.state == "broken" and each.tier == self.next]

    @property
    def exempt(self) -> list[Decided]:
        """The rules that are not for this plugin."""
        return [each for each in self.rules if each.state == "exempt"]

    def reaches(self, tier: Tier) -> bool:
        """Tell whether the plugin stands at a tier, or above it."""
        return bool(self.tier) and TIERS.index(self.tier) >= TIERS.index(tier)

    def lines(self) -> Iterator[str]:
        """Yield what people are told: the tier, what the next one asks for, and what is exempt."""
        yield f"quality: {self.tier or 'below bronze'}" + (f"; {self.next} asks for:" if self.next else "")
        for each in self.missing:
            yield f"  {each.rule}: {'; '.join(each.why[:3])}{' …' if len(each.why) > 3 else ''}"
            yield f"    what to do: {each.advice}"
        yield from (f"  exempt from {each.rule}: {each.why[0]}" for each in self.exempt)


def stand(project: Project) -> Standing:
    """Decide every rule of the scale for a project."""
    rules = tuple(_decided(rule, project) for rule in read_scale())
    broken = {each.tier for each in rules if each.state == "broken"}
    first = next((at for at, tier in enumerate(TIERS) if tier in broken), len(TIERS))
    return Standing(
        tier=TIERS[first - 1] if first else "", next=TIERS[first] if first < len(TIERS) else "", rules=rules
    )


def _decided(rule: Rule, project: Project) -> Decided:
    """An exemption from a rule that is kept is wrong too: it would hide what goes wrong later."""
    found, reason = tuple(RULES[rule.id](project)), project.exempt.get(rule.id)
    state: State = "broken" if found else "kept"
    if reason is not None:
        needless = "it is kept: take the exemption out of quality.toml"
        state, found = ("exempt", (reason,)) if found else ("broken", (needless,))
    return Decided(rule=rule.id, tier=rule.tier, state=state, why=found, advice=rule.advice if found else "")
