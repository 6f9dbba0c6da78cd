"""for_each: one that fails stops no other; an outage stops all."""

import pytest

from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import for_each

HELD = ForbiddenError(403, "Held", "audit")
HELD.is_intended = True
DENIED = ForbiddenError(403, "Forbidden", "no")
OUTAGE = UnreachableError("no answer")


async def called(*errors: KubeError | None) -> tuple[list[int], Exception | None]:
    """Return which calls were made, and what was raised."""
    made: list[int] = []

    async def call(number: int) -> int:
        made.append(number)
        error = errors[number]
        if error is not None:
            raise error
        return number

    try:
        assert await for_each(range(len(errors)), call) == made
    except KubeError as error:
        return made, error
    return made, None


@pytest.mark.parametrize(
    ("errors", "calls", "raised"),
    [
        ((None, None), 2, None),
        ((HELD, None, None), 3, HELD),
        ((HELD, DENIED, None), 3, DENIED),
        ((DENIED, OUTAGE, None), 2, OUTAGE),
    ],
)
async def test_the_others_are_called_and_the_error_is_raised(
    errors: tuple[KubeError | None, ...], calls: int, raised: Exception | None
) -> None:
    assert await called(*errors) == (list(range(calls)), raised)
