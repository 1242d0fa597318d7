"""Run folders: the manifest, results and record of a run."""
