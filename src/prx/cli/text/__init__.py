"""Results as text: pure functions from a view's answer and a width to lines."""
