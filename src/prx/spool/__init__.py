"""Append-only, checksummed segments between the hot path and the record store."""
