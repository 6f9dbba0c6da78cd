"""What `doctor --bundle` writes: objects and logs without secrets."""

import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from karmada_vc_agent.model.objects import Object

REMOVED = "(removed)"
_KEPT_OF_WORKS = ("apiVersion", "kind", "metadata", "status")
_SECRET_KEY = re.compile(
    r"token|passw|secret|credential|private|([._-]|api|access|account|encryption)key(-data)?$"
    r"|authorization$",
    re.IGNORECASE,
)
"""Names of fields, variables and settings whose texts are removed, but for names of objects."""
_WHOLE = re.compile(r"\s*[\[{]|\S{200}")  # annotations with JSON, or encoded
_SAFE_KEY = re.compile(r"names?$", re.IGNORECASE)
_ARGUMENT = re.compile(
    r"\A(?!--[a-z-]+(?:=(?:/[\w./-]*|true|false))?\Z)((?:--[a-z-]+=?)?).*", re.DOTALL
)
"""A word for a container, with the flag that stays of it: only paths and switches stay whole."""
_SECRET_TEXT = re.compile(
    r"-----BEGIN[^-]+-----.*?(-----END[^-]+-----|\Z)"  # PEM
    r"|eyJ[\w-]{8,}(\.[\w-]+)*"  # JWT
    r"|(?<=bearer )\S+|(?<=basic )[\w+/=]{8,}"
    r"|(?<![a-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9.])"  # bootstrap token
    r"|(?<=://)[^/\s]*:[^/\s]*(?=@)"  # user:password of a URL
    r"|(client-(key|certificate)-data|token|passw(or)?d|secret|credentials?|[._-]key|api_?key)"
    r"\\*['\"]?\s*[:=]\s*(\\*\"[^\"]*\"|\\*'[^']*'|[^\s'\",}]+)"
    r"|--(token|password|secret) \S+"
    r"|(LS0tLS1CRUdJTi|YXBpVmVyc2lvbj|ZXlK)[\w+/=]*",  # PEM, kubeconfig and JWT in base64
    re.IGNORECASE | re.DOTALL,
)


def without_secrets(value: Any, key: str = "") -> Any:
    """Return a copy without data of Secrets, tokens, keys and kubeconfigs, wherever they are."""
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            value = {**value, **dict.fromkeys({"data", "stringData"} & value.keys(), REMOVED)}
        if str(value.get("kind")) == "Work":  # manifests may be Secrets of tenants
            value = {name: value[name] for name in _KEPT_OF_WORKS if name in value}
        if "name" in value and value.get("value"):  # of an environment, or a header
            value = {**value, "value": REMOVED}
        if key == "annotations":  # a whole object, or what an override set in a Secret
            value = {name: REMOVED if _WHOLE.match(str(v)) else v for name, v in value.items()}
        return {
            field: without_secrets(inner, field)
            for field, inner in value.items()
            if field != "managedFields"
        }
    if isinstance(value, list):
        if key in ("command", "args"):
            value = [_ARGUMENT.sub(rf"\1{REMOVED}", str(each)) for each in value]
        return [without_secrets(each, key) for each in value]
    if not isinstance(value, str):
        return value
    if value and _SECRET_KEY.search(key) and not _SAFE_KEY.search(key):
        return REMOVED
    return text_without_secrets(value)


def text_without_secrets(text: str) -> str:
    """Return a log or another text without what looks like a secret."""
    return _SECRET_TEXT.sub(REMOVED, text)


def write(path: Path, objects: Mapping[str, list[Object]], texts: Mapping[str, str]) -> None:
    """Write a .tar.gz: <name>.json of each list of objects, and texts. Raises OSError."""
    files = {
        f"{name}.json": json.dumps(without_secrets(items), indent=1, sort_keys=True)
        for name, items in objects.items()
    } | {name: text_without_secrets(text) for name, text in texts.items()}
    path.touch(0o600)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"doctor/{name}")
            content = text.encode(errors="replace")
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
