"""What a document of OpenAPI cannot say, for the requests that are meant to be valid."""

import json
import os
import urllib.error
import urllib.request

import schemathesis

URL = os.environ["SEMAFORO_OPENAPI_URL"]
HEADERS = json.loads(os.environ["SEMAFORO_OPENAPI_HEADERS"])


def ask(target):
    """The headers of the answer, if there is a good one."""
    request = urllib.request.Request(f"{URL}/v1/{target}", headers=HEADERS, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.headers
    except urllib.error.HTTPError as error:
        # It is there already, with other settings.
        assert error.code == 409, (target, error.code)
        return error.headers


SESSION = ask("sessions/OPEN?ttl=86400000")["Semaforo-Session"]
# All that were opened.
SESSIONS = {SESSION}
# Objects of these names are there when they are asked for: names that come again, see the settings.
NAMES = {"a", "b"}
SETTINGS = {"semaphores": "permits=5", "latches": "count=3", "events": "reset=auto", "queues": ""}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Lets valid requests find what they are about, as far as it is up to the client: an object, and
    a session instead of one that was made up, or where another parameter needs one."""
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_valid:
        return
    kind, _, method = case.operation.path.removeprefix("/v1/").partition("/{name}/")
    name = (case.path_parameters or {}).get("name")
    if name in NAMES and kind in SETTINGS and method != "CREATE":
        ask(f"{kind}/{name}/CREATE?{SETTINGS[kind]}")
    query = case.query
    if not isinstance(query, dict) or case.operation.path.endswith("/CLOSE"):
        return
    needs_one = "seq" in query or "acked" in query or query.get("ack") == "manual"
    if (needs_one or "session" in query) and query.get("session") not in SESSIONS:
        query["session"] = SESSION


@schemathesis.hook
def after_call(context, case, response):
    """Remembers a session that was opened."""
    SESSIONS.update(response.headers.get("semaforo-session", []))
