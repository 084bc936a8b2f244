"""Where Halo's own plugins stand on the quality scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from halo_cli.quality.project import read_project
from halo_cli.quality.standing import stand
from halo_cli.trials import tried
from halo_kernel import Verdict

MOST_EXEMPTIONS = 2


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Verdict]:
    """What is found when every plugin of this environment is tried out."""
    return list(tried(tmp_path_factory.mktemp("home"), [], anew=True))


def test_our_own_stand_at_gold(every: list[Any], verdicts: Sequence[Verdict]) -> None:
    """Each plugin stands at gold, with at most two exemptions from the rules up to there."""
    plugins = [each for each in every if each.is_plugin]
    standings = {each.name: stand(read_project(each.folder, verdicts)) for each in plugins}
    low = {name: list(found.lines()) for name, found in standings.items() if not found.reaches("gold")}
    assert low == {}
    assert {name: len(found.exempt) for name, found in standings.items() if len(found.exempt) > MOST_EXEMPTIONS} == {}


def test_the_examples_stand_at_silver(example: Any) -> None:
    """Each example stands at silver by what can be read of it; its own environment tries it out, too."""
    nothing: dict[str, Any] = dict.fromkeys(("faults", "remarks", "hooks", "capabilities"), ())
    untried = Verdict(name=example.name, distribution=example.name, version="", seconds=0, **nothing)
    standing = stand(read_project(Path(example.folder), [untried]))
    assert standing.reaches("silver"), list(standing.lines())
