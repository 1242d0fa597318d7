"""Editors of images, and the jobs that compare them and improve their edits."""
