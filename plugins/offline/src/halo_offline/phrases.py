"""Every sentence that is said, in English and Chinese."""

from __future__ import annotations

from dataclasses import dataclass

from .wishes import Language

Forms = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Phrases:
    """One language's sentences; braces are filled by name."""

    closing: str
    able: str
    unable: str
    unoffered: str
    failed: str
    folder: str
    empty_folder: str
    listed: str
    listed_all: str
    here: str
    more: str
    cut: str
    folders: Forms
    files: Forms
    no_file: str
    near: str
    others: str
    empty_file: str
    lines: Forms
    lines_unknown: Forms
    about: str
    sentence: str
    titled: str
    begins: str
    sections: str
    names: str
    no_text: str
    read: str
    read_part: str
    folder_about: str
    found: str
    found_in: str
    found_none: str
    found_more: str
    found_names: str
    matching: str
    and_word: str
    claims: str
    space: str
    stop: str
    comma: str
    titles: str
    quote: str


EN = Phrases(
    closing=(
        "No model is running: this answer was put together by built-in rules, and to get a real one, set"
        " `OPENAI_API_KEY`, start Ollama, or choose a model in the settings."
    ),
    able=(
        "I can list the files of this workspace (“which files are here?”, “list src”), read one (“show README.md”), say"
        " what a file or this folder is about (“what is README.md about?”, “summarise this folder”), and search"
        ' (“find "deadline"”), several at once if you like.'
    ),
    unable="That is more than I can do without a model: {text}.",
    unoffered="This session has no tool `{tool}`, so I cannot do that here.",
    failed="`{tool}` could not do it: {reason}",
    folder="{name}",
    empty_folder="{place} is empty.",
    listed="{place} holds {counts}:",
    listed_all="{place} and its folders hold {counts}:",
    here="This folder",
    more="… and {count} more.",
    cut="There is more: the tool stopped listing here.",
    folders=("{count} folder", "{count} folders"),
    files=("{count} file", "{count} files"),
    no_file="There is no file or folder called {name} here.",
    near="Names that look like it: {names}.",
    others="Other files of that name: {names}.",
    empty_file="{name} is empty.",
    lines=("{count} line", "{count} lines"),
    lines_unknown=("more than {count} line", "more than {count} lines"),
    about="{name} ({size})",
    sentence="{name} {claims}",
    titled="is headed “{title}”",
    begins="begins: {opening}",
    sections="Its sections: {names}.",
    names="It names: {names}.",
    no_text="shows no sentence that I can quote",
    read="{name} ({size}):",
    read_part="{name} ({size}), the first {shown}:",
    folder_about="What its files say of themselves:",
    found="{text} is in {lines} of {files}:",
    found_in="{text} is in {lines} of {files} under {place}:",
    found_none="Nothing here contains {text}.",
    found_more="There may be more: the search stopped here.",
    found_names="Named like it: {names}.",
    matching="{pattern} fits {counts}:",
    and_word=" and ",
    claims=" and ",
    space=" ",
    stop=".",
    comma=", ",
    titles="{text}",
    quote="“{text}”",
)

ZH = Phrases(
    closing=(
        "目前没有运行任何模型：以上内容由内置规则拼成；想得到真正的回答，"
        "请设置 `OPENAI_API_KEY`、启动 Ollama，或在设置里选择模型。"
    ),
    able=(
        "我可以列出这个工作区的文件（“这里有哪些文件？”、“列出 src”），读取文件（“读取 README.md”），"
        "说明一个文件或整个文件夹讲了什么（“README.md 讲了什么？”、“总结这个文件夹”），"
        '以及搜索（“搜索 "截止日期"”），也可以一次问几件事。'
    ),
    unable="没有模型，这件事我做不到：{text}。",
    unoffered="这个会话没有 `{tool}` 工具，所以这里做不到。",
    failed="`{tool}` 没能完成：{reason}",
    folder="{name} ",
    empty_folder="{place}是空的。",
    listed="{place}有 {counts}：",
    listed_all="{place}（含子文件夹）有 {counts}：",
    here="这里",
    more="……还有 {count} 个。",
    cut="还有更多：工具只列到这里。",
    folders=("{count} 个文件夹", "{count} 个文件夹"),
    files=("{count} 个文件", "{count} 个文件"),
    no_file="这里没有名为 {name} 的文件或文件夹。",
    near="名字相近的有：{names}。",
    others="同名的还有：{names}。",
    empty_file="{name} 是空的。",
    lines=("{count} 行", "{count} 行"),
    lines_unknown=("{count} 行以上", "{count} 行以上"),
    about="{name}（{size}）",
    sentence="{name}{claims}",
    titled="的标题是“{title}”",
    begins="开头写道：{opening}",
    sections="各节：{names}。",
    names="其中的名称：{names}。",
    no_text="里没有可以引用的句子",
    read="{name}（{size}）：",
    read_part="{name}（{size}），前 {shown}：",
    folder_about="各文件自己的说明：",
    found="{text} 出现在 {files}的 {lines}里：",
    found_in="在 {place} 下，{text} 出现在 {files}的 {lines}里：",
    found_none="这里没有内容包含 {text}。",
    found_more="可能还有更多：搜索只到这里。",
    found_names="名字里有它的：{names}。",
    matching="符合 {pattern} 的有 {counts}：",
    and_word="和 ",
    claims="，",
    space="",
    stop="。",
    comma="、",
    titles="“{text}”",
    quote="“{text}”",
)

_ALL: dict[Language, Phrases] = {"en": EN, "zh": ZH}


def phrases(language: Language) -> Phrases:
    """Return a language's sentences."""
    return _ALL[language]


def counted(forms: Forms, count: int) -> str:
    """Return a count with its noun."""
    return forms[count != 1].format(count=count)


def code(text: str) -> str:
    """Return a name as markdown code, whatever backticks it holds."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
