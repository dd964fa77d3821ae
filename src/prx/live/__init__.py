"""The hot path of SDK and gateway: memory only, no SQL, no numpy, no settings."""
