"""Names of settings in the file."""

_INITIALISMS = {"api": "API", "qps": "QPS", "cidrs": "CIDRs", "dns": "DNS", "url": "URL"}


def camel(name: str) -> str:
    """Return the name of a setting in the file: `kube_api_qps` -> `kubeAPIQPS`."""
    first, *rest = name.split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)
