"""Templates for the names of discovered virtual clusters: `branch-{name}`."""

import re

from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH

GROUP_NAME = "{name}"
"""Placeholder of the name of a NodeGroup."""
LABEL_VALUE = "{value}"
"""Placeholder of the value of a label of nodes."""
_LITERAL = re.compile(r"[a-z0-9-]*")


def template_problem(template: str, placeholder: str) -> str | None:
    """Return what is wrong with a template, or None; each name is checked once it is made."""
    if template.count(placeholder) != 1:
        return f'"{template}" must contain {placeholder} once'
    literal = template.replace(placeholder, "")
    if not _LITERAL.fullmatch(literal):
        return f'"{template}" may contain lower-case letters, digits and "-" around {placeholder}'
    if len(literal) >= CLUSTER_NAME_MAX_LENGTH:
        return f'"{template}" is too long: a name has at most {CLUSTER_NAME_MAX_LENGTH} letters'
    return None


def name_from(template: str, placeholder: str, text: str) -> str:
    """Return the name for a text; no two texts have the same. It may be no name of a Cluster."""
    return template.replace(placeholder, text)
