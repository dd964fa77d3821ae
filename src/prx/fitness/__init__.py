"""Fitness: what a session and a deployment score, from what was recorded of them."""
