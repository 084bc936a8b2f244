"""views.*: modals and the app's home."""

from __future__ import annotations

import json
from typing import Any

from .blocks import complaints
from .call import Call, Method
from .messages import Json
from .refusals import Refused
from .rules import VIEW_BLOCKS_MOST, VIEW_TITLE_MOST

_VIEW_MOST = 250_000  # characters


def opened(call: Call) -> Json:
    """Show a modal to whoever pressed."""
    view = _view(call, "modal")
    user = call.platform.triggers.exchange(call.app, call.text("trigger_id"))
    return {"view": _kept(call, user, view)}


def published(call: Call) -> Json:
    """Show the app's home to somebody."""
    view = _view(call, "home")
    if call.text("user_id") not in call.platform.team.people:
        raise Refused("user_not_found")
    return {"view": _kept(call, call.text("user_id"), view)}


def _kept(call: Call, user: str, view: Json) -> Json:
    whole = {"id": call.platform.team.new_id("V"), "team_id": call.platform.team.id, "app_id": call.app.id, **view}
    call.platform.views.append({"user": user, "view": whole})
    call.platform.ledger.changed()
    return whole


def _view(call: Call, kind: str) -> Json:
    view = call.arguments.data("view", "invalid_arguments")
    if not isinstance(view, dict) or view.get("type") != kind:
        raise Refused("invalid_arguments", f"[ERROR] must be a view of type {kind} [json-pointer:/view]")
    if len(json.dumps(view)) > _VIEW_MOST:
        raise Refused("view_too_large")
    found = complaints(view.get("blocks"), most=VIEW_BLOCKS_MOST)
    if kind == "modal" and not 0 < len(_title(view)) <= VIEW_TITLE_MOST:
        found.append(f"must be 1 to {VIEW_TITLE_MOST} characters [json-pointer:/view/title/text]")
    if found:
        raise Refused("invalid_arguments", *(f"[ERROR] {each}" for each in found))
    return view


def _title(view: Json) -> str:
    title: Any = view.get("title")
    return str(title.get("text") or "") if isinstance(title, dict) else ""


VIEWS: dict[str, Method] = {"views.open": opened, "views.publish": published}
