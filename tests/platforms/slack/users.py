"""users.*, auth.*, api.* and apps.*: who is who."""

from __future__ import annotations

from .call import Call, Method
from .messages import Json
from .pages import page
from .refusals import Refused


def info(call: Call) -> Json:
    """Describe a user."""
    person = call.platform.team.people.get(call.text("user"))
    if person is None:
        raise Refused("user_not_found")
    return {"user": person.payload()}


def listed(call: Call) -> Json:
    """List everybody."""
    return page(call, "members", [each.payload() for each in call.platform.team.people.values()])


def auth_test(call: Call) -> Json:
    """Tell whose token this is."""
    team = call.platform.team
    return {
        "url": f"https://{team.domain}.slack.com/",
        "team": team.domain.title(),
        "user": call.app.name,
        "team_id": team.id,
        "user_id": call.app.bot_user,
        "bot_id": call.app.bot_id,
        "is_enterprise_install": False,
    }


def api_test(call: Call) -> Json:
    """Answer with the arguments."""
    if call.arguments.given("error"):
        raise Refused(call.text("error"), args=call.arguments.values)
    return {"args": call.arguments.values}


def connections_open(call: Call) -> Json:
    """Return the address of a socket."""
    return {"url": call.platform.sockets.address(call.app)}


USERS: dict[str, Method] = {
    "api.test": api_test,
    "apps.connections.open": connections_open,
    "auth.test": auth_test,
    "users.info": info,
    "users.list": listed,
}
