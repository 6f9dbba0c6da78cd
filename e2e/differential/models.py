"""The resource models a Cluster gets from the server where it names none (contract 1.2).

Our agent reports modelings only where the settings have models (contract trap 16).
"""

from e2e.lab.api import Object

_CPU = ("0", "1", "2", "4", "8", "16", "32", "64", "128", "9223372036854775807")
_MEMORY = (
    *("0", "4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti"),
    "9223372036854775807",
)

DEFAULT_MODELS: list[Object] = [
    {
        "grade": grade,
        "ranges": [
            {"name": name, "min": steps[grade], "max": steps[grade + 1]}
            for name, steps in (("cpu", _CPU), ("memory", _MEMORY))
        ],
    }
    for grade in range(len(_CPU) - 1)
]
