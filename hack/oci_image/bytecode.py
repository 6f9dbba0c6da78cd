"""Bytecode of Python files, as hash-based .pyc files (PEP 552): equal for equal sources.

The agent's root file system is read-only, so Python cannot keep any by itself.
"""

import importlib.util
import marshal
import sys
import warnings
from collections.abc import Iterable, Iterator

from oci_image.layers import Entry

_UNCHECKED = (0b01).to_bytes(4, "little")
"""Flags: by hash, and nobody compares it with the source."""


def can_compile_for(python: str) -> bool:
    """Whether this Python makes bytecode for that version, such as `3.11`."""
    return python == f"{sys.version_info.major}.{sys.version_info.minor}"


def with_bytecode(entries: Iterable[Entry], below: str) -> Iterator[Entry]:
    """Yield the entries, and the bytecode of each Python file in a directory of the image."""
    for entry in entries:
        yield entry
        is_python = entry.name.startswith(f"{below}/") and entry.name.endswith(".py")
        if is_python and not entry.link and (compiled := _compiled(entry)) is not None:
            yield Entry(importlib.util.cache_from_source(entry.name), compiled)


def _compiled(entry: Entry) -> bytes | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(entry.content, f"/{entry.name}", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # a template, or for another Python
        return None
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(entry.content)
    return head + marshal.dumps(code)
