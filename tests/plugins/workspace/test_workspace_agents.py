"""Agents as folders: which one counts, which is the default, and what a broken one says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from halo_kernel import BadFile, NotFound, WorkspaceInfo
from halo_workspace.catalog import Catalog
from halo_workspace.definition import read_definition

TOOLS = "tools: [file_read]\n"


@pytest.fixture
def catalog(site: Any, log: Any) -> Catalog:
    return Catalog(site.home, log)


def info(site: Any) -> WorkspaceInfo:
    return WorkspaceInfo(id="w", path=str(site.folder))


def test_a_folder_of_the_workspace_replaces_the_homes_whole(site: Any, catalog: Catalog) -> None:
    """What the workspace has of an id is all there is of it."""
    site.write({"home/agents/x/agent.yaml": "name: Home\ndescription: there"})
    site.write({"workspace/.halo/agents/x/agent.yaml": ""})
    found = catalog.find(info(site), "x")
    assert found is not None
    assert (found.name, found.description, found.source) == ("x", "", f"{site.folder}/.halo/agents/x")


def test_a_folder_without_agent_yaml_makes_the_agent_unusable(site: Any, catalog: Catalog) -> None:
    """Nothing falls back to the home when the workspace has the folder but not the file."""
    site.write({"home/agents/x/agent.yaml": "name: Home", "workspace/.halo/agents/x/AGENT.md": "Hello."})
    with pytest.raises(BadFile, match=r"has no agent\.yaml"):
        catalog.find(info(site), "x")
    assert catalog.list(info(site)) == []


def test_agents_come_by_priority_and_the_workspaces_first(site: Any, catalog: Catalog, log: Any) -> None:
    """The order is the highest priority first, the workspace's own before the home's among equals."""
    site.write(
        {
            "home/agents/alpha/agent.yaml": "priority: 5",
            "home/agents/beta/agent.yaml": "priority: 9",
            "workspace/.halo/agents/zeta/agent.yaml": "priority: 5",
            "workspace/.halo/agents/broken/agent.yaml": "priority: high",
            "workspace/.halo/agents/not a name/agent.yaml": "",
        }
    )
    assert [agent.id for agent in catalog.list(info(site))] == ["beta", "zeta", "alpha"]
    assert [warning["agent"] for warning in log.warnings] == ["broken"]


async def test_the_default_agent_is_the_best_that_is_not_internal(site: Any, running: Any) -> None:
    """A session without a name gets the highest priority, never an internal agent."""
    site.write({"workspace/.halo/agents/boss/agent.yaml": "priority: 100"})
    site.write({"home/agents/__x__/agent.yaml": "internal: true\npriority: 999"})
    async with running() as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        assert kernel.workspaces.agent(workspace).id == "boss"
        (site.folder / ".halo/agents/boss/agent.yaml").unlink()
        assert kernel.workspaces.agent(workspace).id == "default"


async def test_an_unknown_agent_is_not_found(site: Any, running: Any) -> None:
    """A name that no folder has, and one that is a path, are not found."""
    site.write({"workspace/secret/agent.yaml": "name: x"})
    async with running() as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        for name in ("nobody", "../../secret", "..", "a/b"):
            with pytest.raises(NotFound):
                kernel.workspaces.agent(workspace, name)


def test_the_model_may_be_left_to_the_kernel(site: Any) -> None:
    """Without a model block there is no choice; with one, provider and id make the name and the rest are options."""
    assert read_definition(TOOLS, agent="x", folder="/f").spec.model is None
    text = "model: {provider: openai, id: org/gpt, maxTokens: 9, endpoint: 'http://x', thinking: {enabled: true}}"
    model = read_definition(text, agent="x", folder="/f").spec.model
    assert model is not None
    assert (model.model, model.max_tokens, model.endpoint) == ("openai/org/gpt", 9, "http://x")
    assert model.options == {"thinking": {"enabled": True}}


def test_an_agent_names_its_fallbacks() -> None:
    """`fallbacks` of a model are the models to ask when it fails, and no option of its provider."""
    text = "model: {provider: a, id: x, fallbacks: [b/y, c/z]}"
    model = read_definition(text, agent="x", folder="/f").spec.model
    assert model is not None and (model.fallbacks, model.options) == (("b/y", "c/z"), {})


def test_the_context_may_be_left_to_the_model() -> None:
    """An agent says how long a conversation may get and when it is made shorter, or nothing of it."""
    spec = read_definition(TOOLS, agent="x", folder="/f").spec
    assert (spec.context_tokens, spec.compress_at) == (None, None)
    spec = read_definition("context: {maxTokens: 60000, compressAt: 0.8}", agent="x", folder="/f").spec
    assert (spec.context_tokens, spec.compress_at) == (60000, 0.8)


def test_no_tools_means_none() -> None:
    """An agent that lists no tools has none."""
    assert read_definition("name: x", agent="x", folder="/f").spec.tools == ()


@pytest.mark.parametrize(
    ("text", "line", "key", "rule"),
    [
        ("name: x\nmodel:\n  provider: 5\n  id: y", 3, "model.provider", "must be text, not a whole number"),
        ("name: x\nmodel:\n  provider: a", 2, "model.id", "is required"),
        ("name: x\nmodel:\n  id: a\n  provider:", 2, "model.provider", "is required"),
        ("tools:\n- a\n- [b]", 3, "tools[1]", "must be text, not a list"),
        ("\n\ntools: a", 3, "tools", "must be a list, not text"),
        ("priority: high", 1, "priority", "must be a whole number, not text"),
        ("internal: maybe", 1, "internal", "must be true or false, not text"),
        ("context:\n  compressAt: 2", 2, "context.compressAt", "must be a number <= 1"),
        ("model: {provider: '', id: x}", 1, "model.provider", "not empty"),
        ("model: {provider: a, id: b, verbosity: loud}", 1, "model.verbosity", "'loud'"),
        ("- a", 1, "", "must be a mapping, not a list"),
        ("name: [", 1, "", "not YAML"),
        ("name: x\n  bad: y", 2, "", "not YAML"),
        ("name: x\nname: y", 2, "", "duplicate key"),
        ("priority: !!int ''", 0, "", "not YAML"),
        ("internal: !!bool x", 0, "", "not YAML"),
    ],
)
def test_a_broken_file_names_line_key_and_rule(text: str, line: int, key: str, rule: str) -> None:
    """The error says the file, the line, the key, and what is asked for."""
    with pytest.raises(BadFile) as caught:
        read_definition(text, agent="x", folder="/f")
    error = caught.value
    assert (error.path, error.line, error.field) == ("/f/agent.yaml", line, key)
    where = f"/f/agent.yaml, line {line}" if line else "/f/agent.yaml: "
    assert where in error.message and key in error.message and rule in error.message


def test_a_small_file_that_stands_for_a_billion_values_is_refused() -> None:
    """Aliases of aliases are counted as what they stand for."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    for text in ("\n".join(rows), "a: &a [*a]", "[" * 5000, "- " * 900):
        with pytest.raises(BadFile, match="nested too deeply"):
            read_definition(text, agent="x", folder="/f")


def test_a_very_long_file_is_refused() -> None:
    """Parsing takes no longer than a person's file can need."""
    with pytest.raises(BadFile, match="longer than 64000"):
        read_definition("name: x\n" * 9000, agent="x", folder="/f")


def test_unknown_keys_are_ignored_with_a_line_in_the_log(site: Any, catalog: Catalog, log: Any) -> None:
    """A key that nothing reads stays in the file, is logged with its line, and once as long as the file is the same."""
    text = "name: x\nfuture: 1\nmodel:\n  provider: a\n  id: b\n  speed: 2\n"
    site.write({"home/agents/x/agent.yaml": text})
    for _ in range(3):
        assert catalog.find(info(site), "x") is not None
    assert [(warning["key"], warning["line"]) for warning in log.warnings] == [("future", 2), ("model.speed", 6)]
    assert (site.home / "global/agents/x/agent.yaml").read_text() == text


def test_an_edit_is_seen_at_once(site: Any, catalog: Catalog) -> None:
    """A file is read again when it changed, broken or whole."""
    site.write({"home/agents/x/agent.yaml": "name: One"})
    assert catalog.find(info(site), "x").name == "One"  # type: ignore[union-attr]
    site.write({"home/agents/x/agent.yaml": "name: Two"})
    assert catalog.find(info(site), "x").name == "Two"  # type: ignore[union-attr]
    site.write({"home/agents/x/agent.yaml": "name: ["})
    for _ in range(2):
        with pytest.raises(BadFile):
            catalog.find(info(site), "x")
    site.write({"workspace/.halo/agents/x/agent.yaml": "name: Three"})
    assert catalog.find(info(site), "x").name == "Three"  # type: ignore[union-attr]


def test_a_link_out_of_the_workspace_is_not_followed(site: Any, catalog: Catalog, tmp_path: Path) -> None:
    """A clone cannot make an agent out of files elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/agent.yaml").write_text("name: secret")
    (site.folder / ".halo/agents").mkdir(parents=True)
    (site.folder / ".halo/agents/x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile) as caught:
        catalog.find(info(site), "x")
    assert "secret" not in caught.value.message


SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
KEYS = (
    "name",
    "description",
    "model",
    "tools",
    "skills",
    "team",
    "context",
    "priority",
    "internal",
    "system_prompt",
    "x",
)
INNER = ("provider", "id", "endpoint", "maxTokens", "thinking", "enabled", "y")
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=4),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=60), st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=6)))
def test_any_text_is_an_agent_or_one_clear_error(content: object) -> None:
    """Whatever the file holds, it is an agent or a `BadFile` with its path and a line that it has."""
    text = content if isinstance(content, str) else ""
    if not isinstance(content, str):
        stream = io.StringIO()
        YAML(typ="safe", pure=True).dump(content, stream)
        text = stream.getvalue()
    try:
        spec = read_definition(text, agent="x", folder="/f").spec
    except BadFile as error:
        assert error.path == "/f/agent.yaml" and 0 <= error.line <= text.count("\n") + text.count("\r") + 3
        assert error.message.startswith("/f/agent.yaml")
    else:
        assert spec.id == "x" and (spec.model is None or "/" in spec.model.model)
