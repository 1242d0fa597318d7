"""Measuring pixels: what changed between a source and a candidate, and how well. No model, no randomness."""
