"""Trackers of experiments: trackio, Weights & Biases and TensorBoard receive the numbers of runs."""
