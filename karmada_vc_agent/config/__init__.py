"""Settings: what there is, how they are read from file, environment and flags, and checked."""
