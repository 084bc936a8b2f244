"""Vendors as data: what ships with the plugin, and a person's own files above it."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from halo_kernel import BadFile, Price

from .family import Family

Rate = Annotated[float, Meta(ge=0)]


class Rates(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a million tokens cost; those of a cache are as `input` where nothing is said of them."""

    input: Rate
    output: Rate
    cache_read: Rate | None = None
    cache_write: Rate | None = None


class ModelPrice(Rates, frozen=True, kw_only=True, rename="camel"):
    """Rates in `currency`, as of `date`; requests of more than `long_from` tokens cost `long`."""

    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")]
    date: datetime.date
    long_from: int | None = None
    long: Rates | None = None

    def offered(self) -> Price:
        """Return the price as offers have it."""
        long = Price(**self._of(self.long)) if self.long else None
        return Price(**self._of(self), long_from=self.long_from, long=long)

    def _of(self, rates: Rates) -> dict[str, Any]:
        given = {name: getattr(rates, name) for name in Rates.__struct_fields__}
        return {"currency": self.currency, "date": self.date.isoformat(), **given}


class Model(Struct, frozen=True, kw_only=True, rename="camel"):
    """A model of a vendor; `wire` holds what it speaks differently from the vendor's other ones.

    `price` is the vendor's own, so it counts only at the vendor's own address.
    """

    id: str
    display_name: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None
    wire: dict[str, object] = {}
    price: ModelPrice | None = None


class SecretField(Struct, frozen=True, kw_only=True):
    """A vendor's key; `default` names its environment variable as `<<NAME>>`."""

    key: str
    default: str = ""


class Manifest(Struct, frozen=True, kw_only=True, rename="camel"):
    """A vendor. Unknown fields are kept for whoever knows them.

    `api` names the wire, and must be there in a file that adds a vendor. A `local` one needs no key and is asked what
    it serves; `context_window` is for models that nobody describes; `start` and `pull` say what to do about a server
    that does not answer, or serves nothing.
    """

    id: str
    api: str = ""
    display_name: str = ""
    default_endpoint: str
    endpoint_presets: tuple[str | dict[str, object], ...] = ()
    default_model_id: str = ""
    secrets: tuple[SecretField, ...] = ()
    models: tuple[Model, ...] = ()
    wire: dict[str, object] = {}
    local: bool = False
    context_window: int = 128_000
    start: str = ""
    pull: str = ""

    @property
    def label(self) -> str:
        """The vendor's name for people."""
        return self.display_name or self.id

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that its secrets name."""
        return tuple(found[1] for each in self.secrets if (found := re.fullmatch(r"<<(\w+)>>", each.default)))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Every base URL that is the vendor's own, the default first; a preset is a URL or a mapping with `value`."""
        presets = [each if isinstance(each, str) else str(each.get("value", "")) for each in self.endpoint_presets]
        return (self.default_endpoint, *filter(None, presets))

    def model(self, id: str) -> Model:
        """Return the description of a model; one that is not listed has the vendor's defaults."""
        return next((model for model in self.models if model.id == id), Model(id=id))

    def fields(self, id: str) -> dict[str, object]:
        """Return how a model of this vendor speaks: its own fields of `wire` above the vendor's."""
        return {**self.wire, **self.model(id).wire}


class Broken(Struct, frozen=True, kw_only=True):
    """A person's file that cannot be used, and why."""

    id: str
    error: str


def load_manifests(folder: Path, family: Family) -> list[Manifest | Broken]:
    """Return every vendor: ours, each overridden field by field by the file of its id in `folder`, then further ones.

    `folder` is `HALO_HOME/global/models`. A file of another wire (its `api` is not the family's) is left to others,
    with the vendor that it is about.
    """
    shipped = {name: _shipped(family, name) for name in family.order}
    found: dict[str, Manifest | Broken] = {name: _manifest(data, family) for name, data in shipped.items()}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            document = _read(path)
            id = str(document.get("id", path.stem))
            if document.get("api", family.wire.api if id in shipped else "") == family.wire.api:
                found[id] = _checked(path, document, {**shipped.get(id, {}), **document, "id": id}, family)
            else:
                found.pop(id, None)
        except BadFile as error:
            found[path.stem] = Broken(id=path.stem, error=error.message)
    return list(found.values())


def _shipped(family: Family, name: str) -> dict[str, object]:
    return tomllib.loads(files(family.package).joinpath("vendors", f"{name}.toml").read_text("utf-8"))


def _manifest(data: Mapping[str, object], family: Family) -> Manifest:
    manifest = msgspec.convert(data, Manifest)
    for model in ("", *(model.id for model in manifest.models)):
        family.wire.check(manifest.fields(model))
    return manifest


def _read(path: Path) -> dict[str, object]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    plain: Any = YAML(typ="safe", pure=True)  # refuses mappings as keys, on which the other spends minutes
    reader: Any = YAML(typ="rt", pure=True)
    try:
        plain.load(text := path.read_text("utf-8"))
        document: object = reader.load(text)
        json.dumps(document, default=str)  # no other keys, and an end
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error
    except (YAMLError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:  # of tags, too
        mark: Any = getattr(error, "problem_mark", None)
        line = int(mark.line) + 1 if mark else 0
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise BadFile(f"{path}:{line}: not valid YAML: {problem}", path=str(path), line=line) from error
    if not isinstance(document, dict):
        raise BadFile(f"{path}:1: the file must hold a manifest, such as `id: …`", path=str(path), line=1)
    return cast("dict[str, object]", document)


def _checked(path: Path, document: Mapping[str, object], merged: Mapping[str, object], family: Family) -> Manifest:
    try:  # numbers and dates of this YAML library are types of its own
        return _manifest(json.loads(json.dumps(merged, default=str)), family)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        field = place.rstrip("`").lstrip(".")
        line = _line(document, re.findall(r"\w+", field))
        where = f" {field}:" if field else ""
        raise BadFile(f"{path}:{line}:{where} {rule}", path=str(path), line=line, field=field) from error


def _line(document: object, keys: Iterable[str]) -> int:
    """Return the line of the deepest of these keys that the file holds, from 1."""
    line = 1
    here: Any = document
    for key in keys:
        place: Any = int(key) if key.isdigit() else key
        positions: Any = getattr(getattr(here, "lc", None), "data", None) or {}
        if place not in positions:
            break
        line = int(positions[place][0]) + 1
        here = here[place]
    return line
