"""The buffers of a program at its peak."""
