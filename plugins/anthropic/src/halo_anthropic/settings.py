"""The settings of the section `anthropic`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Secret, Section
from halo_lib_wire import DEFAULT_MAX_TOKENS

# The variables of each vendor's key, the first being the one that people are told to set.
VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "qwen": ("DASHSCOPE_API_KEY",),
    "mimo-token-plan-china": ("MIMO_API_KEY",),
}


def _key(owner: str, vendor: str) -> Meta:
    return Meta(description=f"Key of {owner}.", extra={"env": VARIABLES[vendor]})


class AnthropicSettings(Struct, frozen=True, kw_only=True):
    """Keys of the vendors that speak the Messages API, and where Anthropic's models are reached."""

    api_key: Annotated[
        Secret | None,
        Meta(description="Key of Anthropic, or of the server at base_url.", extra={"env": VARIABLES["anthropic"]}),
    ] = None
    base_url: Annotated[
        str,
        Meta(
            description="Base URL of a server that speaks the Messages API, such as a gateway; empty: Anthropic.",
            extra={"env": "ANTHROPIC_BASE_URL"},
        ),
    ] = ""
    models: Annotated[
        tuple[str, ...],
        Meta(description="Models to offer beside the listed ones; the first is used when nobody names one."),
    ] = ()
    max_tokens: Annotated[
        int,
        Meta(ge=1, description="Longest answer, in tokens, of a model whose own limit is not listed."),
    ] = DEFAULT_MAX_TOKENS
    minimax_api_key: Annotated[Secret | None, _key("MiniMax", "minimax")] = None
    qwen_api_key: Annotated[Secret | None, _key("Qwen (Alibaba Cloud Model Studio)", "qwen")] = None
    mimo_token_plan_china_api_key: Annotated[
        Secret | None, _key("Xiaomi MiMo's token plan", "mimo-token-plan-china")
    ] = None
    keys: Annotated[dict[str, Secret], Meta(description="Keys of vendors with a manifest of your own, by its id.")] = {}


SECTION = Section("anthropic", AnthropicSettings, global_only=True)
