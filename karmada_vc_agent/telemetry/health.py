"""/healthz and /readyz as Kubernetes serves them: named checks that pass or fail."""

from collections.abc import Callable, Collection, Mapping


class Remark(str):
    """A note of a check that passes; shown by verbose."""

    __slots__ = ()


Checks = Callable[[], Mapping[str, str | None]]
"""Returns the current checks: name -> None or a Remark if it passes, else the reason."""

PING = "ping"
"""Passes whenever there is an answer at all: a stuck event loop gives none."""


def answer(
    endpoint: str,
    checks: Mapping[str, str | None],
    *,
    only: str = "",
    exclude: Collection[str] = (),
    verbose: bool = False,
) -> tuple[int, str]:
    """Return HTTP status and text: 200 if all checks pass, else 500; 404 for an unknown check.

    only: a single check, as in /healthz/ping. Reasons of failures are always shown, so that readers
    know which part failed.
    """
    named = {PING: None, **checks}
    if only:
        if only not in named:
            return 404, f"unknown check {only}; must be one of {', '.join(named)}\n"
        named = {only: named[only]}
    left = {name: reason for name, reason in named.items() if name not in exclude}
    is_well = not any(_is_failed(reason) for reason in left.values())
    if is_well and not verbose:
        return 200, "ok"
    lines = [
        f"[+]{name} excluded: ok" if name not in left else _line(name, reason)
        for name, reason in named.items()
    ]
    lines.append(f"{endpoint} check {'passed' if is_well else 'failed'}")
    return (200 if is_well else 500), "\n".join(lines) + "\n"


def _line(name: str, reason: str | None) -> str:
    if _is_failed(reason):
        return f"[-]{name} failed: {reason}"
    return f"[+]{name} ok: {reason}" if reason else f"[+]{name} ok"


def _is_failed(reason: str | None) -> bool:
    return bool(reason) and not isinstance(reason, Remark)
