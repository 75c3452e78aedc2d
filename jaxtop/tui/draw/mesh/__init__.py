"""The mesh as text: where each device is, and what its cell shows."""
