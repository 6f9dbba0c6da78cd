"""The cache of programs for the control planes for tests."""

import pytest

from control_planes import golang, tools
from control_planes.errors import ControlPlanesError

GO_MOD = """module example

go 1.26

require k8s.io/kubernetes v1.34.4

require (
	k8s.io/api v0.34.4 // indirect
)
"""


def test_key_depends_on_everything_that_decides_the_build() -> None:
    keys = {
        tools.cache_key("mod", "sum", "flags"),
        tools.cache_key("mod2", "sum", "flags"),
        tools.cache_key("mod", "sum2", "flags"),
        tools.cache_key("mod", "sum", "flags2"),
        tools.cache_key("mods", "um", "flags"),
    }

    assert len(keys) == 5
    assert tools.cache_key("mod", "sum", "flags") in keys


@pytest.mark.parametrize(
    ("module", "version"), [("k8s.io/kubernetes", "v1.34.4"), ("k8s.io/api", "v0.34.4")]
)
def test_required_version_is_read_from_go_mod(module: str, version: str) -> None:
    assert tools.required_version(GO_MOD, module) == version


def test_module_that_is_not_required_is_refused() -> None:
    with pytest.raises(ControlPlanesError, match=r"k8s\.io/kube$"):
        tools.required_version(GO_MOD, "k8s.io/kube")


def test_version_of_kubernetes_is_linked_in() -> None:
    kubernetes = next(module for module in tools.MODULES if module.name == "kubernetes")
    flags = tools.linker_flags(kubernetes, GO_MOD)

    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=34" in flags


@pytest.mark.parametrize("module", tools.MODULES, ids=lambda module: module.name)
def test_each_program_is_a_tool_of_its_go_mod(module: tools.ToolModule) -> None:
    go_mod = (module.directory / "go.mod").read_text()

    for package in module.packages.values():
        assert package in go_mod


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8", (1, 26)), ("go1.27rc1", (1, 27)), ("devel +abc", None), ("", None)],
)
def test_go_version_is_parsed(text: str, version: tuple[int, int] | None) -> None:
    assert golang.parse_go_version(text) == version


def test_default_version_is_that_of_go_mod_and_has_no_pin() -> None:
    minor = tools.default_minor(tools.KUBERNETES)

    assert tools.pinned(tools.KUBERNETES, "") is tools.KUBERNETES
    assert tools.pinned(tools.KUBERNETES, minor) is tools.KUBERNETES


@pytest.mark.parametrize("module", [tools.KUBERNETES, tools.KARMADA], ids=lambda each: each.name)
def test_each_pin_is_of_its_minor_and_builds_all_programs(module: tools.ToolModule) -> None:
    for minor in tools.minors(module):
        go_mod = tools.pinned(module, minor).go_mod.read_text()

        version = tools.required_version(go_mod, module.version_of)
        assert version.startswith(f"v{minor}.")
        assert all(package in go_mod for package in module.packages.values())
        assert tools.pinned(module, minor).go_sum.exists()


def test_version_that_is_not_pinned_is_refused_with_those_that_are() -> None:
    with pytest.raises(ControlPlanesError, match=r"kubernetes 1\.2 is not pinned; there are .*1\."):
        tools.pinned(tools.KUBERNETES, "1.2")


def test_hub_of_the_same_version_needs_no_programs_of_its_own() -> None:
    assert tools.Versions("1.32", "1.32").of_hub == ()
    assert [each.modfile for each in tools.Versions("", "1.32").of_hub] == ["1.32.mod"]
    assert str(tools.Versions("1.32", "", "1.17")) == " --kubernetes 1.32 --karmada 1.17"
