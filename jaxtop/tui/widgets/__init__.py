"""Widgets: decide size, take keys and mouse; what they show is drawn by renderables."""
