"""System prompts as templates: learned from traffic, accepted by a person, served by version."""
