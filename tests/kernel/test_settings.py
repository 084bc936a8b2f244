"""Typed settings: environment over file over default, and errors that name what to correct."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from halo_kernel import (
    BadFile,
    BadInput,
    LogSettings,
    NotFound,
    Secret,
    Section,
    ServerSettings,
)
from halo_kernel.settings import KERNEL_SECTIONS, Settings


class Vendor(Struct, frozen=True, kw_only=True):
    """One endpoint of a provider."""

    base_url: str
    api_key: Secret | None = None
    models: tuple[str, ...] = ()


class Retry(Struct, frozen=True, kw_only=True):
    """A nested struct with its own bounds."""

    attempts: Annotated[int, Meta(ge=0, le=9)] = 3


class Acme(Struct, frozen=True, kw_only=True):
    """A plugin's section with every kind of field."""

    api_key: Annotated[Secret | None, Meta(description="The key.", extra={"env": "ACME_API_KEY"})] = None
    url: Annotated[str, Meta(description="Where.", extra={"restart": True})] = "https://acme"
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    labels: dict[str, int] = {}
    vendors: dict[str, Vendor] = {}
    retry: Retry = Retry(attempts=5)
    pair: tuple[Secret, ...] = ()
    nickname: str | None = None


class Knot(Struct, frozen=True):
    """A part that holds parts like itself."""

    inner: list[Knot] = []
    key: Secret | None = None


SECTIONS = [*(("kernel", each) for each in KERNEL_SECTIONS), ("acme", Section("acme", Acme))]


class Home:
    """A home whose settings file a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "secrets" / "settings.yaml"
        self.file.parent.mkdir(parents=True)

    def load(self, text: str = "", **env: str) -> Settings:
        if text:
            self.file.write_text(text)
        return Settings(self.path, SECTIONS, env)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


# precedence


def test_without_a_file_everything_is_default(tmp_path: Path) -> None:
    """A home that does not exist yet has all defaults, and reading it makes nothing."""
    loaded = Settings(tmp_path / "none", SECTIONS, {})
    assert loaded.of(ServerSettings) == ServerSettings()
    assert loaded.of(Acme) == Acme()
    assert list(tmp_path.iterdir()) == []


def test_without_a_file_no_yaml_reader_is_imported(tmp_path: Path) -> None:
    """A home without a settings file, as most are, pays nothing for reading YAML."""
    code = "import sys, pathlib, halo_kernel as k, halo_kernel.runtime"
    code += "; k.load_kernel_settings(pathlib.Path(sys.argv[1]), {})"
    run = [sys.executable, "-c", f"{code}; print([name for name in sys.modules if 'ruamel' in name])", str(tmp_path)]
    assert subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout == "[]\n"


def test_environment_beats_file_beats_default(home: Home) -> None:
    """The variable of the key wins over its further name, both over the file, the file over the default."""
    text = "server:\n  port: 1\n"
    assert home.load(text).of(ServerSettings).port == 1
    assert home.load(text, HALO_PORT="2").of(ServerSettings).port == 2
    assert home.load(text, HALO_PORT="2", HALO_SERVER_PORT="3").of(ServerSettings).port == 3
    assert home.load(text, HALO_PORT="").of(ServerSettings).port == 1


def test_a_value_says_where_it_comes_from(home: Home) -> None:
    """Every field is listed with its rule, its source and its variables."""
    loaded = home.load("acme:\n  url: x\n  api_key: k\n", ACME_API_KEY="secret", HALO_ACME_RETRY='{"attempts": 1}')
    fields = {each.key: each for each in loaded.at().fields.values()}
    assert fields["acme.url"].source == "file"
    assert fields["acme.url"].restart
    assert fields["acme.api_key"].source == "environment ACME_API_KEY"
    assert fields["acme.api_key"].secret
    assert "secret" not in repr(fields["acme.api_key"].value).replace("<secret acme.api_key>", "")
    assert fields["acme.retry"].value == Retry(attempts=1)
    assert fields["acme.retry"].default == Retry(attempts=5)
    assert fields["acme.ratio"].source == "default"
    assert fields["acme.ratio"].schema == {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    assert fields["server.port"].variables == ("HALO_SERVER_PORT", "HALO_PORT")
    assert fields["logging.level"].schema["enum"] == ["debug", "error", "info", "warn"]


ENVIRONMENT = [
    ("HALO_SERVER_TRUST_PROXY", "TRUE", ServerSettings(trust_proxy=True)),
    ("HALO_SERVER_TRUST_PROXY", "1", ServerSettings(trust_proxy=True)),
    ("HALO_CORS_ORIGINS", "https://a, https://b", ServerSettings(cors_origins=("https://a", "https://b"))),
    ("HALO_CORS_ORIGINS", '["https://a,b"]', ServerSettings(cors_origins=("https://a,b",))),
    ("HALO_PASSWORD", "12345", ServerSettings(password=Secret("12345"))),
    ("HALO_ACME_RATIO", "0.25", Acme(ratio=0.25)),
    ("HALO_ACME_LABELS", '{"a": 1}', Acme(labels={"a": 1})),
    ("HALO_ACME_NICKNAME", "null", Acme(nickname="null")),
    ("HALO_ACME_PAIR", "a, b", Acme(pair=(Secret("a"), Secret("b")))),
]


@pytest.mark.parametrize(("name", "text", "expected"), ENVIRONMENT)
def test_a_variable_is_read_as_its_field_s_type(home: Home, name: str, text: str, expected: Struct) -> None:
    """Text of the environment becomes numbers, truth, lists (commas or JSON), mappings (JSON) and secrets."""
    assert home.load(**{name: text}).of(type(expected)) == expected


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("HALO_PORT", "eighty", "Expected `int`, got `str`"),
        ("HALO_PORT", "70000", "Expected `int` <= 65535"),
        ("HALO_LOG_LEVEL", "loud", "Invalid enum value 'loud' (one of debug, error, info, warn)"),
        ("HALO_SERVER_TRUST_PROXY", "maybe", "Expected `bool`, got `str`"),
        ("HALO_ACME_LABELS", "{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("HALO_ACME_RETRY", "10", "Expected `object`, got `array`"),
    ],
)
def test_a_bad_variable_is_named_with_its_rule(home: Home, name: str, text: str, rule: str) -> None:
    """A variable that breaks a rule is named with what is allowed."""
    with pytest.raises(BadInput) as raised:
        home.load(**{name: text})
    assert (str(raised.value), raised.value.field) == (f"{name} is not valid: {rule}", name)


# secrets in files


def test_a_secret_is_read_from_the_file_that_a_variable_names(home: Home, tmp_path: Path) -> None:
    """`<NAME>_FILE` works for the key's variable and for its further name; the line end is not part of the secret."""
    (tmp_path / "key").write_text("s3cret value \r\n")
    for name in ("ACME_API_KEY_FILE", "HALO_ACME_API_KEY_FILE"):
        key = home.load(**{name: str(tmp_path / "key")}).of(Acme).api_key
        assert key is not None
        assert key.reveal() == "s3cret value "


def test_a_missing_secret_file_names_its_variable(home: Home, tmp_path: Path) -> None:
    """The error says which variable names a file that cannot be read."""
    with pytest.raises(BadInput) as raised:
        home.load(HALO_PASSWORD_FILE=str(tmp_path / "none"))
    assert raised.value.field == "HALO_PASSWORD_FILE"
    assert "No such file" in str(raised.value)


def test_a_variable_and_its_file_cannot_both_be_set(home: Home, tmp_path: Path) -> None:
    """Two sources of one secret are an error, never a guess."""
    (tmp_path / "key").write_text("b")
    with pytest.raises(BadInput, match="HALO_PASSWORD and HALO_PASSWORD_FILE are both set"):
        home.load(HALO_PASSWORD="a", HALO_PASSWORD_FILE=str(tmp_path / "key"))


# placeholders


def test_placeholders_are_filled_in_when_read(home: Home, tmp_path: Path) -> None:
    """`<<NAME>>` is replaced in text, in lists, in numbers, and from files too."""
    (tmp_path / "key").write_text("filed\n")
    text = """
    acme:
      api_key: <<KEY>>
      url: https://<<HOST>>/<<PATH>>
      ratio: <<RATIO>>
      vendors: {v: {base_url: u, models: [m, <<HOST>>]}}
    """
    acme = home.load(text, KEY_FILE=str(tmp_path / "key"), HOST="h", PATH="p", RATIO="0.1").of(Acme)
    assert acme.api_key == Secret("filed")
    assert (acme.url, acme.ratio, acme.vendors["v"].models) == ("https://h/p", 0.1, ("m", "h"))


def test_an_unset_placeholder_stays_and_is_remarked_on(home: Home) -> None:
    """A variable that is not set leaves the literal, so that a provider refuses it in plain sight."""
    loaded = home.load("acme:\n  api_key: <<NOT_SET>>\n")
    assert loaded.of(Acme).api_key == Secret("<<NOT_SET>>")
    (problem,) = loaded.at().findings
    assert (problem.key, problem.line) == ("acme.api_key", 2)
    assert "NOT_SET is not set" in problem.text


# errors in the file


INVALID = "is not valid: "
BAD = [
    ("server:\n  port: eighty\n", 2, "server.port", f"{INVALID}Expected `int`, got `str`"),
    ("server:\n  port: 70000\n", 2, "server.port", f"{INVALID}Expected `int` <= 65535"),
    ("server:\n  port: true\n", 2, "server.port", f"{INVALID}Expected `int`, got `bool`"),
    ("server:\n  port: [1]\n", 2, "server.port", f"{INVALID}Expected `int`, got `array`"),
    ("server:\n  host: 8\n", 2, "server.host", f"{INVALID}Expected `str`, got `int`"),
    ("server:\n  trust_proxy: yes\n", 2, "server.trust_proxy", f"{INVALID}Expected `bool`, got `str`"),
    (
        "logging:\n  level: loud\n",
        2,
        "logging.level",
        f"{INVALID}Invalid enum value 'loud' (one of debug, error, info, warn)",
    ),
    (
        "server:\n  cors_origins:\n    - 3\n",
        2,
        "server.cors_origins",
        f"{INVALID}Expected `str`, got `int` - at `$[0]`",
    ),
    ("server:\n  cors_origins: 3\n", 2, "server.cors_origins", f"{INVALID}Expected `array`, got `int`"),
    ("server: 3\n", 1, "server", "must hold fields, one a line below it"),
    (
        "acme:\n  vendors:\n    a:\n      api_key: x\n",
        2,
        "acme.vendors",
        f"{INVALID}Object missing required field `base_url` - at `$[...]`",
    ),
    ("acme:\n  labels:\n    a: b\n", 2, "acme.labels", f"{INVALID}Expected `int`, got `str` - at `$[...]`"),
    ("acme:\n  labels: a\n", 2, "acme.labels", f"{INVALID}Expected `object`, got `array`"),
    ("acme:\n  retry:\n    attempts: 10\n", 2, "acme.retry", f"{INVALID}Expected `int` <= 9 - at `$.attempts`"),
    ("acme:\n  ratio: <<UNSET>>\n", 2, "acme.ratio", f"{INVALID}Expected `float`, got `str`"),
    (
        "acme:\n  a: 1\nserver:\n  root_path: x\n",
        4,
        "server.root_path",
        f"{INVALID}Expected `str` matching regex '^(/[^/\\\\s]+)*$'",
    ),
]


@pytest.mark.parametrize(("text", "line", "key", "rule"), BAD)
def test_a_bad_value_names_line_key_and_rule(home: Home, text: str, line: int, key: str, rule: str) -> None:
    """A value of the wrong type is refused with the file, its line, its dotted key and the rule."""
    with pytest.raises(BadFile) as raised:
        home.load(text)
    error = raised.value
    assert (error.path, error.line, error.field) == (str(home.file), line, key)
    assert str(error) == f"{home.file}:{line}: {key} {rule}"


def test_a_bad_secret_is_not_shown(home: Home) -> None:
    """A number where a secret belongs is refused without showing it."""
    with pytest.raises(BadFile, match=r"server\.password is not valid: Expected quoted text") as raised:
        home.load("server:\n  password: 12345678\n")
    assert "12345678" not in str(raised.value)


def test_text_stands_for_what_it_reads_as(home: Home) -> None:
    """A number or truth between quotes, and a list on one line, mean what they say, as in the environment."""
    loaded = home.load("server:\n  port: '80'\n  trust_proxy: 'true'\n  cors_origins: a, b\n")
    assert loaded.of(ServerSettings) == ServerSettings(port=80, trust_proxy=True, cors_origins=("a", "b"))


def test_null_is_the_default(home: Home) -> None:
    """A key without a value, and a section without keys, mean the default."""
    assert home.load("server:\n  port:\nlogging:\n").of(ServerSettings).port == 9527
    vendors = home.load("acme:\n  vendors:\n    v:\n      base_url: u\n      models:\n").of(Acme).vendors
    assert vendors == {"v": Vendor(base_url="u")}


# unknown keys, sections that cannot be used


def test_unknown_keys_are_listed(home: Home) -> None:
    """A section or field that nobody has is listed with its line, and one that it may be."""
    text = "sever:\n  port: 1\nserver:\n  prot: 2\n  port: 3\nacme: {vendors: {v: {base_url: u, api_kye: k}}}\n"
    loaded = home.load(text)
    found = {(each.key, each.line) for each in loaded.at().findings}
    assert found == {("sever", 1), ("server.prot", 4)}
    assert [each.text for each in loaded.at().findings] == [
        "there is no setting server.prot, did you mean server.port?",
        "there is no setting sever, did you mean server?",
    ]


def test_a_section_is_the_first_plugins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another that claims it is named in the log and has none; so the kernel's own sections are nobody else's."""
    loaded = Settings(tmp_path, [*SECTIONS, ("rival", Section("server", Retry))], {})
    with pytest.raises(NotFound):
        loaded.of(Retry)
    assert loaded.of(ServerSettings).port == 9527
    assert "'plugin': 'rival'" in caplog.text


def test_a_section_needs_defaults(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin whose struct has a required field is named in the log; the server's settings load."""
    loaded = Settings(tmp_path, [*SECTIONS, ("vend", Section("vend", Vendor))], {})
    with pytest.raises(NotFound):
        loaded.of(Vendor)
    assert loaded.of(LogSettings).level == "warn"
    assert "Missing required argument 'base_url'" in caplog.text


def test_a_section_that_nobody_provides_is_said_so(tmp_path: Path) -> None:
    """Asking for the settings of a plugin that is not loaded is an error that says it."""
    with pytest.raises(NotFound, match="no plugin that is loaded provides settings of the type Acme"):
        Settings(tmp_path, [], {}).of(Acme)


def test_every_secret_is_known(home: Home) -> None:
    """All secret values, nested ones too, are masked."""
    text = "server: {password: aaaaaaaa}\nacme: {api_key: bbbbbbbb, vendors: {x: {base_url: u, api_key: cccccccc}}}\n"
    loaded = home.load(text)
    assert loaded.redactor("aaaaaaaa bbbbbbbb cccccccc") == (
        "<secret server.password> <secret acme.api_key> <secret acme.vendors>"
    )


def test_a_secret_within_a_part_is_a_secret(tmp_path: Path, home: Home) -> None:
    """A field is marked as secret when anything in it is, a part that holds itself too; it is the server's alone."""

    fields = {field.key: field for field in home.load().at().fields.values()}
    secrets = {"server.password", "acme.api_key", "acme.vendors", "acme.pair"}
    assert {key for key, field in fields.items() if field.secret} == secrets
    assert fields["acme.vendors"].global_only
    assert not fields["acme.url"].global_only
    assert fields["server.port"].global_only
    (inner, key) = Settings(tmp_path, [("knot", Section("knot", Knot))], {}).at().fields.values()
    assert inner.secret
    assert key.secret
