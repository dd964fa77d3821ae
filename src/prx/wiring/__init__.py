"""The one place that knows which store, model and clock stand behind a port."""
