"""Names: vectors of rewriting-rules 1.1, injectivity, the way back."""

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.context import (
    Direction,
    Names,
    NamespaceTemplate,
    home_of,
    host_name,
    host_namespace,
)
from karmada_vc_agent.translation.kind_policy import Code, RefusedError

DEFAULT = NamespaceTemplate("-v-")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

VECTORS = [
    ("edge", "branch-a", "edge-v-branch-a"),
    ("default", "branch-a", "default-v-branch-a"),
    ("a-v-b", "c", "a-v-b-v-c--a49913c7bdfd"),
    ("a", "b-v-c", "a-v-b-v-c--1c2bb93f44c3"),
    ("a-v", "b", "a-v-v-b--a4da9e2bbeea"),
    ("a", "v-b", "a-v-v-b--c397079ec062"),
    ("a--b", "c", "a--b-v-c--b78899b86a55"),
    ("x" * 63, "y" * 48, "x" * 23 + "-v-" + "y" * 23 + "--20be3464082a"),
]

labels = st.from_regex(r"[av]|[av][av-]{0,60}[av]", fullmatch=True) | st.from_regex(
    r"[a-z0-9]|[a-z0-9][a-z0-9-]{0,61}[a-z0-9]", fullmatch=True
)
names = labels | st.from_regex(r"[av.:-]{1,253}|[a-z]{180,253}", fullmatch=True)
clusters = labels.filter(lambda name: len(name) <= 48)
separators = st.sampled_from(["-v-", "-", "v", "--v"[1:], "-in-", "-of-the-cluster-named-"])
templates = st.builds(NamespaceTemplate, separators, st.booleans())
pairs = st.tuples(labels, clusters)


def names_of(
    cluster: str = "branch-a",
    claims: dict[str, str] | None = None,
    noted: dict[str, str] | None = None,
    template: NamespaceTemplate = DEFAULT,
) -> Names:
    typed = {VirtualNamespace(k): HostNamespace(v) for k, v in (claims or {}).items()}
    return Names(cluster, template, typed, noted=noted or {})


@pytest.mark.parametrize(("namespace", "cluster", "expected"), VECTORS)
def test_host_namespace_is_as_the_rules_say(namespace: str, cluster: str, expected: str) -> None:
    assert host_namespace(DEFAULT, VirtualNamespace(namespace), cluster) == expected


def _adversarial(length: int) -> Iterator[str]:
    for size in range(1, length + 1):
        for letters in itertools.product("av-", repeat=size):
            text = "".join(letters)
            if LABEL.fullmatch(text):
                yield text


def test_host_namespaces_of_all_short_adversarial_names_differ() -> None:
    texts = list(_adversarial(6))
    seen = {host_namespace(DEFAULT, VirtualNamespace(ns), vc) for ns in texts for vc in texts}
    assert len(seen) == len(texts) ** 2 == 236_196


@pytest.mark.parametrize("separator", ["-", "v", "-v", "v-v"])
@pytest.mark.parametrize("cluster_first", [False, True])
def test_host_namespaces_differ_with_other_templates(separator: str, cluster_first: bool) -> None:
    template = NamespaceTemplate(separator, cluster_first)
    texts = list(_adversarial(4))
    seen = {host_namespace(template, VirtualNamespace(ns), vc) for ns in texts for vc in texts}
    assert len(seen) == len(texts) ** 2


@settings(deadline=None)
@given(templates, pairs, pairs)
@example(DEFAULT, ("a-v-b", "c"), ("a", "b-v-c"))
@example(DEFAULT, ("a-v", "b"), ("a", "v-b"))
@example(DEFAULT, ("x" * 62 + "a", "c"), ("x" * 62 + "b", "c"))
def test_host_namespace_is_injective(
    template: NamespaceTemplate, one: tuple[str, str], other: tuple[str, str]
) -> None:
    hosts = {host_namespace(template, VirtualNamespace(ns), vc) for ns, vc in (one, other)}
    assert len(hosts) == len({one, other})


def test_host_names_of_all_short_adversarial_names_differ() -> None:
    texts = list(_adversarial(5))
    seen = {host_name(name, vc) for name in texts for vc in texts}
    assert len(seen) == len(texts) ** 2


@settings(deadline=None)
@given(st.tuples(names, clusters), st.tuples(names, clusters))
@example(("a-v-b", "c"), ("a", "b-v-c"))
@example(("x" * 250 + "a", "c"), ("x" * 250 + "b", "c"))
@example(("a", "b--c"), ("a-v-b", "c"))
def test_host_name_is_injective(one: tuple[str, str], other: tuple[str, str]) -> None:
    hosts = {host_name(name, cluster) for name, cluster in (one, other)}
    assert len(hosts) == len({one, other})
    assert all(len(host) <= 253 for host in hosts)


@settings(deadline=None)
@given(templates, pairs)
@example(DEFAULT, ("x" * 22 + "-y", "y" * 22 + "--z"))
def test_host_namespace_is_a_label(template: NamespaceTemplate, pair: tuple[str, str]) -> None:
    host = host_namespace(template, VirtualNamespace(pair[0]), pair[1])
    assert len(host) <= 63
    assert LABEL.fullmatch(host)


@pytest.mark.parametrize(
    "text", ["{namespace}-v-{cluster}", "{cluster}-in-{namespace}", "{namespace}-{cluster}"]
)
def test_template_is_written_as_it_was_read(text: str) -> None:
    assert str(NamespaceTemplate.parse(text)) == text


def test_template_says_where_the_cluster_is() -> None:
    template = NamespaceTemplate.parse("{cluster}-in-{namespace}")
    assert host_namespace(template, VirtualNamespace("edge"), "b") == "b-in-edge"


@pytest.mark.parametrize(
    "text",
    [
        "{namespace}-v-",
        "{namespace}-{namespace}-{cluster}",
        "{namespace}-{namespace}",
        "{namespace}{cluster}",
        "{namespace}_{cluster}",
        "{namespace}-V-{cluster}",
        "{namespace}--{cluster}",
        "x-{namespace}-v-{cluster}",
        "{namespace}-v-{cluster}-x",
        "{namespace}-v-{cluster}\n",
        "{namespace}" + "x" * 48 + "{cluster}",
    ],
)
def test_template_is_refused_with_what_it_must_be(text: str) -> None:
    with pytest.raises(ValueError, match="a short separator between them"):
        NamespaceTemplate.parse(text)


def test_longest_separator_still_gives_a_label() -> None:
    template = NamespaceTemplate.parse("{namespace}" + "x" * 47 + "{cluster}")
    host = host_namespace(template, VirtualNamespace("edge" * 4), "b")
    assert len(host) == 63
    assert host.startswith("e" + "x" * 47 + "b--")


@pytest.mark.parametrize(
    ("name", "cluster", "expected"),
    [
        ("reader", "branch-a", "reader-v-branch-a"),
        ("system:node", "c", "system:node-v-c"),
        ("a-v-b", "c", "a-v-b-v-c--a49913c7bdfd"),
        ("a", "b-v-c", "a-v-b-v-c--1c2bb93f44c3"),
    ],
)
def test_host_name_is_as_the_rules_say(name: str, cluster: str, expected: str) -> None:
    assert host_name(name, cluster) == expected


def test_host_name_of_a_long_name_is_cut_and_hashed() -> None:
    name = "x" * 179 + "." + "y" * 73
    host = host_name(name, "branch-a")
    assert host.startswith("x" * 179 + "-v-branch-a--")
    assert len(host) <= 253
    assert host != host_name(name[:-1] + "z", "branch-a")


@settings(deadline=None)
@given(st.from_regex(r"[av]{1,4}(-v-[av]{1,3})?", fullmatch=True), clusters)
def test_host_name_is_given_back(name: str, cluster: str) -> None:
    assert names_of(cluster).virtual_name(host_name(name, cluster)) == name


@pytest.mark.parametrize("name", ["reader", "pvc-1b2c", "reader-v-branch-b", "x--0123456789ab"])
def test_foreign_host_name_is_not_given_back(name: str) -> None:
    assert names_of("branch-a").virtual_name(name) is None


def test_claim_beats_computation_both_ways() -> None:
    known = names_of(claims={"edge": "legacy"})
    assert known.host_namespace("edge") == "legacy"
    assert known.virtual_namespace("legacy") == "edge"


def test_claim_beats_guess_when_a_name_looks_computed() -> None:
    known = names_of(claims={"edge": "ops-v-branch-a"})
    assert known.virtual_namespace("ops-v-branch-a") == "edge"


def test_place_of_another_namespace_is_refused() -> None:
    known = names_of(claims={"edge": "ops-v-branch-a"})
    with pytest.raises(RefusedError) as caught:
        known.host_namespace("ops")
    assert caught.value.refusal.code is Code.NAMESPACE_CLAIM_CONFLICT
    assert "branch-a" not in caught.value.refusal.detail


def test_note_beats_guess() -> None:
    known = names_of(noted={"ops-v-branch-a": "other"})
    assert known.virtual_namespace("ops-v-branch-a") == "other"


@pytest.mark.parametrize("host", ["kube-system", "edge-v-branch-b", "edge", "branch-a"])
def test_foreign_namespace_is_not_given_back(host: str) -> None:
    assert names_of("branch-a").virtual_namespace(host) is None


@settings(deadline=None)
@given(templates, labels, clusters)
def test_every_mapped_namespace_is_given_back(
    template: NamespaceTemplate, namespace: str, cluster: str
) -> None:
    direction = Direction(names_of(cluster, template=template), to_host=True)
    host = direction.selected_namespace(namespace)
    back = names_of(cluster, noted=direction.noted, template=template)
    assert back.virtual_namespace(host) == namespace


@settings(deadline=None)
@given(st.from_regex(r"[av.]{1,200}", fullmatch=True), clusters)
@example("x" * 200, "branch-a")
def test_every_mapped_name_is_given_back(name: str, cluster: str) -> None:
    direction = Direction(names_of(cluster), to_host=True)
    host = direction.name(name)
    assert names_of(cluster, noted=direction.noted).virtual_name(host) == name


def test_short_names_need_no_note() -> None:
    direction = Direction(names_of(claims={"x" * 60: "legacy"}), to_host=True)
    for namespace in ("edge", "a-v-b", "a--b", "x" * 23 + "", "x" * 60):
        direction.selected_namespace(namespace)
    assert direction.noted == {}


@pytest.mark.parametrize(
    "namespace",
    [
        "vc-system",
        "kube-system",
        "kube-public",
        "kube-x",
        "karmada-system",
        "karmada-cluster",
        "karmada-es-branch-a",
    ],
)
def test_special_namespace_is_forbidden(namespace: str) -> None:
    known = names_of()
    assert known.forbids(namespace)
    with pytest.raises(RefusedError) as caught:
        Direction(known, to_host=True).namespace(namespace, "spec.x")
    assert caught.value.refusal.code is Code.REFERENCE_FORBIDDEN
    assert caught.value.refusal.path == "spec.x"


@pytest.mark.parametrize("namespace", ["default", "edge", "karmada", "kube", "vc", "karmada-es"])
def test_ordinary_namespace_is_allowed(namespace: str) -> None:
    assert not names_of().forbids(namespace)


@given(pairs, st.lists(labels, max_size=3))
def test_adopted_namespaces_keep_their_names_and_meet_no_others(
    pair: tuple[str, str], adopted: list[str]
) -> None:
    namespace, cluster = VirtualNamespace(pair[0]), pair[1]
    computed = host_namespace(DEFAULT, namespace, cluster)
    listed = [namespace, computed, *adopted]
    homes = [home_of(DEFAULT, VirtualNamespace(each), cluster, listed) for each in {*listed}]
    assert len({*homes}) == len(homes)
    assert home_of(DEFAULT, namespace, cluster, [computed]) == computed
    found = Names(cluster, DEFAULT, {}, (), adopted=tuple(listed))
    assert found.virtual_namespace(found.host_namespace(namespace)) == namespace


def test_an_adopted_namespace_is_the_one_of_its_name() -> None:
    found = Names("branch-a", DEFAULT, {}, adopted=("shop", "edge-v-branch-a"))
    assert found.host_namespace("shop") == "shop"
    assert found.host_namespace("edge") == "edge-v-branch-a"
    assert found.host_namespace("edge-v-branch-a").startswith("edge-v-branch-a-v-branch-a--")
    assert found.virtual_namespace("shop") == "shop"
    assert found.virtual_namespace("edge-v-branch-a") == "edge"
    assert found.virtual_namespace("other") is None
