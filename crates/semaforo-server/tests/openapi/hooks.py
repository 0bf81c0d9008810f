"""What a document of OpenAPI cannot say, for the requests that are meant to be valid."""

import os

import schemathesis

SESSION = os.environ["SEMAFORO_OPENAPI_SESSION"]
# All that were opened.
SESSIONS = {SESSION}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Says a session that was opened: instead of one that was made up, and where another parameter
    needs one, which a parameter cannot demand."""
    query, closes = case.query, case.operation.path.endswith("/CLOSE")
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_valid or not isinstance(query, dict):
        return
    needs_one = "seq" in query or "acked" in query or query.get("ack") == "manual"
    if (needs_one or "session" in query) and query.get("session") not in SESSIONS and not closes:
        query["session"] = SESSION


@schemathesis.hook
def after_call(context, case, response):
    SESSIONS.update(response.headers.get("semaforo-session", []))
