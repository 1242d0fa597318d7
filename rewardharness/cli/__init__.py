"""The command `rh`."""
