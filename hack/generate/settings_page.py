"""Writes docs/settings.md to standard output, from what the settings declare of themselves."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_origin

import msgspec

from karmada_vc_agent.config.decoding import (
    REQUIRED,
    Setting,
    flags_of,
    part_of,
    settings_of,
    struct_of,
)
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.quantity import Duration, QuantityText, Size
from karmada_vc_agent.model.virtual_cluster import (
    LabelSelector,
    VirtualCluster,
    VirtualClusterSettings,
)
from karmada_vc_agent.model.vocabulary import CONFIG_API_VERSION

_HEAD = f"""\
# Settings

`hack/update-settings` writes this page from `karmada_vc_agent/config/settings.py`, the folders of
`karmada_vc_agent/features/` and `karmada_vc_agent/model/virtual_cluster.py`: change it there.

The settings file is YAML with `apiVersion: {CONFIG_API_VERSION}` and
`kind: AgentConfig`. What is one value can also be set by an environment variable or a flag; the
last one wins: file, environment, flag. [flags.md](flags.md) compares the flags with those of
karmada-agent.

* A *duration* is `500ms`, `40s`, `2m` or `1h30m`; in the file also a number of seconds.
* A *size* is a number of bytes, or a quantity such as `64Mi`.
* A *quantity* is as in Kubernetes: `500m`, `2`, `1.5Gi`.
* A *boolean* is set by `--leader-elect`, `--leader-elect=false` or `--no-leader-elect`, and in the
  environment by `true` or `false`.
* `null` is as if the setting were not there. In a virtual cluster it is refused, except for
  `nodeSelector`, `applyAs` and what is in `bounds`.
"""
_COLUMNS = ("Setting", "Type", "Default", "Unit", "What it does")
_FLAG_COLUMNS = (_COLUMNS[0], "Flag", "Environment variable", *_COLUMNS[1:])
_TYPES: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    Duration: "duration",
    Size: "size",
    QuantityText: "quantity",
}
_Cells = tuple[str, ...]


class _Rows:
    """Rows of tables; what is in a struct is shown once, and referred to after that."""

    def __init__(self) -> None:
        self._shown: dict[Any, str] = {}

    def refer(self, struct: Any, where: str) -> None:
        """Refer to another place for a struct; "" = not any more."""
        self._shown[struct] = where

    def of(self, settings: Iterable[Setting], path: str = "") -> Iterator[_Cells]:
        """Yield a row for each setting, and for those inside of it."""
        for setting in settings:
            where, struct = f"{path}{setting.key}", _struct_inside(setting)
            seen = self._shown.get(struct, "")
            kind = f"{_type_of(setting)}, as in `{seen}`" if seen else _type_of(setting)
            yield (_code(where), kind, *_meaning(setting))
            if struct is None or struct is VirtualCluster or seen:
                continue
            self._shown[struct] = where
            dot = "." if struct_of(setting.kind) else "[]."
            yield from self.of(settings_of(struct), f"{where}{dot}")


def page() -> str:
    """Return the text of docs/settings.md."""
    flags = (
        (_code(each.key), _code(each.flag), _code(each.variable), _type_of(each), *_meaning(each))
        for each in flags_of(CONFIG)
    )
    rows = _Rows()
    rows.refer(LabelSelector, "virtualClusters[].nodeSelector")
    rows.refer(VirtualClusterSettings, "virtualClusters[]")
    in_file = [*rows.of(setting for setting in settings_of(CONFIG) if not setting.is_flag)]
    rows.refer(LabelSelector, "")
    of_cluster = rows.of(settings_of(VirtualCluster), "virtualClusters[].")
    return "\n".join(
        (
            _HEAD,
            "## File, environment and flags\n",
            *_table(_FLAG_COLUMNS, flags),
            "\n## Only in the file\n",
            *_table(_COLUMNS, in_file),
            "\n## A virtual cluster\n",
            *_table(_COLUMNS, of_cluster),
            "",
        )
    )


def _table(columns: _Cells, rows: Iterable[_Cells]) -> Iterator[str]:
    for cells in (columns, ("---",) * len(columns), *rows):
        yield f"| {' | '.join(cells)} |"


def _meaning(setting: Setting) -> _Cells:
    unit = (setting.range.unit if setting.range else "") or (
        "s" if setting.kind is Duration else ""
    )
    return _default_of(setting), unit, setting.help


def _default_of(setting: Setting) -> str:
    default = setting.default
    if default is REQUIRED:
        return "required"
    if isinstance(default, msgspec.Struct) or default in ("", None):
        return ""
    if isinstance(default, tuple | frozenset):
        return _code(f"[{', '.join(default)}]")
    return _code(setting.default_text)


def _type_of(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(_code(choice) for choice in setting.choices if choice)
    allowed = f", {setting.range.text(setting.kind)}" if setting.range else ""
    return _named(setting.kind) + allowed


def _named(kind: Any, *, is_plural: bool = False) -> str:
    part, origin = part_of(kind), get_origin(kind)
    if kind not in _TYPES and part is not None and origin is not dict:
        holder = "map" if isinstance(origin, type) and issubclass(origin, Mapping) else "list"
        return f"{holder} of {_named(part, is_plural=True)}"
    name = _TYPES.get(kind, "object")
    if not is_plural:
        return name
    return "quantities" if name == "quantity" else f"{name}s"


def _struct_inside(setting: Setting) -> Any:
    return struct_of(setting.kind) or struct_of(part_of(setting.kind))


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(page())
