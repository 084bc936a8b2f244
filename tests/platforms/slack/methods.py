"""The Web API: who may call what, what goes wrong on purpose, and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arguments import Arguments, read_arguments
from .assistants import ASSISTANTS
from .call import Call, Method, missing_scope
from .chat import CHAT
from .conversations import CONVERSATIONS
from .faults import Fault
from .files import FILES
from .ledger import Called
from .messages import Json
from .reactions import REACTIONS
from .refusals import Limited, Refused
from .rules import APP_SCOPES, METHODS, MethodRule
from .streams import STREAMS
from .team import App
from .users import USERS
from .views import VIEWS
from .web import Answer, Line, Request, json_answer, text_answer

if TYPE_CHECKING:
    from .platform import Platform

FUNCTIONS: dict[str, Method] = {
    **ASSISTANTS,
    **CHAT,
    **CONVERSATIONS,
    **FILES,
    **REACTIONS,
    **STREAMS,
    **USERS,
    **VIEWS,
}


class Methods:
    """Answers calls of `/api/<method>`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def serve(self, request: Request, line: Line) -> bool:
        """Answer one call, or lose it; return whether the connection can take another."""
        name, told = request.path.removeprefix("/api/"), _told(request)
        called = Called(method=name, app="", arguments=told, at=self._platform.clock.now())
        self._platform.ledger.calls.append(called)
        fault = self._platform.faults.take(called.method)
        called.fault = fault.kind if fault else ""
        if fault is not None and fault.kind == "delay":
            await self._platform.clock.sleep(fault.seconds)
        answer = _instead(fault) or self._answer(request, called, fault)
        called.status = answer.status
        self._platform.ledger.count(f"calls:{called.method}")
        if fault is not None and fault.kind in ("lost_request", "lost_answer"):
            line.abort()
            return False
        await line.send(answer.encoded())
        return True

    def _answer(self, request: Request, called: Called, fault: Fault | None) -> Answer:
        headers = {"X-Slack-Req-Id": self._platform.team.new_id("req")}
        try:
            body = {"ok": True, **self._run(request, called, fault, headers)}
        except Limited as limited:
            called.ok, called.error = False, limited.error
            return json_answer(limited.body(), status=429, headers={**headers, "Retry-After": str(limited.wait)})
        except Refused as refused:
            body = refused.body()
        called.ok, called.error = bool(body["ok"]), str(body.get("error", ""))
        if fault is not None and fault.kind == "invalid_json":
            return Answer(body=b'{"ok": tru')
        return json_answer(_warned(request, body), headers=headers)

    def _run(self, request: Request, called: Called, fault: Fault | None, headers: dict[str, str]) -> Json:
        rule = METHODS.get(called.method)
        if rule is None:
            raise Refused("unknown_method", req_method=called.method)
        arguments = read_arguments(request)
        app = self._authorised(request, arguments, rule)
        called.app = app.id
        headers |= _scopes(app, rule)
        if rule.post_only and request.method != "POST":
            raise Refused("insecure_request")
        if fault is not None and fault.kind == "error":
            raise Refused(fault.error)
        _check_needs(arguments, rule)
        self._platform.rates.check(app.id, called.method, rule.tier, arguments.text("channel"))
        return FUNCTIONS[called.method](Call(platform=self._platform, app=app, arguments=arguments))

    def _authorised(self, request: Request, arguments: Arguments, rule: MethodRule) -> App:
        in_body = "" if request.content_type == "application/json" else arguments.text("token")
        token = request.bearer or in_body
        if not token:
            raise Refused("not_authed")
        app = self._platform.team.app_of(token)
        if app is None:
            raise Refused("invalid_auth")
        if app.app_token_revoked if token == app.app_token else app.revoked:
            raise Refused("token_revoked")
        if rule.token != ("app" if token == app.app_token else "bot"):
            raise Refused("not_allowed_token_type")
        _check_scopes(app, rule)
        return app


def _told(request: Request) -> Json:
    """Return the arguments as the ledger keeps them: without the token, nothing of what cannot be read."""
    try:
        return {name: value for name, value in read_arguments(request).values.items() if name != "token"}
    except Refused:
        return {}


def _check_scopes(app: App, rule: MethodRule) -> None:
    whole = [each for each in rule.scopes if not each.endswith(":")]
    if whole and _provided(app, rule).isdisjoint(whole):
        raise missing_scope(whole[0], _provided(app, rule))


def _provided(app: App, rule: MethodRule) -> set[str]:
    return set(APP_SCOPES) if rule.token == "app" else app.scopes


def _scopes(app: App, rule: MethodRule) -> dict[str, str]:
    """Return the headers that tell what the token may do and what the method takes."""
    told = {"X-OAuth-Scopes": ",".join(sorted(_provided(app, rule)))}
    return told | ({"X-Accepted-OAuth-Scopes": ",".join(rule.scopes)} if rule.scopes else {})


def _check_needs(arguments: Arguments, rule: MethodRule) -> None:
    if missing := [name for name in rule.needs if name not in arguments.values]:
        raise Refused("invalid_arguments", *(f"[ERROR] missing required field: {name}" for name in missing))


def _instead(fault: Fault | None) -> Answer | None:
    """Return what is answered in place of doing anything."""
    if fault is None:
        return None
    if fault.kind == "ratelimited":
        headers = {"Retry-After": str(round(fault.seconds))}
        return json_answer(Refused("ratelimited").body(), status=429, headers=headers)
    if fault.kind == "status":
        return text_answer(f"<html><body>{fault.status}</body></html>", status=fault.status, content_type="text/html")
    return text_answer("", status=444) if fault.kind == "lost_request" else None


def _warned(request: Request, body: Json) -> Json:
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    if kind.strip() != "application/json" or "charset" in rest:
        return body
    metadata = {**body.get("response_metadata", {}), "warnings": ["missing_charset"]}
    return {**body, "warning": "missing_charset", "response_metadata": metadata}
