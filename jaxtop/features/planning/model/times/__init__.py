"""The time of a step: where it goes today, and what it is on another mesh."""
