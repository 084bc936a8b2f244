"""File, search and process operations with the root check."""

from __future__ import annotations

from .errors import Changed, FilesError, Missing, NoEdit, NotText, Outside, Refused, Unusable, WrongKind
from .patterns import Glob, expand_braces, split_commas
from .processes import GRACE, OUTPUT_LIMIT, TIMEOUT, Finished, Identity, kill_group, run
from .root import SUPPORTED, Entry, Kind, Root, refuse_nothing
from .text import BOM, SNIFFED, Window, looks_binary, replace_literal, window
from .trail import Refuse, below

__all__ = [
    "BOM",
    "GRACE",
    "OUTPUT_LIMIT",
    "SNIFFED",
    "SUPPORTED",
    "TIMEOUT",
    "Changed",
    "Entry",
    "FilesError",
    "Finished",
    "Glob",
    "Identity",
    "Kind",
    "Missing",
    "NoEdit",
    "NotText",
    "Outside",
    "Refuse",
    "Refused",
    "Root",
    "Unusable",
    "Window",
    "WrongKind",
    "below",
    "expand_braces",
    "kill_group",
    "looks_binary",
    "refuse_nothing",
    "replace_literal",
    "run",
    "split_commas",
    "window",
]
