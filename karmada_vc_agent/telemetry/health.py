"""/healthz and /readyz as Kubernetes answers them: named checks, each well or with a reason."""

from collections.abc import Callable, Collection, Mapping


class Remark(str):
    """What a check that is well has to say all the same; shown where all checks are."""

    __slots__ = ()


Checks = Callable[[], Mapping[str, str | None]]
"""Returns the checks of now: name -> None or a Remark where all is well, else what is wrong."""

PING = "ping"
"""Well whenever an answer comes at all: a stuck event loop gives none."""


def answer(
    endpoint: str,
    checks: Mapping[str, str | None],
    *,
    only: str = "",
    exclude: Collection[str] = (),
    verbose: bool = False,
) -> tuple[int, str]:
    """Return HTTP status and text: 200 where all checks are well, else 500; 404 for no check.

    only: the one check asked for, as in /healthz/ping. A failure is told in full always:
    whoever reads it is to know which part it is.
    """
    known = {PING: None, **checks}
    if only:
        if only not in known:
            return 404, f"no such check: {only}; there are {', '.join(known)}\n"
        known = {only: known[only]}
    left = {name: reason for name, reason in known.items() if name not in exclude}
    is_well = not any(_is_failed(reason) for reason in left.values())
    if is_well and not verbose:
        return 200, "ok"
    lines = [
        f"[+]{name} excluded: ok" if name not in left else _line(name, reason)
        for name, reason in known.items()
    ]
    lines.append(f"{endpoint} check {'passed' if is_well else 'failed'}")
    return (200 if is_well else 500), "\n".join(lines) + "\n"


def _line(name: str, reason: str | None) -> str:
    if _is_failed(reason):
        return f"[-]{name} failed: {reason}"
    return f"[+]{name} ok: {reason}" if reason else f"[+]{name} ok"


def _is_failed(reason: str | None) -> bool:
    return bool(reason) and not isinstance(reason, Remark)
