"""What a 403 of the host means to a tenant whose manifests are applied with limited rights."""

import re

from karmada_vc_agent.model.rbac_rule import Rule
from karmada_vc_agent.model.virtual_cluster import ApplyAs

_CANNOT = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_GROUPS = re.compile(r" \(groups=\[[^\]]*\]\)")


def explain_denial(text: str, cluster: str, apply_as: ApplyAs) -> str:
    """Return an answer of the host without the account's name, and with the missing rule.

    text: of the 403, already in virtual names. Answers other than those of RBAC, such as those of
    an admission policy, only lose the account's name. Source: rewriting-rules 7, ADR 14.
    """
    match = _CANNOT.search(text)
    if match is not None and match["verb"] == "impersonate" and apply_as.is_default:
        return (
            f'virtual cluster "{cluster}": the agent may not impersonate the account of this '
            "virtual cluster (tenancy Strict); run karmada-vc-agent join"
        )
    if match is not None and match["verb"] == "impersonate":
        return (
            f'virtual cluster "{cluster}": the agent may not impersonate the ServiceAccount of '
            'setting applyAs; grant it verb "impersonate" on that ServiceAccount'
        )
    if match is not None and match["user"] == apply_as.user:
        where = f" in namespace {match['namespace']}" if match["namespace"] else ""
        kind = f"{match['resource']}.{match['group']}".rstrip(".")
        rule = Rule((match["group"],), (match["resource"],), (match["verb"],))
        return (
            f'virtual cluster "{cluster}" may not {match["verb"]} {kind}{where}: '
            f"its account on the host lacks the rule {rule}"
        )
    account = f'the account of virtual cluster "{cluster}"'
    text = _GROUPS.sub("", text)
    return text.replace(f'"{apply_as.user}"', account).replace(apply_as.user, account)
