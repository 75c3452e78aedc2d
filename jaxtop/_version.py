"""The version of jaxtop."""

__version__ = "0.1.0"
