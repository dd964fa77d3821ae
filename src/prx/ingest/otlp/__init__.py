"""Traces of OpenTelemetry as records: leaf inference spans, whichever dialect names their attributes."""
