"""The Lineage tab."""
