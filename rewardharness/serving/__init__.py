"""Judging over HTTP: the reward server, its client, and what both say to each other."""
