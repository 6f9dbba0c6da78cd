"""JSON merge patches (RFC 7386)."""

from karmada_vc_agent.model.objects import Object


def merge_patch(old: Object, new: Object) -> Object:
    """Return the patch that changes `old` to `new`; {} if they are equal.

    Removed members become null, lists are replaced as a whole. `new` contains no nulls.
    """
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif value != before or key not in old:
            patch[key] = value
    return patch
