"""Deterministic pixel measurements of an edit: what changed between source and candidate, and how well."""
