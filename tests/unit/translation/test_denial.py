"""What tenants are told where their account on the host lacks a right."""

import pytest

from karmada_vc_agent.model.virtual_cluster import ApplyAs
from karmada_vc_agent.translation.rbac_rules import explain_denial

ACCOUNT = ApplyAs("tenants", "branch-a")


USER = 'User "system:serviceaccount:tenants:branch-a"'
AGENT = 'User "system:serviceaccount:x:agent"'
MAY_NOT = 'virtual cluster "branch-a" may not'
LACKS = "its account on the host lacks the rule"
GRANTS = "is attempting to grant RBAC permissions not currently held"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                f'deployments.apps is forbidden: {USER} cannot create resource "deployments" '
                'in API group "apps" in the namespace "edge"'
            ),
            (
                f"{MAY_NOT} create deployments.apps in namespace edge: {LACKS} "
                "{apiGroups: [apps], resources: [deployments], verbs: [create]}"
            ),
        ),
        (
            (
                f'persistentvolumes "x" is forbidden: {USER} cannot update resource '
                '"persistentvolumes" in API group "" at the cluster scope'
            ),
            (
                f"{MAY_NOT} update persistentvolumes: {LACKS} "
                '{apiGroups: [""], resources: [persistentvolumes], verbs: [update]}'
            ),
        ),
        (
            (
                f'serviceaccounts "a" is forbidden: {AGENT} cannot impersonate resource '
                '"serviceaccounts" in API group "" in the namespace "tenants"'
            ),
            (
                'virtual cluster "branch-a": the agent may not impersonate its account on the '
                "host; run karmada-vc-agent join, or for setting applyAs grant it verb "
                '"impersonate"'
            ),
        ),
        (
            f'roles "r" is forbidden: {USER.lower()} (groups=["a" "b"]) {GRANTS}',
            (f'roles "r" is forbidden: user the account of virtual cluster "branch-a" {GRANTS}'),
        ),
        ("exceeded quota: vc-quota", "exceeded quota: vc-quota"),
        (
            'pods is forbidden: User "someone" cannot create resource "pods" in API group ""',
            'pods is forbidden: User "someone" cannot create resource "pods" in API group ""',
        ),
    ],
    ids=["namespaced", "cluster-scoped", "no impersonation", "escalation", "quota", "another"],
)
def test_answer_names_the_missing_rule_and_not_the_account(text: str, expected: str) -> None:
    assert explain_denial(text, "branch-a", ACCOUNT) == expected
