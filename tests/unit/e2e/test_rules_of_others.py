"""Which lines of `doctor` are about CRDs of other stories: none about built-in kinds."""

import pytest

from e2e.lab.joining import RULES_OF_OTHERS

ROLE = "host: ClusterRole vc-agent:e2e-1"


@pytest.mark.parametrize(
    ("group", "is_others"),
    [
        ("e2e-2.example.com", True),
        ("apps.kubeedge.io", True),
        ("gateway.networking.k8s.io", True),
        ("metrics.k8s.io", True),
        ("networking.k8s.io", False),
        ("rbac.authorization.k8s.io", False),
        ("virtualcluster.kubeedge.io", False),
        ("apps", False),
        ("e2e-2.example.com, apps", False),
        ('""', False),
        ('"*"', False),
    ],
)
@pytest.mark.parametrize("what", ["lacks rule", "differs: .rules: -"])
def test_line(what: str, group: str, *, is_others: bool) -> None:
    rule = f"{{apiGroups: [{group}], resources: [things], verbs: [get]}}"
    assert bool(RULES_OF_OTHERS.match(f"{ROLE} {what} {rule}; next: join")) == is_others


def test_another_finding_is_none_of_others() -> None:
    assert RULES_OF_OTHERS.match(f"{ROLE} is missing; next: join") is None
