"""docs/tenants.md as text: what tenants and nodes can write, and what holds it."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator

from karmada_vc_agent.translation import guards
from karmada_vc_agent.translation.kind_policy import Policy
from tenant_table.fields import NODES, Served, fields, granted, of_works, recorded, written
from tenant_table.rows import find, of_fields, of_resources, rows

_WIDTH = 160
_HEAD = (
    "What tenants can write of what Kubernetes {version}, Gateway API, volume snapshots, "
    "external-dns and KubeEdge serve, which of it can name, select, address, mount, schedule on or "
    "outlive something outside of the virtual cluster, and what holds it. `hack/update-tenants` "
    "generates this page from the API server's discovery and OpenAPI "
    "(`hack/tenant_table/recording.json`; of the others `extensions.yaml`), the agent's tables "
    "and the rows of `rows.yaml`; `hack/check` fails for a resource, subresource or "
    "field without a row, and for a rule that no attempt of `e2e/escapes` tries. What a rule "
    "leaves is in [security.md](security.md#what-remains)."
)
_WRITERS = (
    "Tenants: what `virtual-cluster-admin` grants. `vc-admin`, `vc-edit` and `vc-view` are cuts of "
    "it, Roles of Works and accounts of `applyAs` have at most that, and clients of the gateway "
    "have what they have without it, and Namespaces. Nodes: what `system:node` grants. What is not "
    "here nobody of them may write."
)
_KEYS = (
    ("LoadBalancerAddresses", guards.ANNOTATIONS["load_balancer_keys"]),
    ("ExternalDNS", guards.ANNOTATIONS["dns_names"]),
    ("PodAddresses", guards.ANNOTATIONS["pod_addresses"]),
)
OTHERS = "other kinds"
"""The rule for kinds of groups that no table names."""


def page() -> str:
    """Return the whole page."""
    head = _HEAD.format(version=recorded()["version"])
    parts = (
        f"# What tenants may touch\n\n{_fill(head)}\n",
        f"## Resources\n\n{_fill(_WRITERS)}\n",
        _table(
            ("Resource", "Works", "Tenants", "Nodes", "Rule"),
            (*map(_resource, written()), _OF_OTHERS),
        ),
        "## Rules\n",
        _table(("Rule", "By", "How", "Attempts"), _rules()),
        "## Fields\n\n### Held\n",
        *_fields(),
        '## <a id="annotations"></a>Annotations\n',
        _table(("What", "Annotations"), _annotations()),
        "## What the agent believes of nodes\n",
        _table(("Field", "For", "What holds it"), _believed()),
    )
    return "\n".join(parts)


def _resource(served: Served) -> tuple[str, ...]:
    works = of_works(served.name)
    may = recorded()["resources"][served.name]["verbs"]
    verbs = {"connect"} if may == ["connect"] else granted(served.name) & {*may}
    nodes = NODES.get(served.name, ())
    row = find(served.name, of_resources())
    by_gateway = "gateway" if "gateway" in served.writers else "-"
    return (
        f"`{served.name.removeprefix('/')}`",
        "-" if works is Policy.REFUSE else works.value,
        _verbs(verbs) if "tenants" in served.writers else by_gateway,
        _verbs(set(nodes)),
        _link(row[1]) if row else "",
    )


def _verbs(verbs: set[str]) -> str:
    order = ("create", "update", "patch", "delete", "connect")
    return "all" if {*order[:-1]} <= verbs else ", ".join(v for v in order if v in verbs) or "-"


def _rules() -> Iterator[tuple[str, ...]]:
    for name, rule in rows()["rules"].items():
        tried = "; ".join(rule["tried"])
        yield f'<a id="{_anchor(name)}"></a>{name}', rule["by"], rule["text"], tried


def _fields() -> Iterator[str]:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in sorted(fields()):
        row = find(each, of_fields())
        if row:
            kind, _, field = each.partition(".")
            found[row[1]][kind].append(field)
    for name in rows()["rules"]:
        if name in found:
            types = "; ".join(f"`{kind}`: {', '.join(f)}" for kind, f in found.pop(name).items())
            yield _bullet(f"{_link(name)}: {types}")
    yield "\n### Inside\n"
    for why, by_type in found.items():
        types = ", ".join(f"`{kind}`" for kind in by_type)
        yield _bullet(f"**{why}**: {types}")
    yield ""


def _annotations() -> Iterator[tuple[str, ...]]:
    for guard, keys in _KEYS:
        yield f"guard: {guard}", _codes(keys)
    for row in rows()["annotations"]:
        said = [f"{what}: {why}" for what, why in row.items() if what not in ("keys", "rule")]
        said += [_link(row["rule"])] if "rule" in row else []
        yield "; ".join(said), _codes(row["keys"].split())


def _believed() -> Iterator[tuple[str, ...]]:
    for field, row in rows()["believed"].items():
        yield f"`{field}`", row["for"], _link(row["rule"]) if "rule" in row else row["why"]


def _codes(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _link(rule: str) -> str:
    return f"[{rule}](#{_anchor(rule)})"


def _anchor(rule: str) -> str:
    return rule.replace(" ", "-")


_OF_OTHERS = (
    "every other group",
    "apply; Strict: `allow`",
    "all; Strict: `allow`",
    "-",
    _link(OTHERS),
)


def _table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    marks = f"|{'---|' * len(head)}"
    every = (f"| {' | '.join(line)} |" for line in (head, *lines))
    return "\n".join((next(every), marks, *every)) + "\n"


def _fill(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _bullet(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="* ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
