"""The settings of the section `openai`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Secret, Section

# The variables of each vendor's key, the first being the one that people are told to set.
VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "kimi": ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "hunyuan": ("HUNYUAN_API_KEY",),
    "doubao": ("ARK_API_KEY",),
    "zhipu": ("ZHIPU_API_KEY", "ZAI_API_KEY"),
}


class OpenAISettings(Struct, frozen=True, kw_only=True):
    """Keys of the vendors that speak chat completions, and one server of one's own."""

    base_url: Annotated[
        str,
        Meta(
            description="Base URL of a server that speaks chat completions, usually ending in /v1; empty: OpenAI.",
            extra={"env": "OPENAI_BASE_URL"},
        ),
    ] = ""
    api_key: Annotated[
        Secret | None,
        Meta(description="Key of OpenAI, or of the server at base_url.", extra={"env": VARIABLES["openai"]}),
    ] = None
    model: Annotated[
        str,
        Meta(description="Model to use there when nobody names one.", extra={"env": "OPENAI_MODEL"}),
    ] = ""
    kimi_api_key: Annotated[Secret | None, Meta(description="Key of Kimi.", extra={"env": VARIABLES["kimi"]})] = None
    deepseek_api_key: Annotated[
        Secret | None, Meta(description="Key of DeepSeek.", extra={"env": VARIABLES["deepseek"]})
    ] = None
    hunyuan_api_key: Annotated[
        Secret | None, Meta(description="Key of Tencent Hunyuan.", extra={"env": VARIABLES["hunyuan"]})
    ] = None
    doubao_api_key: Annotated[
        Secret | None, Meta(description="Key of Doubao (Volcengine Ark).", extra={"env": VARIABLES["doubao"]})
    ] = None
    zhipu_api_key: Annotated[
        Secret | None, Meta(description="Key of Zhipu GLM.", extra={"env": VARIABLES["zhipu"]})
    ] = None
    keys: Annotated[dict[str, Secret], Meta(description="Keys of vendors with a manifest of your own, by its id.")] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """The model that is named, if one is."""
        return (self.model,) if self.model else ()


SECTION = Section("openai", OpenAISettings, global_only=True)
