"""Language models by role: the port, an OpenAI-compatible endpoint, and one meter over all calls."""
