"""The step that a run repeats, and its duration. The package is pure: numbers in, numbers out."""
