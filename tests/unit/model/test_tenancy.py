"""Which guards hold in which profile, and what opens them."""

import pytest

from karmada_vc_agent.model.virtual_cluster import (
    GUARDS_IN_BOTH,
    SHARED,
    STRICT,
    Guard,
    allowance_problem,
    refuses,
)


@pytest.mark.parametrize("guard", Guard)
def test_strict_refuses_all_and_shared_what_acts_on_others(guard: Guard) -> None:
    assert refuses(STRICT, (), guard)
    assert refuses(SHARED, (), guard) == (guard in GUARDS_IN_BOTH)


@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
@pytest.mark.parametrize("guard", Guard)
def test_allow_opens_one_guard_in_either_profile(tenancy: str, guard: Guard) -> None:
    assert not refuses(tenancy, (guard,), guard)
    others = tuple(other for other in Guard if other is not guard)
    assert refuses(tenancy, others, guard) == refuses(tenancy, (), guard)


def test_allow_may_name_one_kind() -> None:
    allow = ("argoproj.io/Application",)
    assert not refuses(STRICT, allow, Guard.CONTROLLER_KINDS, "argoproj.io/Application")
    assert not refuses(STRICT, allow, Guard.CONTROLLER_KINDS, "argoproj.io/Application/shop")
    assert refuses(STRICT, allow, Guard.CONTROLLER_KINDS, "argoproj.io/AppProject")


def test_allow_may_name_one_object() -> None:
    allow = ("scheduling.k8s.io/PriorityClass/high",)
    assert not refuses(STRICT, allow, Guard.SHARED_KINDS, "scheduling.k8s.io/PriorityClass/high")
    assert refuses(STRICT, allow, Guard.SHARED_KINDS, "scheduling.k8s.io/PriorityClass/low")


@pytest.mark.parametrize("entry", ["", "/Kind", "group/", "a/b/", "a//c", "a/b/c/d", "hostPath"])
def test_what_names_nothing_is_a_problem(entry: str) -> None:
    assert allowance_problem(entry)


@pytest.mark.parametrize(
    "entry", ["HostPath", "helm.cattle.io/HelmChart", "helm.cattle.io/HelmChart/a"]
)
def test_a_guard_or_a_kind_is_no_problem(entry: str) -> None:
    assert allowance_problem(entry) is None
