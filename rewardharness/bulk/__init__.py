"""Judging of many candidates of many edits: best of N, filtering of datasets, preference data for reward models."""
