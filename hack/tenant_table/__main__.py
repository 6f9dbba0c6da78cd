"""Writes docs/tenants.md: `hack/update-tenants [OPENAPI]`."""

import sys
from pathlib import Path

from tenant_table.page import page
from tenant_table.recording import FILE, from_files, text

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"

if __name__ == "__main__":
    if len(sys.argv) > 1:
        version, folder = sys.argv[1:]
        FILE.write_text(text(from_files(version, Path(folder))))
    PAGE.write_text(page())
