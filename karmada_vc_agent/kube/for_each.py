"""A call for each of several objects, one of which must not stop the others."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from karmada_vc_agent.kube.errors import UnreachableError

T = TypeVar("T")
R = TypeVar("R")


async def for_each(items: Iterable[T], call: Callable[[T], Awaitable[R]]) -> list[R]:
    """Return the results of a call for each item, in order; one that fails stops no other.

    Raises the first error at the end; one that an administrator intends only if there is no other.
    An outage concerns all that would follow, and is raised at once.
    """
    results: list[R] = []
    errors: list[Exception] = []
    for item in items:
        try:
            results.append(await call(item))
        except UnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: getattr(error, "is_intended", False))
    return results
