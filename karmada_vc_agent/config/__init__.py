"""Settings: declared, read from file, environment and flags, and validated."""
