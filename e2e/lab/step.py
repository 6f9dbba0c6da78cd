"""A step of what an agent writes, at which it is killed (dying.py)."""

import msgspec

VARIABLE = "E2E_DIES_AT"
PROGRAM, AGENT = "e2e.lab.dying", "karmada_vc_agent"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Where it dies: at the nth request that is like this, before it is sent or once answered.

    methods: with blanks between. path, body: regular expressions, found anywhere in them. armed:
    a file; requests count once it is there.
    """

    methods: str
    path: str
    body: str = ""
    nth: int = 1
    is_before: bool = False
    armed: str = ""


def program_for(at: Step | None, environment: dict[str, str]) -> str:
    """Return the program to run, and let the environment say where it dies; None: nowhere."""
    if at is None:
        return AGENT
    environment[VARIABLE] = msgspec.json.encode(at).decode()
    return PROGRAM
