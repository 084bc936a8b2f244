"""How people ask in English: patterns for one clause, the most specific first."""

from __future__ import annotations

import re

from .clause import Rule, rule

_FILES = r"(?:files?|folders?|director(?:y|ies)|documents?|docs|subfolders?)"
_PLACES = r"(?:folder|directory|dir|workspace|project|repo|repository|place|root)"
_WHICH = r"(?:which|what)(?:'s|s| is| are)?(?: of (?:the|these|those|my))?(?: the| other| kinds? of)?"
_IN = r"(?:in|inside|within|under|of|from|at)"

HERE = re.compile(
    rf"(?:{_IN} )?(?:here|there|in here|this|it all|all|all of (?:it|them|this)|everything|them all|\."
    rf"|(?:the|this|my|your|our|that|these|those|all|all the)(?: current| whole| entire| present| root)?"
    rf" (?:{_PLACES}|{_FILES})|(?:current|root) {_PLACES}|{_PLACES}|files)(?: here)?",
    re.IGNORECASE,
)
AROUND = re.compile(
    r"^(?:(?:the|a|an|my|your|our|this|that) )?(?:(?:file|folder|directory|document)(?: (?:called|named))? )?"
    r"|(?: (?:file|folder|directory|document|please|now|for me|to me|here|too|as well|again|first))+$",
    re.IGNORECASE,
)
RECURSIVE = re.compile(r"\b(?:recursive(?:ly)?|all(?: of)?(?: the| my)? files|subfolders|nested|tree)\b", re.IGNORECASE)
POLITE = (
    r"(?:(?:hi|hello|hey|please|pls|ok|okay|so|now|then|and|also|first|next|finally|just|quickly|thanks|kindly)\b[\s,:]*"
    r"|(?:can|could|would|will) you\b(?: please\b)?[\s,]*|(?:i want|i need|i'd like|i would like)(?: you)? to\b\s*"
    r"|(?:let me|let's|help me(?: to)?|do you know|i wonder|try to)\b\s*"
    r"|(?:tell me|show me|say)\s+(?=(?:what|which|where|how|whether)\b))"
)
FILLER = re.compile(r"(?:thanks?|thank you|please|ok|okay|hi|hello|hey|great|good|yes|no|sure|there|cheers)+", re.I)

_VERBS = (
    r"(?:what|what's|whats|which|where|how|who|read|show|list|find|search|grep|open|cat|summari[sz]e|describe|explain|"
    r"outline|tell|give|display|print|view|look|locate|write|create|edit|delete|translate|run|fix)\b"
)
_VERB_START = r"(?:(?:please|also|then|can you|could you|tell me|show me)\s+)*" + _VERBS


def split(text: str, token: str) -> list[str]:
    """Split at `and`, `then` and commas that begin a new request."""
    joint = r"(?:\s*,\s*(?:and\s+|then\s+|and then\s+|also\s+|plus\s+)*|\s+(?:and then|and also|and|then|also|plus)\s+)"
    return re.split(joint + rf"(?={_VERB_START}|{token}\s*$)", text, flags=re.IGNORECASE)


_QUALITY = r"(?:a |an |the |me )*(?:short |brief |quick |one-line )?"
_GIST = r"(?:summary|overview|outline|gist|description|idea)"
RULES: tuple[Rule, ...] = (
    rule("about", rf"(?:(?:give|make|write|show|get|do) )?{_QUALITY}{_GIST} (?:of|about)(?P<t> .+)"),
    rule(
        "other",
        r"(?:write|create|make|edit|change|fix|delete|remove|rename|move|copy|run|execute|translate|rewrite|refactor|add|"
        r"implement|install|build|draw|send|update|replace|commit|push|deploy|test|compile|download|generate)\b.*",
    ),
    rule(
        "help",
        r"(?:.* )?(?:about|are|describe|explain|introduce) (?:you|yourself)",
        r"|(?:what|how) can (?:you|i) (?:do|ask|use).*|help.*|who are you",
    ),
    # search
    rule(
        "search",
        rf"(?:which|what)(?: of (?:the|these|my))? {_FILES}(?: here)?(?: (?P<w>(?:in|under) .+?))? "
        r"(?:contains?|mentions?|includes?|uses?|references?|talks? about|says?|refers? to)"
        r"(?: the)?(?: word| text| phrase| string)? (?P<t>.+)",
    ),
    rule("search", r"(?:search|look) (?!for\b|up\b)(?:in |through |inside )?(?P<w>.+?) for (?P<t>.+)"),
    rule("list", rf"(?:find|search|look for)(?: all)?(?: of)?(?: the| my)? {_FILES}(?: (?P<w>(?:in|under|here).*))?"),
    rule(
        "search",
        r"(?:find|grep|locate|seek|search(?: for)?|look (?:for|up))(?: me)?(?: all| every| any)?(?: the)?"
        rf"(?: (?:lines?|{_FILES}|places?|occurrences?|mentions?|uses?|text)(?: (?:with|contain(?:s|ing)?|"
        r"(?:that|which) (?:contains?|mentions?|says?|uses?)|mentioning|of|where|named|called))?)?"
        r"(?: the)?(?: (?:word|text|string|phrase|term|name))? (?P<t>.+?)(?: (?:in|inside|within|under) (?P<w>.+))?",
    ),
    rule(
        "search",
        r"where(?:'s| is| are| was| does| do| can)(?: (?:i|we|you) (?:find|see))?"
        r"(?: the| it)?(?: (?:word|text|string|phrase|file))? (?P<t>.+?)"
        r"(?: (?:is |are )?(?:mentioned|used|defined|said|written|set|located|stored|appear|occur))?",
    ),
    rule(
        "search",
        rf"(?:is|are) there (?:a|an|any|some) {_FILES} (?:about|called|named|with|on|for|(?:that|which) \w+|mentioning|"
        r"containing)(?: the (?:word|text|name))? (?P<t>.+)",
    ),
    # list
    rule("list", rf"(?:which|what) {_FILES} (?:does|do) (?P<w>.+?) (?:have|contain|hold)"),
    rule(
        "list",
        rf"(?:{_WHICH}|how many) (?:{_FILES}|contents?|things)(?: and {_FILES})?"
        rf"(?: (?:are|is|do|does|exist|can|live|lie|we|you|i|see|have|here|there|now|currently|stored|present))*"
        rf"(?: {_IN} (?P<w>.+?))?(?: (?:have|contain|exist))?",
    ),
    rule(
        "list",
        rf"(?:ls|dir|list)(?: me)?(?: all)?(?: of)?(?: the| my)?(?: {_FILES}(?: and {_FILES})?| contents?"
        rf"| everything)?(?: recursively)?(?: (?:{_IN} )?(?P<w>.+?))?(?: recursively)?",
    ),
    rule(
        "list",
        rf"(?:show|display|see|give|get|print|view)(?: me)?(?: all)?(?: of)?(?: the| your| my| a)?(?: list of)?"
        rf"(?: all)?(?: the)? (?:files|folders|file list|listing|directory listing|contents?|tree)"
        rf"(?: (?:{_IN} )?(?P<w>.+?))?",
    ),
    rule(
        "list",
        r"(?:what(?:'s|s| is| are| do| can)?)(?: there| you| we| i| see| have| got| stored| inside)*(?: here)?"
        r"(?: (?:in|inside|under|within) (?P<w>.+)| here| inside| there)",
    ),
    rule(
        "list",
        rf"(?:are|is|do|have)(?: there| you| we| i| have| got| see| any)* {_FILES}"
        rf"(?: here)?(?: {_IN} (?P<w>.+))?",
    ),
    # about
    rule("about", r"what(?:'s|s| is| are)? (?P<t>.+?)(?:'s)?(?: is| are)?(?: all)? about"),
    rule("about", r"what(?:'s|s| is| are) (?P<t>.+?) (?:for|saying|doing)"),
    rule(
        "about",
        r"(?:what|how) (?:does|do|did|is|are) (?P<t>.+?) "
        r"(?:say|do|contain|mean|describe|talk about|cover|tell|hold|have|begin|start|work|look like)"
        r"(?: me| in it| inside| with)?",
    ),
    rule(
        "about",
        r"(?:summari[sz]e|sum up|describe|explain|outline|review|analy[sz]e|recap)(?: me)?(?: for me)?"
        r"(?: what(?:'s| is) in)?(?P<t> .+)?",
    ),
    rule("about", r"(?:(?:tell|teach) me(?: more| something| a bit)?|talk|information|more|what) about (?P<t>.+)"),
    rule(
        "about",
        r"(?:how many lines|how long|how big|how large)(?: are| is| does| do| can)?(?: there)?(?: in)? "
        r"(?P<t>.+?)(?: have| has| contain)?",
    ),
    # read
    rule("read", r"(?:what(?:'s|s| is| are) )?(?:the )?(?:contents?|text) (?:of|in)(?: the file)? (?P<t>.+)"),
    rule(
        "read",
        r"(?:read|open|show|cat|print|display|view|see|get|check|look (?:at|into)|load|type|head|give)"
        r"(?: me)?(?: out)?(?: the)?(?: whole| entire| full)?(?: (?:contents?|text|beginning|start))?"
        r"(?: what(?:'s| is) in)?(?: of| in)? (?P<t>.+)",
    ),
    rule("about", r"what(?:'s|s| is| are) (?P<t>[\ue000-\uf8ff]|\S+\.\w{1,8}|(?:the )?(?:file|folder) .+|\S+ file)"),
    rule("read", r"(?P<t>.+?)(?:'s)? contents?"),
    rule("about", r"(?P<t>\S+\.\w{1,8})"),
)
