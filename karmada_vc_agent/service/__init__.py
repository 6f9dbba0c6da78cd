"""Runs what there is while this process leads, and lists the controllers."""
