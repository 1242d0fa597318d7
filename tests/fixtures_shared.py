"""For property tests that use a fixture of their function: all examples of a test share it, and each must bear that."""

from hypothesis import HealthCheck

SHARED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
"""Health checks that such a test does without; the first as in the profile, which a list of its own replaces."""
