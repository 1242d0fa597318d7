"""Libraries of Skills and Tools: reading, checking, changing and writing them. All their text is untrusted."""
