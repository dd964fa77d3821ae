"""Frameworks that call models themselves, recorded through the hooks that they offer."""
