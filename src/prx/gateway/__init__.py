"""The way in over HTTP: clients change a base URL, every request is recorded, nothing else changes."""
