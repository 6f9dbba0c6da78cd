"""Commands of pages are read as they are shown, and typed one behind the other."""

import os
from pathlib import Path

import pytest

from e2e.kind import pages
from e2e.kind.pages import Reader, Step, comparable, steps
from e2e.kind.test_pages import PREPARED, commands_of

PAGE = """
```console
$ one \\
    --two   # why
shown
...
$ three
```
<!-- run by e2e/test_other.py -->
```console
$ elsewhere
```
```yaml
not: run
```
```bash
cat <<END
$ four
END
```
"""


def test_steps_of_a_page() -> None:
    assert list(steps(PAGE)) == [
        Step("one      --two   # why", ("shown",)),
        Step("three"),
        Step("cat <<END\n$ four\nEND\n"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("north   True   1m3s", "north True 7s"),
        ("teller-7d6c9f6b5-6c5dp  1/1", "teller-5b8f6c9d7c-x9k2p 1/1"),
        ("karmada-vc-5c2f80-host-worker v1.34.4", "karmada-vc-ffffff-host-worker v1.35.0"),
    ],
)
def test_what_varies_is_not_compared(shown: str, printed: str) -> None:
    assert comparable(shown) == comparable(printed)


def test_counts_and_names_are_compared() -> None:
    assert len(set(map(comparable, ["north 1/1", "north 0/1", "south 1/1"]))) == 3


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, {"PATH": os.defpath})


def test_a_shell_remembers_variables_and_aliases(reader: Reader) -> None:
    for command in (
        "alias say='echo said'",
        "names=(north south)",
        "export MORE=yes",
        "now=$(echo x >>lines; wc -l <lines)",
    ):
        reader.type(Step(command))
    reader.type(Step("say ${names[1]} $now; bash -c 'echo $MORE'", ("said south 1", "yes")))


def test_a_command_that_fails_ends_it(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="exit code 1"):
        reader.type(Step("false | true"))


def test_output_that_is_not_as_shown_ends_it(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_WITHIN_S", 0.0)
    with pytest.raises(AssertionError, match="prints no"):
        reader.type(Step("echo north", ("south",)))


def test_a_command_is_repeated_until_it_prints_what_is_shown(reader: Reader) -> None:
    reader.type(Step("echo x >>lines; wc -l <lines", ("3",)))


@pytest.mark.parametrize("page", ["tutorial.md", "install.md"])
def test_pages_have_commands_and_what_is_prepared_is_on_them(page: str) -> None:
    assert len(commands_of(page)) >= 10
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    assert any(f"$ {command}" in text for command in PREPARED)
