"""Widgets: they decide the size and handle keys and mouse; the renderables in `draw` draw."""
