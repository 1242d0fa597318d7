"""Provenance records: which preferences are behind a reward, what was trained with it, and what it scored."""
