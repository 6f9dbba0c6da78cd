"""Names of discovered virtual clusters."""

import pytest

from karmada_vc_agent.config.checks import NAME_PLACEHOLDER, template_problem


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{name}", None),
        ("branch-{name}", None),
        ("{name}-x9", None),
        ("branch", "must contain {name} once"),
        ("{name}-{name}", "must contain {name} once"),
        ("branch-{value}", "must contain {name} once"),
        ("Branch-{name}", "lower-case letters"),
        ("{x}{name}", "lower-case letters"),
        (f"{'a' * 48}{{name}}", "is too long"),
    ],
)
def test_template_is_checked(template: str, problem: str | None) -> None:
    found = template_problem(template, NAME_PLACEHOLDER)
    assert (problem in found) if problem and found else found is problem
