"""Run folders: what was asked, what came of it, line by line."""
