"""Benchmarks: tasks with labels that others made, what a judge gets on them, and what others got."""
