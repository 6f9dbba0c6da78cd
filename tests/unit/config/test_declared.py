"""Settings say of themselves what docs, command line and checks need."""

from collections.abc import Iterator

import msgspec
import pytest

from karmada_vc_agent.config.decoding import Setting, flags_of, part_of, settings_of, struct_of
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.quantity import Duration


def everything(struct: type[msgspec.Struct] = CONFIG) -> Iterator[Setting]:
    """Yield each setting and those inside of it."""
    for setting in settings_of(struct):
        yield setting
        inside = struct_of(setting.kind) or struct_of(part_of(setting.kind))
        if inside is not None:
            yield from everything(inside)


def named(name: str) -> Setting:
    (found,) = (setting for setting in settings_of(CONFIG) if setting.name == name)
    return found


@pytest.mark.parametrize("setting", list(everything()), ids=lambda setting: str(setting.name))
def test_each_setting_says_what_it_does(setting: Setting) -> None:
    assert setting.help.endswith((".", ")"))


@pytest.mark.parametrize("setting", flags_of(CONFIG), ids=lambda setting: str(setting.name))
def test_each_number_has_a_range(setting: Setting) -> None:
    if setting.kind in (int, float, Duration):
        assert setting.range is not None, "declare it as Annotated[int, Range(...)], or the like"
        assert setting.range.problem(setting.default) is None


def test_what_is_one_value_is_a_flag() -> None:
    flags = {setting.name for setting in flags_of(CONFIG)}
    assert {"agent_name", "leader_elect", "log_level", "resync_period"} < flags
    assert not {"virtual_clusters", "bounds", "pod_cidrs", "cluster_scoped_kinds"} & flags


def test_setting_knows_its_names_and_its_default() -> None:
    setting = named("kube_api_qps")
    assert (setting.key, setting.flag, setting.default_text) == (
        "kubeAPIQPS",
        "--kube-api-qps",
        "400",
    )
    assert named("rate_limiter_base_delay").default_text == "5ms"
    assert named("log_format").choices == ("text", "json")
    assert named("leader_elect").default_text == "true"


def test_help_for_terminals_names_pages_without_markdown() -> None:
    texts = [setting.plain_help for setting in everything()]
    assert any("(docs/isolation.md)" in text for text in texts)
    assert not [text for text in texts if "](" in text]
