"""Datasets of edit preferences: reading folders, splitting, storing feedback, drawing a demo dataset."""
