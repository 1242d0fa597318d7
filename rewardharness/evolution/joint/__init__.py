"""The joint fit: weights of many criteria from all training examples at once."""
